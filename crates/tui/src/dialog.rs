//! Dialogs: questions that replace the composer until they are answered.

mod approval;
mod body;
mod choices;
mod entry;
mod field;
mod picker;
mod questions;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, Subject};
use pollux_domain::id::CallId;
use pollux_domain::path_display::PathDisplay;
use ratatui::text::Line;

pub use entry::TextEntry;
pub use picker::{LEFT, Picker, PickerOptions, PickerRow, RESET, RIGHT, TAB};

use self::approval::Approval;
use self::questions::Questions;
use crate::keys::KeyMap;
use crate::theme::Theme;

/// The room that a dialog has.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    pub theme: &'a Theme,
    pub width: u16,
    pub height: u16,
}

/// A question to the person.
#[derive(Debug)]
pub enum Dialog {
    Approval(Box<Approval>),
    Questions(Box<Questions>),
    Picker(Box<Picker>),
    TextEntry(TextEntry),
}

/// The result of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The question still stands.
    Open,
    /// The answer to a call's question.
    Answered { call: CallId, answer: ApprovalAnswer },
    /// The person wants to change the call in an editor; the dialog stays until that is done.
    Edit { call: CallId },
    /// A row of the picker was chosen: its key, and the letter if it was not Enter.
    Picked { key: String, with: Option<char> },
    /// Another row of the picker is marked.
    Marked(String),
    /// No row of the picker has these words.
    Searched(String),
    /// The text of a [`TextEntry`].
    Entered(String),
    /// The person left.
    Closed,
}

impl Dialog {
    /// The question of a call.
    pub fn approval(request: &ApprovalRequest, paths: &PathDisplay) -> Self {
        match &request.subject {
            Subject::Questions(questions) => {
                Self::Questions(Box::new(Questions::new(request.call.clone(), questions.clone())))
            }
            _ => Self::Approval(Box::new(Approval::new(request.clone(), paths.clone()))),
        }
    }

    /// The call that it is about.
    pub fn call(&self) -> Option<&CallId> {
        match self {
            Self::Approval(approval) => Some(approval.call()),
            Self::Questions(questions) => Some(questions.call()),
            Self::Picker(_) | Self::TextEntry(_) => None,
        }
    }

    /// Whether it appears unrequested.
    pub fn comes_by_itself(&self) -> bool {
        match self {
            Self::Approval(_) | Self::Questions(_) => true,
            Self::Picker(picker) => picker.is_unrequested(),
            Self::TextEntry(_) => false,
        }
    }

    /// Whether a key says something to it; letters that do not are meant for the prompt.
    pub fn takes(&self, key: KeyEvent) -> bool {
        let KeyCode::Char(letter) = key.code else { return true };
        let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        let answers = match self {
            // Words begin with letters: only those that mark an answer count, and Enter says it.
            Self::Approval(_) => "yn?",
            Self::Questions(questions) if questions.asks_yes_or_no() => "yn",
            Self::Questions(_) => "",
            Self::Picker(picker) if picker.is_unrequested() => "",
            Self::Picker(_) => "ynjkgGq",
            Self::TextEntry(_) => "",
        };
        !is_plain || self.takes_text() || letter.is_ascii_digit() || answers.contains(letter)
    }

    /// Resets the mark, because the keys since then were meant for the prompt.
    pub(crate) fn restart(&mut self) {
        match self {
            Self::Approval(approval) => approval.restart(),
            Self::Questions(questions) => questions.restart(),
            Self::Picker(_) | Self::TextEntry(_) => {}
        }
    }

    /// Whether text is being typed into it.
    pub fn takes_text(&self) -> bool {
        match self {
            Self::Approval(approval) => approval.is_written(),
            Self::Questions(questions) => questions.is_written(),
            Self::Picker(picker) => picker.is_searched(),
            Self::TextEntry(_) => true,
        }
    }

    /// Which of how many calls it is about.
    pub(crate) fn set_position(&mut self, which: usize, all: usize) {
        if let Self::Approval(approval) = self {
            approval.set_position(which, all);
        }
    }

    /// Whether it stays after a choice.
    pub(crate) fn stays(&self) -> bool {
        matches!(self, Self::Picker(picker) if picker.stays())
    }

    /// A key; `keys` edit the text that is typed into it.
    pub fn key(&mut self, key: KeyEvent, keys: &KeyMap) -> Verdict {
        match self {
            Self::Approval(approval) => approval.key(key, keys),
            Self::Questions(questions) => questions.key(key, keys),
            Self::Picker(picker) => picker.key(key),
            Self::TextEntry(entry) => entry.key(key, keys),
        }
    }

    /// Text that was pasted.
    pub fn paste(&mut self, text: &str) {
        match self {
            Self::Approval(approval) => approval.paste(text),
            Self::Questions(questions) => questions.paste(text),
            Self::Picker(picker) => picker.paste(text),
            Self::TextEntry(entry) => entry.paste(text),
        }
    }

    /// As lines, no more than there is room for.
    pub fn lines(&mut self, room: Room<'_>) -> Vec<Line<'static>> {
        match self {
            Self::Approval(approval) => approval.lines(room),
            Self::Questions(questions) => questions.lines(room),
            Self::Picker(picker) => picker.lines(room),
            Self::TextEntry(entry) => entry.lines(room),
        }
    }
}

#[cfg(test)]
mod tests;
