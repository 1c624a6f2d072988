//! Places text on the page: line breaks, list markers, capitals.

/// Deeper nesting than this is not shown by more indentation.
const MAX_DEPTH: usize = 12;
const RULE: &str = "----------------------------------------";

/// A page being written.
pub(super) struct Layout {
    out: String,
    limit: usize,
    /// Line ends due before the next text.
    breaks: usize,
    space: bool,
    /// Whether the current line has text next tos its indentation.
    has_text: bool,
    /// The mark of a list item, due before its first text.
    mark: Option<String>,
    headings: u32,
    preformatted: u32,
    quotes: usize,
    /// The next number of each open list; `None` for lists without numbers.
    lists: Vec<Option<i32>>,
    cells: u32,
}

impl Layout {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            out: String::new(),
            limit,
            breaks: 0,
            space: false,
            has_text: false,
            mark: None,
            headings: 0,
            preformatted: 0,
            quotes: 0,
            lists: Vec::new(),
            cells: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.out.len() >= self.limit
    }

    pub(super) fn finish(self) -> String {
        let text = self.out.trim_end();
        text.trim_start_matches('\n').to_owned()
    }

    pub(super) fn text(&mut self, text: &str) {
        for character in text.chars() {
            if self.is_full() {
                return;
            }
            match character {
                '\n' if self.preformatted > 0 => self.line_end(),
                '\t' | ' ' if self.preformatted > 0 => self.put(character),
                ' ' | '\t' | '\n' | '\r' | '\u{c}' => self.space = true,
                // Nothing to see, or worse: for a terminal.
                '\u{200b}' | '\u{feff}' => {}
                other if other.is_control() => {}
                other => self.put(other),
            }
        }
    }

    pub(super) fn open(&mut self, name: &str, start: Option<i32>) {
        let (before, _) = breaks_around(name);
        self.due(before);
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.headings += 1,
            "pre" | "xmp" | "plaintext" | "listing" => self.preformatted += 1,
            "blockquote" => self.quotes += 1,
            "ul" | "menu" | "dir" => self.lists.push(None),
            "ol" => self.lists.push(Some(start.unwrap_or(1))),
            "li" => self.item(),
            "br" => self.line_end(),
            "hr" => {
                self.text(RULE);
                self.due(2);
            }
            "tr" => self.cells = 0,
            "td" | "th" => {
                if self.cells > 0 && self.has_text {
                    self.out.push_str("   ");
                    self.space = false;
                }
                self.cells += 1;
            }
            _ => {}
        }
    }

    pub(super) fn close(&mut self, name: &str) {
        let (_, after) = breaks_around(name);
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.headings = self.headings.saturating_sub(1),
            "pre" | "xmp" | "plaintext" | "listing" => {
                self.preformatted = self.preformatted.saturating_sub(1)
            }
            "blockquote" => self.quotes = self.quotes.saturating_sub(1),
            "ul" | "menu" | "dir" | "ol" => {
                self.lists.pop();
            }
            _ => {}
        }
        self.due(after);
    }

    fn item(&mut self) {
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!(" {number}. ");
                *number = number.saturating_add(1);
                mark
            }
            Some(None) | None => " * ".to_owned(),
        };
        self.mark = Some(mark);
    }

    /// Asks for line ends before whatever comes next.
    fn due(&mut self, breaks: usize) {
        if breaks > 0 {
            self.breaks = self.breaks.max(breaks);
            self.space = false;
        }
    }

    /// A line end that the page itself asks for.
    fn line_end(&mut self) {
        if self.breaks > 0 && !self.out.is_empty() {
            self.flush_breaks();
        }
        self.breaks = 0;
        self.out.push('\n');
        self.has_text = false;
        self.space = false;
    }

    fn flush_breaks(&mut self) {
        let present = self.out.len() - self.out.trim_end_matches('\n').len();
        for _ in present..self.breaks {
            self.out.push('\n');
        }
        self.breaks = 0;
        self.has_text = false;
    }

    fn put(&mut self, character: char) {
        if self.breaks > 0 {
            if self.out.is_empty() {
                self.breaks = 0;
            } else {
                self.flush_breaks();
            }
        }
        if !self.has_text {
            self.begin_line();
        } else if self.space {
            self.out.push(' ');
        }
        self.space = false;
        self.has_text = true;
        if self.headings > 0 {
            self.out.extend(character.to_uppercase());
        } else {
            self.out.push(character);
        }
    }

    fn begin_line(&mut self) {
        for _ in 0..self.quotes.min(MAX_DEPTH) {
            self.out.push_str("> ");
        }
        let depth = self.lists.len().min(MAX_DEPTH);
        match self.mark.take() {
            Some(mark) => {
                self.out.push_str(&"  ".repeat(depth.saturating_sub(1)));
                self.out.push_str(&mark);
            }
            None => self.out.push_str(&"   ".repeat(depth)),
        }
    }
}

/// Line ends before and after an element; the numbers for headings and paragraphs are upstream's.
fn breaks_around(name: &str) -> (usize, usize) {
    match name {
        "h1" | "h2" | "h3" => (3, 2),
        "h4" | "h5" | "h6" | "p" | "blockquote" | "pre" | "table" | "hr" | "dl" | "xmp" | "listing" => (2, 2),
        // The inner list of a list follows its item at once.
        "li" | "tr" | "div" | "section" | "article" | "main" | "header" | "footer" | "nav" | "aside"
        | "address" | "figure" | "figcaption" | "form" | "fieldset" | "dt" | "dd" | "details" | "summary"
        | "option" | "caption" | "body" | "ul" | "ol" | "menu" | "dir" => (1, 1),
        _ => (0, 0),
    }
}
