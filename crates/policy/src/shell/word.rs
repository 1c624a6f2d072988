//! Parses words: quote removal and expansions, character by character as in bash.

use super::braces;
use super::parser::{Parser, Problem};
use super::value::Piece;

/// One word of a command.
#[derive(Debug, Clone, Default)]
pub(super) struct Word {
    /// As written.
    pub raw: String,
    /// After quote removal; `None` if only known at run time.
    pub literal: Option<String>,
    /// Whether any of it was quoted, so that it is not a reserved word.
    pub quoted: bool,
    /// An unquoted file name pattern or a process substitution: `literal` is `None`, and this is the pattern.
    pub pattern: Option<String>,
    /// Whether the pattern's names come through a variable or a pipe.
    pub relayed: bool,
    /// Has unquoted braces that expand.
    pub braces: bool,
    /// The same of an assignment, whose braces expand only in the arguments of `export` and the like.
    pub braced_value: bool,
    /// `NAME=value` written as an assignment.
    pub assignment: Option<(String, Option<String>)>,
    /// The pieces of the word, or of the assigned value, if it depends on run time.
    pub pieces: Vec<Piece>,
}

impl Word {
    /// A word that needs no reading, as when a wrapper supplies it.
    pub(super) fn plain(text: &str) -> Self {
        Self { raw: text.to_owned(), literal: Some(text.to_owned()), ..Self::default() }
    }

    /// A word known only at run time.
    pub(super) fn unknown(raw: &str) -> Self {
        Self::made_of(raw, Piece::Unknown)
    }

    pub(super) fn made_of(raw: &str, piece: Piece) -> Self {
        Self { raw: raw.to_owned(), pieces: vec![piece], ..Self::default() }
    }

    /// A word that may be a file name pattern.
    pub(super) fn found(raw: &str, text: &str) -> Self {
        if !text.contains(['*', '?', '[', super::ANY_NAME, super::ANY_FOLDERS]) {
            return Self { raw: raw.to_owned(), ..Self::plain(text) };
        }
        Self { raw: raw.to_owned(), pattern: Some(text.to_owned()), relayed: true, ..Self::default() }
    }

    /// The value assigned to the variable.
    pub(super) fn value(&self) -> Option<Vec<Piece>> {
        let (name, value) = self.assignment.as_ref()?;
        if self.raw.strip_prefix(name.as_str())?.starts_with('+') {
            return None;
        }
        Some(value.as_ref().map_or_else(|| self.pieces.clone(), |text| vec![Piece::Text(text.clone())]))
    }

    /// `NAME=value` as `env` and similar programs read it; the value is `None` if only known at run time.
    pub(super) fn setting(&self) -> Option<(String, Option<String>)> {
        let (name, value) = self.literal.as_deref().unwrap_or(&self.raw).split_once('=')?;
        is_name(name).then(|| (name.to_owned(), self.literal.is_some().then(|| value.to_owned())))
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.literal.as_deref()
    }

    /// Whether it is exactly one word at run time, whatever that word is.
    pub(super) fn stays_one(&self) -> bool {
        self.literal.is_some() || self.pattern.is_none() && !self.pieces.is_empty() && self.splitting() == 0
    }

    /// How many of its pieces may be empty or several words.
    pub(super) fn splitting(&self) -> usize {
        let splits = |piece: &&Piece| match piece {
            Piece::Text(_) | Piece::Number | Piece::Output { sample: Some(_), .. } => false,
            Piece::Variable { name, quoted, .. } => !quoted || name == "@",
            Piece::Derived { quoted, .. } | Piece::Output { quoted, .. } => !quoted,
            Piece::Globs | Piece::Unknown => true,
        };
        self.pieces.iter().filter(splits).count()
    }
}

/// A word under construction.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    /// Where `text` got its characters unquoted.
    bare: Vec<bool>,
    /// The pieces known only at run time, and their positions in the text.
    unknown: Vec<(usize, Piece)>,
    quoted: bool,
    assigns: Option<(String, usize)>,
    /// Whether a process substitution is among them.
    pub(super) pipe: bool,
}

impl Draft {
    pub(super) fn bare(&mut self, c: char) {
        self.text.push(c);
        self.bare.push(true);
    }

    pub(super) fn quoted(&mut self, c: char) {
        self.text.push(c);
        self.bare.push(false);
        self.quoted = true;
    }

    pub(super) fn unknown(&mut self, piece: Piece) {
        self.unknown.push((self.bare.len(), piece));
    }

    /// The pieces that only run time knows.
    pub(super) fn unknowns(self) -> Vec<Piece> {
        self.unknown.into_iter().map(|(_, piece)| piece).collect()
    }

    /// Everything after the first characters, in order.
    fn pieces(&self, from: usize) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = from;
        let text: Vec<char> = self.text.chars().collect();
        let push = |pieces: &mut Vec<Piece>, at: usize, end: usize| {
            let part: String = text.get(at..end).unwrap_or_default().iter().collect();
            if !part.is_empty() {
                pieces.push(Piece::Text(part));
            }
        };
        for (place, piece) in &self.unknown {
            push(&mut pieces, at, *place);
            at = (*place).max(from);
            pieces.push(piece.clone());
        }
        push(&mut pieces, at, text.len());
        pieces
    }

    fn has_bare(&self, wanted: &[char]) -> bool {
        self.text.chars().zip(&self.bare).any(|(c, bare)| *bare && wanted.contains(&c))
    }

    fn finish(self, raw: String) -> Word {
        let braces = braces::expands(&self.text, &self.bare);
        let is_assignment = self.assigns.is_some();
        let globs =
            !is_assignment && self.has_bare(&['*', '?', '[']) && self.text != "[" && self.text != "[[";
        let unknown = !self.unknown.is_empty();
        let pieces = match &self.assigns {
            Some((_, from)) if unknown => self.pieces(*from),
            None if unknown && !self.pipe && !braces => {
                let mut pieces = self.pieces(0);
                pieces.extend(globs.then_some(Piece::Globs));
                pieces
            }
            None if unknown => vec![Piece::Unknown],
            _ => Vec::new(),
        };
        let known = !unknown && !globs && (!braces || is_assignment);
        let assignment = self.assigns.map(|(name, from)| {
            let value: String = self.text.chars().skip(from).collect();
            (name, (!unknown).then_some(value))
        });
        Word {
            raw,
            pattern: if self.pipe && self.unknown.len() == 1 && self.text.is_empty() {
                Some("/dev/fd/63".to_owned())
            } else {
                (!unknown && globs && !braces).then(|| self.text.clone())
            },
            literal: known.then_some(self.text),
            quoted: self.quoted,
            relayed: false,
            braces: braces && !is_assignment,
            braced_value: braces && is_assignment,
            assignment,
            pieces,
        }
    }
}

/// How a word ends and which characters are special in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// `NAME=value` is a word like any other: bash expands patterns and braces in it.
    Plain,
    /// `NAME=value` is an assignment.
    Assignment,
    /// The right side of `=~`, where `(`, `)` and `|` belong to the word.
    Regex,
}

impl Parser<'_, '_> {
    /// Parses a word; the caller has made sure that one starts here.
    pub(super) fn word(&mut self, mode: Mode) -> Result<Word, Problem> {
        let start = self.position();
        let mut draft = Draft::default();
        let mut open = 0_usize;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' if open == 0 => break,
                '<' | '>' if self.peek_at(1) == Some('(') => self.process_substitution(&mut draft)?,
                ';' | '&' | '<' | '>' => break,
                '(' if mode == Mode::Regex => {
                    open += 1;
                    self.keep(&mut draft);
                }
                ')' if mode == Mode::Regex && open > 0 => {
                    open -= 1;
                    self.keep(&mut draft);
                }
                '|' if mode == Mode::Regex && (open > 0 || self.peek_at(1) != Some('|')) => {
                    self.keep(&mut draft)
                }
                '(' if draft.assigns.as_ref().is_some_and(|(_, from)| *from == draft.bare.len()) => {
                    self.array(&mut draft)?;
                }
                '(' | ')' | '|' => break,
                '\\' => self.escape(&mut draft),
                '\'' => self.single_quoted(&mut draft)?,
                '"' => self.double_quoted(&mut draft)?,
                '$' => self.dollar(&mut draft, false)?,
                '`' => self.backticks(&mut draft, false)?,
                '=' if mode == Mode::Assignment => self.equals(&mut draft),
                _ => self.keep(&mut draft),
            }
        }
        if open > 0 || self.position() == start {
            return Err(Problem::syntax("expected a word"));
        }
        Ok(draft.finish(self.text_from(start)))
    }

    fn keep(&mut self, draft: &mut Draft) {
        if let Some(c) = self.next() {
            draft.bare(c);
        }
    }

    /// The first `=` after a bare name makes the word an assignment.
    fn equals(&mut self, draft: &mut Draft) {
        if draft.assigns.is_none() && !draft.quoted && draft.unknown.is_empty() {
            let target = draft.text.strip_suffix('+').unwrap_or(&draft.text);
            let name = target.split('[').next().unwrap_or_default();
            let subscripted = target.len() == name.len() || target.ends_with(']');
            if is_name(name) && subscripted {
                let name = name.to_owned();
                if target.len() != name.len() {
                    self.found().arrays = true;
                    let subscript = target.strip_prefix(&name).unwrap_or(target).replace(['[', ']'], " ");
                    self.check_arithmetic(&subscript);
                }
                draft.assigns = Some((name, draft.bare.len() + 1));
            }
        } else if draft.assigns.is_none() && is_name(draft.text.split('[').next().unwrap_or_default()) {
            // `a[$i]=x`: an assignment whose subscript is evaluated.
            let name = draft.text.split('[').next().unwrap_or_default().to_owned();
            if draft.text.contains('[') && draft.text.ends_with(']') {
                self.found().arrays = true;
                self.doubt("an array subscript is evaluated");
                draft.assigns = Some((name, draft.bare.len() + 1));
            }
        }
        self.keep(draft);
    }

    fn array(&mut self, draft: &mut Draft) -> Result<(), Problem> {
        self.next();
        self.found().arrays = true;
        draft.unknown(Piece::Unknown);
        loop {
            self.skip_blank_lines()?;
            match self.peek() {
                Some(')') => {
                    self.next();
                    return Ok(());
                }
                None => return Err(Problem::syntax("an array is not closed")),
                Some(_) => {
                    let element = self.word(Mode::Plain)?;
                    let traced = &mut self.found().traced;
                    traced.extend(element.pieces.clone());
                    self.element(&element);
                }
            }
        }
    }

    /// Bash evaluates the subscript of `[x]=v`. A subscript may hold blanks, so it may be several words here.
    fn element(&mut self, element: &Word) {
        let Some(inside) = element.raw.strip_prefix('[') else { return };
        let is_number = |index: &str| !index.is_empty() && index.chars().all(|c| c.is_ascii_digit());
        if !inside.split_once("]=").is_some_and(|(index, _)| is_number(index)) {
            self.doubt("an array subscript is evaluated");
        }
    }

    fn escape(&mut self, draft: &mut Draft) {
        self.next();
        match self.next() {
            Some('\n') => {}
            Some(c) => draft.quoted(c),
            None => draft.quoted('\\'),
        }
    }

    pub(super) fn single_quoted(&mut self, draft: &mut Draft) -> Result<(), Problem> {
        self.next();
        draft.quoted = true;
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(c) => draft.quoted(c),
                None => return Err(Problem::syntax("a single quote is not closed")),
            }
        }
    }

    pub(super) fn double_quoted(&mut self, draft: &mut Draft) -> Result<(), Problem> {
        self.next();
        draft.quoted = true;
        loop {
            match self.peek() {
                Some('"') => {
                    self.next();
                    return Ok(());
                }
                None => return Err(Problem::syntax("a double quote is not closed")),
                Some(_) => self.in_double_quotes(draft)?,
            }
        }
    }

    /// One step inside double quotes, here-documents and the like.
    pub(super) fn in_double_quotes(&mut self, draft: &mut Draft) -> Result<(), Problem> {
        match self.peek() {
            Some('\\') => {
                self.next();
                match self.peek() {
                    Some('\n') => {
                        self.next();
                    }
                    Some(c @ ('$' | '`' | '"' | '\\')) => {
                        self.next();
                        draft.quoted(c);
                    }
                    _ => draft.quoted('\\'),
                }
            }
            Some('$') => self.dollar(draft, true)?,
            Some('`') => self.backticks(draft, true)?,
            Some(c) => {
                self.next();
                draft.quoted(c);
            }
            None => {}
        }
        Ok(())
    }
}

/// Whether a text is a shell variable's name.
pub(super) fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
