//! The prompt history. The current draft and edits of recalled prompts are kept.

use std::collections::{BTreeMap, HashSet};

/// The text to show next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recall {
    /// An earlier prompt.
    Entry(String),
    /// A text as the buffer kept it: the draft, or an entry that was changed.
    Kept(String),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// Oldest first.
    entries: Vec<String>,
    /// How far back we are; 0 is the draft.
    back: usize,
    kept: BTreeMap<usize, String>,
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

    /// Adds a sent prompt and returns to the end.
    pub(crate) fn push(&mut self, entry: &str) {
        if self.entries.last().is_none_or(|last| last != entry) {
            self.entries.push(entry.to_owned());
        }
        self.rest();
    }

    /// Returns to the end; the next text is a new draft.
    pub(crate) fn rest(&mut self) {
        self.back = 0;
        self.kept.clear();
    }

    pub(crate) fn previous(&mut self, shown: String) -> Option<Recall> {
        (self.back < self.entries.len()).then(|| self.go(self.back + 1, shown))
    }

    pub(crate) fn next(&mut self, shown: String) -> Option<Recall> {
        let to = self.back.checked_sub(1)?;
        Some(self.go(to, shown))
    }

    fn go(&mut self, to: usize, shown: String) -> Recall {
        // An entry that is shown as it is need not be kept twice.
        if self.back == 0 || self.entry(self.back).is_none_or(|entry| entry != shown) {
            self.kept.insert(self.back, shown);
        }
        self.back = to;
        match (self.kept.get(&to), self.entry(to)) {
            (Some(kept), _) => Recall::Kept(kept.clone()),
            (None, Some(entry)) => Recall::Entry(entry.to_owned()),
            (None, None) => Recall::Entry(String::new()),
        }
    }

    fn entry(&self, back: usize) -> Option<&str> {
        self.entries.len().checked_sub(back).and_then(|index| self.entries.get(index)).map(String::as_str)
    }
}
