//! Search through earlier prompts, latest first; the buffer holds what is searched for.

use crossterm::event::KeyEvent;

use super::buffer::Pos;
use super::completion::Item;
use super::input::typed_char;
use super::popup::Popup;
use super::{Composer, Reaction};
use crate::keys::{Command, Context};

/// More hits than this are not listed; a longer search text finds the others.
const MOST_HITS: usize = 200;
/// Characters of a hit that are shown.
const LABEL: usize = 300;

#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// Latest first, each once: the prompt, and its lower-case form.
    entries: Vec<(String, String)>,
    pub(crate) popup: Popup,
    /// What was being written, as the buffer kept it, and where the cursor was.
    pub(crate) draft: (String, Pos),
}

impl Search {
    pub(crate) fn start(history: &[String], draft: (String, Pos), sought: &str) -> Self {
        let mut entries: Vec<(String, String)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for entry in history.iter().rev().filter(|entry| seen.insert(entry.as_str())) {
            entries.push((entry.clone(), entry.to_lowercase()));
        }
        let mut search = Self { entries, popup: Popup::default(), draft };
        search.find(sought);
        search
    }

    /// Lists what contains the text; an empty one finds everything.
    pub(crate) fn find(&mut self, sought: &str) {
        let sought = sought.to_lowercase();
        let hits = self.entries.iter().filter(|(_, lower)| lower.contains(&sought)).take(MOST_HITS);
        let items = hits.map(|(entry, _)| Item {
            insert: entry.clone(),
            label: entry.chars().take(LABEL).map(|c| if c.is_control() { ' ' } else { c }).collect(),
            ..Item::default()
        });
        self.popup = Popup::new(items.collect());
    }

    pub(crate) fn hit(&self) -> Option<String> {
        self.popup.selected().map(|item| item.insert.clone())
    }
}

impl Composer {
    pub(super) fn search_key(&mut self, event: KeyEvent) -> Reaction {
        let Some(search) = &mut self.search else { return Reaction::Unhandled };
        match self.keys.command(&event, Context::Search) {
            Some(Command::NavUp) => search.popup.previous(),
            Some(Command::NavDown | Command::SearchStart) => search.popup.next(),
            Some(Command::Cancel) => {
                self.stop_search();
            }
            Some(Command::SearchAccept) => {
                let hit = search.hit();
                self.search = None;
                if let Some(hit) = hit {
                    self.buffer.set(&hit);
                }
            }
            Some(Command::SearchSubmit) => {
                let hit = search.hit();
                self.search = None;
                if let Some(hit) = hit {
                    self.buffer.set(&hit);
                }
                return if self.buffer.is_blank() {
                    Reaction::Changed
                } else {
                    Reaction::Submit(self.submission())
                };
            }
            _ => return self.search_edit(&event),
        }
        Reaction::Changed
    }

    /// Brings back what was being written.
    fn stop_search(&mut self) {
        if let Some(Search { draft: (raw, cursor), .. }) = self.search.take() {
            self.buffer.set_raw(raw);
            self.buffer.go(cursor);
        }
    }

    /// Changes what is searched for.
    fn search_edit(&mut self, event: &KeyEvent) -> Reaction {
        let revision = self.buffer.revision();
        match (self.keys.command(event, Context::Composer), typed_char(event)) {
            (Some(Command::Clear), _) => self.stop_search(),
            (Some(Command::Newline | Command::HistoryPrevious | Command::HistoryNext), _) => {}
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
        if let Some(search) = &mut self.search {
            search.find(&sought);
        }
        Reaction::Changed
    }
}
