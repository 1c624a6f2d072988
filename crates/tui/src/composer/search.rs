//! Search in earlier prompts, latest first; the buffer holds the search text.

use std::collections::HashSet;

use crossterm::event::KeyEvent;
use pollux_domain::terminal_text::one_line;

use super::buffer::Buffer;
use super::folds::Kept;
use super::input::typed_char;
use super::popup::{Item, Popup};
use super::{Composer, Reaction, Sending};
use crate::keys::{Command, Context};

/// More hits than this are not listed; a longer search text finds the others.
const MOST_HITS: usize = 200;
/// Characters of a hit that are shown.
const LABEL: usize = 300;

#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// Latest first, each once: where the prompt stands in the history, and its lower-case form.
    entries: Vec<(usize, String)>,
    /// Where the prompts that were found stand in the history.
    hits: Vec<usize>,
    pub(crate) popup: Popup,
    /// The prompt before the search, and what is pasted meanwhile.
    draft: Buffer,
    /// The text that was the first search text, too.
    before: String,
}

impl Search {
    fn start(history: &[String], draft: Buffer) -> Self {
        let mut seen = HashSet::new();
        let entries = history.iter().enumerate().rev().filter(|(_, entry)| seen.insert(entry.as_str()));
        let entries = entries.map(|(index, entry)| (index, entry.to_lowercase())).collect();
        let before = draft.raw();
        Self { entries, hits: Vec::new(), popup: Popup::default(), draft, before }
    }

    /// Lists the prompts that contain the text; an empty text matches all.
    fn find(&mut self, history: &[String], sought: &str) {
        let sought = sought.to_lowercase();
        let hits = self.entries.iter().filter(|(_, lower)| lower.contains(&sought)).map(|(index, _)| *index);
        self.hits = hits.take(MOST_HITS).collect();
        let label = |entry: &String| one_line(&entry.chars().take(LABEL).collect::<String>());
        let found = self.hits.iter().filter_map(|index| history.get(*index));
        self.popup = Popup::new(found.map(|entry| Item { label: label(entry), ..Item::default() }).collect());
    }

    fn hit(&self) -> Option<usize> {
        self.hits.get(self.popup.index()).copied()
    }

    fn draft_changed(&self) -> bool {
        self.draft.raw() != self.before
    }
}

impl Composer {
    pub(super) fn start_search(&mut self) -> Reaction {
        self.completion.close();
        self.mode_changes += 1;
        let draft = self.buffer.clone();
        self.search = Some(Search::start(self.history().entries(), draft));
        self.searched()
    }

    pub(super) fn search_key(&mut self, event: KeyEvent) -> Reaction {
        let Some(search) = &mut self.search else { return Reaction::Unhandled };
        match self.keys.command(&event, Context::Search) {
            Some(Command::NavUp) => search.popup.previous(),
            Some(Command::NavDown | Command::SearchStart) => search.popup.next(),
            Some(Command::Cancel) => {
                self.stop_search();
            }
            Some(Command::SearchAccept) => drop(self.take_hit()),
            Some(Command::SearchSubmit) => {
                // What was pasted behind the search is seen before anything is sent.
                let is_seen = !search.draft_changed();
                let draft = self.take_hit();
                if !is_seen || !self.has_prompt() {
                    return Reaction::Changed;
                }
                if let Some(draft) = draft {
                    self.history().put_aside(draft);
                }
                return self.hand_over(Sending::Submit);
            }
            _ => return self.search_edit(&event),
        }
        Reaction::Changed
    }

    /// Restores the draft.
    pub(crate) fn stop_search(&mut self) {
        if let Some(search) = self.search.take() {
            self.buffer.restore(search.draft);
        }
    }

    /// Makes the draft the text, as without a search, until [`Self::resume_search`].
    pub(super) fn set_search_aside(&mut self) -> Option<Search> {
        let mut search = self.search.take()?;
        std::mem::swap(&mut self.buffer, &mut search.draft);
        Some(search)
    }

    pub(super) fn resume_search(&mut self, search: Option<Search>) {
        if let Some(mut search) = search {
            std::mem::swap(&mut self.buffer, &mut search.draft);
            self.completion.close();
            self.search = Some(search);
        }
    }

    /// Changes the search text.
    fn search_edit(&mut self, event: &KeyEvent) -> Reaction {
        let revision = self.buffer.revision();
        match (self.keys.command(event, Context::Composer), typed_char(event)) {
            (Some(Command::Clear), _) => self.stop_search(),
            (Some(Command::Newline | Command::HistoryPrevious | Command::HistoryNext), _) => {}
            // It would end the shell mode, which has a history of its own.
            (Some(Command::DeleteLeft), _) if self.buffer.is_empty() => {}
            (Some(command), _) => match self.edit(command) {
                Reaction::Unhandled => return Reaction::Unhandled,
                _ => self.completion.close(),
            },
            (None, Some(c)) => self.buffer.insert(c.encode_utf8(&mut [0; 4])),
            (None, None) => return Reaction::Unhandled,
        }
        if self.buffer.revision() == revision { Reaction::Changed } else { self.searched() }
    }

    pub(super) fn searched(&mut self) -> Reaction {
        let sought = self.text();
        if let Some(mut search) = self.search.take() {
            search.find(self.history().entries(), &sought);
            self.search = Some(search);
        }
        Reaction::Changed
    }

    /// Ends the search with the found prompt, or with the search text. If nothing was found for the draft itself, it stays.
    /// Returns a draft that was not the search text and is shown no longer.
    fn take_hit(&mut self) -> Option<Kept> {
        let search = self.search.as_ref()?;
        let index = search.hit();
        // The draft has folds of its own.
        let sought = (self.buffer.raw() != search.before).then(|| self.buffer.keep_all());
        let hit = index.and_then(|index| self.history().entries().get(index).cloned());
        self.stop_search();
        let draft = sought.as_ref().map(|_| self.buffer.keep_all());
        match (hit, &sought) {
            (Some(entry), _) => self.buffer.set(&entry),
            (None, Some(sought)) => self.buffer.set_kept(sought),
            (None, None) => {}
        }
        draft
    }
}
