//! Parses here-documents.

use super::parser::{Parser, Problem};
use super::word::{Draft, Word};

/// A here-document whose body has not been parsed yet.
#[derive(Debug)]
pub(super) struct Pending {
    delimiter: Option<String>,
    expands: bool,
    strips_tabs: bool,
}

impl Pending {
    pub(super) fn new(delimiter: &Word, strips_tabs: bool) -> Self {
        // Only quotes are removed from a delimiter; expansions in it are not followed.
        Self { delimiter: delimiter.literal.clone(), expands: !delimiter.quoted, strips_tabs }
    }
}

impl Parser<'_, '_> {
    /// Reads the bodies that start at this line.
    pub(super) fn heredocs(&mut self) -> Result<(), Problem> {
        for pending in std::mem::take(&mut self.pending) {
            let Some(delimiter) = &pending.delimiter else {
                return Err(Problem::syntax("unusual here-document delimiter"));
            };
            let body = self.heredoc_body(delimiter, &pending)?;
            let is_literal = !pending.expands || !body.iter().any(|c| matches!(*c, '$' | '`'));
            self.found().inputs.push(is_literal.then(|| body.iter().collect()));
            if pending.expands {
                self.expand_heredoc(&body)?;
            }
        }
        Ok(())
    }

    pub(super) fn no_pending_heredoc(&self) -> Result<(), Problem> {
        if self.pending.is_empty() { Ok(()) } else { Err(Problem::syntax("a here-document has no body")) }
    }

    fn heredoc_body(&mut self, delimiter: &str, pending: &Pending) -> Result<Vec<char>, Problem> {
        let mut body = Vec::new();
        loop {
            if self.peek().is_none() {
                return Err(Problem::syntax("a here-document is not closed"));
            }
            let mut line = String::new();
            loop {
                match self.next() {
                    Some('\\') if pending.expands => match self.next() {
                        // A continued line; it counts for the delimiter too.
                        Some('\n') => {}
                        Some(c) => line.extend(['\\', c]),
                        None => line.push('\\'),
                    },
                    Some('\n') | None => break,
                    Some(c) => line.push(c),
                }
            }
            let line = if pending.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if line == delimiter {
                return Ok(body);
            }
            body.extend(line.chars());
            body.push('\n');
        }
    }

    fn expand_heredoc(&mut self, body: &[char]) -> Result<(), Problem> {
        let text: String = body.iter().collect();
        let quotes = |inside: &str| inside.split('}').next().unwrap_or_default().contains(['"', '\'', '\\']);
        if text.split("${").skip(1).any(quotes) {
            self.doubt("a here-document has quotes inside `${`");
        }
        let context = self.context().deeper();
        let mut inner = Parser::new(body, context, self.found());
        inner.enter()?;
        let mut ignored = Draft::default();
        while inner.peek().is_some() {
            inner.in_double_quotes(&mut ignored)?;
        }
        let found = inner.found();
        found.shown.extend(ignored.unknowns());
        Ok(())
    }
}
