//! The prompt history. Drafts and edits of recalled prompts are kept.

use std::collections::{BTreeMap, HashSet};

use super::folds::Kept;

/// Drafts that may be put aside; the oldest is dropped first.
const MOST_DRAFTS: usize = 16;

/// The text to show next.
#[derive(Debug, Clone)]
pub(crate) enum Recall {
    /// An earlier prompt.
    Entry(String),
    /// The draft, or an entry that was changed.
    Kept(Kept),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// Oldest first.
    entries: Vec<String>,
    /// How far back we are; 0 is the draft.
    back: usize,
    /// Entries that were changed, by how far back they are.
    edits: BTreeMap<usize, Kept>,
    /// Drafts that are not shown, the latest last. Nothing but a draft's return takes it away.
    drafts: Vec<Kept>,
}

impl History {
    /// Puts older entries before those that are there, unless they are there; where we are stays the same.
    pub(crate) fn precede(&mut self, mut older: Vec<String>) {
        let known: HashSet<&String> = self.entries.iter().collect();
        older.retain(|entry| !known.contains(entry));
        older.append(&mut self.entries);
        self.entries = older;
    }

    pub(crate) fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Takes away the drafts that are not shown.
    pub(crate) fn take_drafts(&mut self) -> Vec<Kept> {
        std::mem::take(&mut self.drafts)
    }

    /// Whether this text is an earlier prompt that is shown as it was sent.
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.back > 0 && self.entry(self.back) == Some(text)
    }

    /// Adds a sent prompt and returns to the end; the draft that is shown next, if one was put aside.
    pub(crate) fn push(&mut self, entry: &str) -> Option<Kept> {
        if self.entries.last().is_none_or(|last| last != entry) {
            self.entries.push(entry.to_owned());
        }
        self.rest();
        // After an undo, the draft itself may be what was sent.
        self.drafts.pop().filter(|draft| draft.expanded().trim() != entry)
    }

    /// Returns to the end; the next text is a new draft.
    pub(crate) fn rest(&mut self) {
        self.back = 0;
        self.edits.clear();
    }

    pub(crate) fn previous(&mut self, shown: Kept) -> Option<Recall> {
        (self.back < self.entries.len()).then(|| self.go(self.back + 1, shown))
    }

    pub(crate) fn next(&mut self, shown: Kept) -> Option<Recall> {
        match self.back.checked_sub(1) {
            Some(to) => Some(self.go(to, shown)),
            // A draft that was put aside when the text was cleared.
            None if shown.is_blank() => self.drafts.pop().map(Recall::Kept),
            None => None,
        }
    }

    /// Keeps a text that gives way to another one.
    pub(crate) fn put_aside(&mut self, shown: Kept) {
        if self.back > 0 {
            // An entry that is shown as it is need not be kept twice.
            match self.entry(self.back).is_some_and(|entry| entry == shown.expanded()) {
                true => self.edits.remove(&self.back),
                false => self.edits.insert(self.back, shown),
            };
        } else if !shown.is_blank() {
            if self.drafts.len() >= MOST_DRAFTS {
                self.drafts.remove(0);
            }
            self.drafts.push(shown);
        }
    }

    fn go(&mut self, to: usize, shown: Kept) -> Recall {
        self.put_aside(shown);
        self.back = to;
        let kept = match to {
            0 => self.drafts.pop(),
            _ => self.edits.get(&to).cloned(),
        };
        match (kept, self.entry(to)) {
            (Some(kept), _) => Recall::Kept(kept),
            (None, Some(entry)) => Recall::Entry(entry.to_owned()),
            (None, None) => Recall::Entry(String::new()),
        }
    }

    fn entry(&self, back: usize) -> Option<&str> {
        self.entries.len().checked_sub(back).and_then(|index| self.entries.get(index)).map(String::as_str)
    }
}
