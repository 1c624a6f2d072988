//! From the parser's events to lines.

use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::Look;
use super::table::{self, Cell};
use crate::code;
use crate::wrap::{Margin, chop, wrap};

pub(super) fn render(text: &str, look: Look<'_>) -> Vec<Line<'static>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page::new(look);
    for event in Parser::new_ext(text, options) {
        page.take(event);
    }
    page.flush();
    page.lines
}

/// A list that is open.
struct List {
    /// The next number; `None` for bullets.
    next: Option<u64>,
}

/// The lines so far, and the open blocks.
struct Page<'a> {
    look: Look<'a>,
    lines: Vec<Line<'static>>,
    spans: Vec<Span<'static>>,
    styles: Vec<Style>,
    lists: Vec<List>,
    /// The sign of an item whose first line is not written yet.
    sign: Option<String>,
    quotes: usize,
    code: Option<(String, String)>,
    table: Option<Vec<Vec<Cell>>>,
    /// How the columns of the table are aligned.
    sides: Vec<Alignment>,
    links: Vec<String>,
    /// A blank line belongs before the next block.
    apart: bool,
}

impl<'a> Page<'a> {
    fn new(look: Look<'a>) -> Self {
        Self {
            look,
            lines: Vec::new(),
            spans: Vec::new(),
            styles: vec![look.theme.response()],
            lists: Vec::new(),
            sign: None,
            quotes: 0,
            code: None,
            table: None,
            sides: Vec::new(),
            links: Vec::new(),
            apart: false,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::End(tag) => self.close(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => self.span(&text, self.look.theme.code()),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.span(&text, self.look.theme.code()),
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::FootnoteReference(text) => self.text(&CowStr::from(format!("[{text}]"))),
            Event::SoftBreak => self.span(" ", self.style()),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.begin();
                let rule = "─".repeat(usize::from(self.look.width.min(60)));
                self.lines.push(Line::from(Span::styled(rule, self.look.theme.border())));
                self.apart = true;
            }
            Event::TaskListMarker(done) => self.span(if done { "☑ " } else { "☐ " }, self.style()),
        }
    }

    fn open(&mut self, tag: Tag<'_>) {
        let style = self.style();
        match tag {
            Tag::Paragraph => self.begin(),
            Tag::Heading { level, .. } => {
                self.begin();
                let heading = self.look.theme.accent().add_modifier(Modifier::BOLD);
                self.styles.push(match level {
                    HeadingLevel::H1 => heading.add_modifier(Modifier::UNDERLINED),
                    HeadingLevel::H2 => heading,
                    _ => style.add_modifier(Modifier::BOLD),
                });
            }
            Tag::BlockQuote(_) => {
                self.begin();
                self.quotes += 1;
                self.apart = false;
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.begin();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',', '{']).next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.begin();
                }
                self.apart = false;
                self.lists.push(List { next: first });
            }
            Tag::Item => {
                self.flush();
                self.apart = false;
                self.sign = self.lists.last_mut().map(|list| match &mut list.next {
                    Some(number) => {
                        let sign = format!("{number}. ");
                        *number += 1;
                        sign
                    }
                    None => "• ".to_owned(),
                });
            }
            Tag::Emphasis => self.styles.push(style.add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(style.add_modifier(Modifier::BOLD)),
            Tag::Strikethrough => self.styles.push(style.add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.into_string());
                self.styles.push(self.look.theme.link());
            }
            Tag::Table(sides) => {
                self.begin();
                self.sides = sides;
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(rows) = &mut self.table {
                    rows.push(Vec::new());
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.flush();
                self.apart = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.apart = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.quotes = self.quotes.saturating_sub(1);
                self.apart = true;
            }
            TagEnd::CodeBlock => self.end_of_code(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.apart = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                self.sign = None;
                self.apart = false;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                self.end_of_link();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(row) = self.table.as_mut().and_then(|rows| rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let rows = self.table.take().unwrap_or_default();
                self.lines.extend(table::draw(&rows, &self.sides, self.look));
                self.apart = true;
            }
            _ => {}
        }
    }

    /// Where a link leads is shown unless its text says it: a text may claim another place.
    fn end_of_link(&mut self) {
        let Some(place) = self.links.pop() else { return };
        let shown: String = self.spans.last().map(|span| span.content.to_string()).unwrap_or_default();
        if !place.is_empty() && shown.trim_end_matches('/') != place.trim_end_matches('/') {
            let secondary = self.look.theme.secondary();
            self.spans.push(Span::styled(
                format!(" ({})", pollux_domain::terminal_text::one_line(&place)),
                secondary,
            ));
        }
    }

    fn end_of_code(&mut self) {
        let Some((language, text)) = self.code.take() else { return };
        let margin = self.margin();
        let count = text.lines().count();
        let digits = count.to_string().len();
        let indent = if self.lists.is_empty() { "  " } else { "" };
        for (index, spans) in code::highlight(&language, &text, self.look.theme).into_iter().enumerate() {
            let number = match self.look.line_numbers && count > 1 {
                true => format!("{indent}{:>digits$} ", index + 1),
                false => indent.to_owned(),
            };
            let number = Span::styled(number, self.look.theme.secondary());
            let blanks = Span::raw(" ".repeat(number.width()));
            let margin = Margin {
                first: [margin.rest.clone(), vec![number]].concat(),
                rest: [margin.rest.clone(), vec![blanks]].concat(),
            };
            self.lines.extend(chop(&spans, self.look.width, &margin));
        }
        self.apart = true;
    }

    fn text(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            code.push_str(text);
            return;
        }
        self.span(text, self.style());
    }

    fn span(&mut self, text: &str, style: Style) {
        self.spans.push(Span::styled(text.replace('\n', " "), style));
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    /// A block begins.
    fn begin(&mut self) {
        self.flush();
        if std::mem::take(&mut self.apart) && !self.lines.is_empty() {
            let margin = self.margin();
            self.lines.push(Line::from(margin.rest));
        }
    }

    /// The margin left of the text.
    fn margin(&mut self) -> Margin {
        let mut rest: Vec<Span<'static>> =
            (0..self.quotes).map(|_| Span::styled("│ ", self.look.theme.border())).collect();
        let depth = self.lists.len().saturating_sub(1);
        rest.push(Span::raw("  ".repeat(depth)));
        let mut first = rest.clone();
        if !self.lists.is_empty() {
            let sign = self.sign.take();
            let width = sign.as_ref().map_or(2, |sign| Span::raw(sign.as_str()).width());
            let blanks = Span::raw(" ".repeat(width));
            first.push(
                sign.map_or_else(|| blanks.clone(), |sign| Span::styled(sign, self.look.theme.accent())),
            );
            rest.push(blanks);
        }
        Margin { first, rest }
    }

    /// Writes the line under way.
    fn flush(&mut self) {
        if self.spans.is_empty() || self.table.is_some() {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        let margin = self.margin();
        self.lines.extend(wrap(&spans, self.look.width, &margin));
    }
}
