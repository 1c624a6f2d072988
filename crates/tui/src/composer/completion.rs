//! Completion at the cursor.
//!
//! The composer sends requests, the program answers later; answers to older requests are dropped.

mod token;

use std::ops::Range;

use super::buffer::{Buffer, Pos};
use super::popup::{Item, Popup};

pub(crate) use token::escape_reference;

/// Nothing is completed further than this into a slash command.
const LONGEST_COMMAND: usize = 4096;

/// The kind of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A slash command or one of its arguments.
    Slash,
    /// A path, agent or resource after `@`.
    At,
    /// A word of a shell command; `command` if it is the program.
    Shell { command: bool },
}

/// A request for completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub id: u64,
    pub kind: Kind,
    /// `Slash`: the line up to the cursor. `At` and `Shell`: the word without quotes and escapes.
    pub text: String,
    /// The bytes of the cursor's line that a suggestion replaces.
    pub range: Range<usize>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    /// The id of the request.
    pub id: u64,
    /// Best first.
    pub items: Vec<Item>,
    /// Shown below them, such as that more are being read; may be empty.
    pub note: &'static str,
}

/// The state of the current request and its answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Completion {
    last_id: u64,
    asked: Option<Wanted>,
    pub(crate) popup: Popup,
}

impl Completion {
    /// Requests completions at the cursor; matching old suggestions stay.
    pub(crate) fn ask(&mut self, buffer: &Buffer, shell: bool) -> Option<Wanted> {
        let Some(wanted) = wanted(buffer, shell, self.last_id + 1) else {
            self.close();
            return None;
        };
        self.last_id = wanted.id;
        let word = buffer
            .line(buffer.cursor().line)
            .get(wanted.range.start..buffer.cursor().col)
            .unwrap_or_default();
        let same = |before: &Wanted| before.kind == wanted.kind && before.range.start == wanted.range.start;
        if self.asked.as_ref().is_some_and(same) {
            self.popup.retain(|item| fits(&item.insert, word));
        } else {
            self.popup = Popup::default();
        }
        self.asked = Some(wanted.clone());
        Some(wanted)
    }

    /// Takes an answer; false when it came too late.
    pub(crate) fn answer(&mut self, candidates: Candidates) -> bool {
        let is_current = self.asked.as_ref().is_some_and(|asked| asked.id == candidates.id);
        if is_current {
            self.popup.replace(candidates.items);
            self.popup.note = candidates.note;
        }
        is_current
    }

    pub(crate) fn close(&mut self) {
        self.asked = None;
        self.popup = Popup::default();
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.popup.is_empty()
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        self.asked.as_ref().map(|asked| asked.kind)
    }

    /// The selected suggestion, and what Enter does.
    pub(crate) fn choice(&self, buffer: &Buffer) -> Option<Choice> {
        let (asked, item) = (self.asked.as_ref()?, self.popup.selected()?);
        let line = buffer.cursor().line;
        let insert = match asked.kind {
            Kind::Slash => item.insert.clone(),
            Kind::At => escape_reference(&item.insert),
            Kind::Shell { .. } => token::escape_shell(&item.insert),
        };
        let there = buffer.line(line).get(asked.range.clone())?;
        let is_there = there == insert;
        let range = Pos::new(line, asked.range.start)..Pos::new(line, asked.range.end);
        let is_slash = asked.kind == Kind::Slash;
        let is_own =
            !self.popup.chosen && (matches!(asked.kind, Kind::Shell { .. }) || is_slash && item.path);
        Some(Choice { range, insert, sends: is_there || is_own, runs: item.run && is_slash })
    }
}

/// The edit that inserts the selected suggestion.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) range: Range<Pos>,
    pub(crate) insert: String,
    /// Enter sends the text as it stands: the suggestion is there already, or what was typed is whole without it, as a
    /// command or a path can be.
    pub(crate) sends: bool,
    pub(crate) runs: bool,
}

impl Choice {
    /// Inserts it, followed by a blank unless there is one or the path continues.
    pub(crate) fn take(&self, buffer: &mut Buffer) {
        let after = buffer.line(self.range.end.line).get(self.range.end.col..).unwrap_or_default();
        let has_blank = after.starts_with(' ');
        let goes_on = self.insert.ends_with(['/', '\\']);
        let mut text = self.insert.clone();
        if !has_blank && !goes_on {
            text.push(' ');
        }
        buffer.replace(self.range.clone(), &text);
    }
}

/// Whether a text is a slash command: not a comment and not a path that starts with two slashes.
pub(crate) fn is_slash(text: &str) -> bool {
    text.starts_with('/') && !text.starts_with("//") && !text.starts_with("/*")
}

fn wanted(buffer: &Buffer, shell: bool, id: u64) -> Option<Wanted> {
    let cursor = buffer.cursor();
    let line = buffer.line(cursor.line);
    if shell {
        let word = token::shell_word(line, cursor.col);
        let kind = Kind::Shell { command: word.is_command };
        return (!line.trim().is_empty()).then_some(Wanted { id, kind, text: word.text, range: word.range });
    }
    if let Some((range, text)) = token::reference(line, cursor.col) {
        return Some(Wanted { id, kind: Kind::At, text, range });
    }
    let before = line.get(..cursor.col)?;
    if cursor.line > 0 || !(1..=LONGEST_COMMAND).contains(&cursor.col) || !is_slash(line) {
        return None;
    }
    let start = before.rfind(char::is_whitespace).map_or(1, |blank| {
        blank + before.get(blank..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
    });
    let after = line.get(cursor.col..).unwrap_or_default();
    let end = cursor.col + after.find(char::is_whitespace).unwrap_or(after.len());
    Some(Wanted { id, kind: Kind::Slash, text: before.to_owned(), range: start..end })
}

/// Whether the letters of the word occur in the name in their order.
fn fits(name: &str, word: &str) -> bool {
    let mut letters = name.chars().flat_map(char::to_lowercase);
    word.chars().flat_map(char::to_lowercase).all(|wanted| letters.any(|letter| letter == wanted))
}
