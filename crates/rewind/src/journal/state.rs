//! The in-memory state of a journal: its events, the open calls, and the last known workspace.

use std::collections::BTreeMap;
use std::fs::File;

use crate::aside::SetAside;
use crate::coverage::{Coverage, Uncovered};
use crate::entry::WorkspaceEntry;
use crate::path::RelPath;
use crate::snapshot::{Change, Found, Tree};

use super::log::{Log, LogError};
use super::point::Point;

/// The tool's name in points that are rewinds.
pub(super) const REWIND: &str = "rewind";

pub(super) struct JournalState {
    pub(super) log: Log,
    pub(super) events: Vec<Event>,
    pub(super) open: Vec<OpenPoint>,
    /// The last complete scan of the workspace, and whether the index on disk matches it.
    pub(super) known: Option<Tree>,
    pub(super) is_indexed: bool,
    pub(super) told: Vec<Uncovered>,
    /// Keeps [`forget`] away.
    pub(super) _in_use: File,
}

/// The events in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Prompt(String),
    Opened {
        point: Point,
        files: Option<Files>,
    },
    Closed {
        call: String,
        unsure: bool,
        changes: Vec<Change>,
    },
    /// A rewind is about to give these files temporary names.
    SetAside(Vec<SetAside>),
}

/// Paths with their previous entries.
pub(super) type Files = BTreeMap<RelPath, Option<WorkspaceEntry>>;

pub(super) struct OpenPoint {
    pub(super) call: String,
    /// `None`: the complete workspace.
    pub(super) files: Option<Files>,
}

impl JournalState {
    /// Adds an event. It counts even if it cannot be written yet: what happened can still be undone.
    pub(super) fn push(&mut self, event: Event) -> Result<(), LogError> {
        let written = self.log.append(&event);
        self.events.push(event);
        written
    }

    pub(super) fn open_point(&mut self, point: Point, files: Option<Files>) -> Result<(), LogError> {
        let call = point.call.clone();
        let event = Event::Opened { point, files: files.clone() };
        // The caller takes a call without this event as one that is not recorded.
        self.log.append_or_forget(&event)?;
        self.events.push(event);
        self.open.push(OpenPoint { call, files });
        Ok(())
    }

    /// Records changes; open calls continue from them.
    pub(super) fn record(&mut self, call: &str, unsure: bool, changes: Vec<Change>) -> Result<(), LogError> {
        for files in self.open.iter_mut().filter_map(|open| open.files.as_mut()) {
            for change in &changes {
                if let Some(state) = files.get_mut(&change.path) {
                    state.clone_from(&change.now);
                }
            }
        }
        self.push(Event::Closed { call: call.to_owned(), unsure, changes })
    }

    pub(super) fn see(&mut self, path: &RelPath, found: Option<Found>) {
        if let Some(tree) = &mut self.known {
            tree.set(path, found);
            self.is_indexed = false;
        }
    }

    pub(super) fn tell(&mut self, entries: usize, uncovered: Vec<Uncovered>) -> Coverage {
        let is_news = uncovered != self.told && !uncovered.is_empty();
        if is_news {
            self.told.clone_from(&uncovered);
        }
        Coverage { entries, uncovered, is_news }
    }

    pub(super) fn next_rewind(&self) -> String {
        let is_rewind = |event: &&Event| matches!(event, Event::Opened { point, .. } if point.tool == REWIND);
        format!("{REWIND}-{}", self.events.iter().filter(is_rewind).count() + 1)
    }
}

pub(super) fn still_open(events: &[Event]) -> Vec<OpenPoint> {
    let mut open: Vec<OpenPoint> = Vec::new();
    for event in events {
        match event {
            Event::Prompt(_) | Event::SetAside(_) => {}
            Event::Opened { point, files } => {
                open.push(OpenPoint { call: point.call.clone(), files: files.clone() });
            }
            Event::Closed { call, .. } => open.retain(|point| point.call != *call),
        }
    }
    open
}
