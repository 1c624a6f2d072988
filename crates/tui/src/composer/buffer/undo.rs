//! Undo and redo: a bounded list of replacements.

use std::collections::VecDeque;

use super::Pos;

/// Steps kept.
const MOST_STEPS: usize = 1000;
/// Bytes of text kept in all steps together; the latest step stays in any case.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// One text put in the place of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: Pos,
    pub(super) removed: String,
    pub(super) inserted: String,
    pub(super) cursor: Pos,
}

impl Change {
    fn bytes(&self) -> usize {
        self.removed.len() + self.inserted.len()
    }

    /// Where the inserted text ends.
    pub(super) fn end(&self) -> Pos {
        self.at.after(&self.inserted)
    }

    /// One character and nothing else, as it is typed.
    fn is_typed(&self) -> bool {
        let mut chars = self.inserted.chars();
        self.removed.is_empty() && chars.next().is_some_and(|c| c != '\n') && chars.next().is_none()
    }

    /// Whether a typed character continues the last step. A new word starts a new step.
    fn goes_on(&self, next: &Self) -> bool {
        let new_word =
            self.inserted.ends_with(char::is_whitespace) && !next.inserted.starts_with(char::is_whitespace);
        !new_word && next.is_typed() && self.end() == next.at
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Undo {
    done: VecDeque<Change>,
    /// The latest step is typed characters, and more may follow.
    is_typing: bool,
    undone: Vec<Change>,
    bytes: usize,
}

impl Undo {
    pub(super) fn record(&mut self, change: Change) {
        self.undone.clear();
        self.bytes += change.bytes();
        match self.done.back_mut().filter(|_| self.is_typing) {
            Some(last) if last.goes_on(&change) => last.inserted.push_str(&change.inserted),
            _ => {
                self.is_typing = change.is_typed();
                self.done.push_back(change);
            }
        }
        while self.done.len() > MOST_STEPS || (self.bytes > MOST_BYTES && self.done.len() > 1) {
            let Some(oldest) = self.done.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
        }
    }

    /// The latest step, to be taken back; it can then be redone.
    pub(super) fn back(&mut self) -> Option<Change> {
        self.is_typing = false;
        let change = self.done.pop_back()?;
        self.bytes = self.bytes.saturating_sub(change.bytes());
        self.undone.push(change.clone());
        Some(change)
    }

    pub(super) fn again(&mut self) -> Option<Change> {
        let change = self.undone.pop()?;
        self.bytes += change.bytes();
        self.done.push_back(change.clone());
        Some(change)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }
}
