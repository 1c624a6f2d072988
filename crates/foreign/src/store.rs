//! The store of another agent: lists its sessions and reads one of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::event::CallStatus;
use pollux_domain::time::Timestamp;

use crate::conversation::{Conversation, ForeignMessage};
use crate::entry::{Branches, ForeignAgent, ForeignEntry, ReadError};
use crate::opencode::Copies;
use crate::session::{Facts, ForeignSession, ForeignTextKind, Record, RecordKind, Tally};
use crate::{claude, codex, folder, opencode};

/// Where an agent keeps its sessions: `~/.claude`, `~/.codex` or `~/.local/share/opencode`.
#[derive(Debug, Clone)]
pub struct ForeignStore {
    pub agent: ForeignAgent,
    pub root: PathBuf,
    copies: Arc<Copies>,
}

/// The sessions of a store, most recently updated first.
#[derive(Debug, Default)]
pub struct ForeignListing {
    pub sessions: Vec<ForeignSession>,
    /// Files that look like sessions but could not be read, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

impl ForeignStore {
    pub fn new(agent: ForeignAgent, root: PathBuf) -> Self {
        Self { agent, root, copies: Arc::default() }
    }

    /// Every session in the store. Reads only names and times.
    pub fn entries(&self) -> Vec<ForeignEntry> {
        match self.agent {
            ForeignAgent::Claude => claude::entries(&self.root),
            ForeignAgent::Codex => codex::entries(&self.root),
            ForeignAgent::OpenCode => opencode::entries(&self.root, &self.copies),
        }
    }

    /// Reads every session of the store.
    pub fn list(&self) -> ForeignListing {
        let mut listing = ForeignListing::default();
        for entry in self.entries() {
            match self.read(&entry, &mut |_, _, _, _| {}) {
                Ok(session) => listing.sessions.push(session),
                // Files with only a title are common.
                Err(ReadError::Empty { .. }) => {}
                Err(error) => listing.unreadable.push((entry.path, chain(&error))),
            }
        }
        listing.sessions.sort_by(|a, b| (b.updated, &a.path, &a.id).cmp(&(a.updated, &b.path, &b.id)));
        listing
    }

    /// Reads one session and reports its texts in order: kind, message id, time, text. Tool output is omitted.
    pub fn read(
        &self,
        entry: &ForeignEntry,
        visit: &mut ForeignTextVisitor<'_>,
    ) -> Result<ForeignSession, ReadError> {
        let mut tally = Tally::default();
        let mut facts = self.replay(entry, Branches::All, &mut |record| {
            tally.add(record);
            show_text(record, visit);
        })?;
        if tally.is_empty() {
            return Err(ReadError::Empty { path: entry.path.clone() });
        }
        if entry.name.is_some() {
            facts.title.clone_from(&entry.name);
        }
        let modified = Timestamp::from_millis(entry.stamp.modified_ns / 1_000_000);
        Ok(tally.finish(self.agent, entry.path.clone(), facts, modified))
    }

    /// The texts of one session, as [`ForeignStore::read`] shows them.
    pub fn visit_texts(
        &self,
        entry: &ForeignEntry,
        visit: &mut ForeignTextVisitor<'_>,
    ) -> Result<(), ReadError> {
        self.replay(entry, Branches::All, &mut |record| show_text(record, visit)).map(|_| ())
    }

    /// The messages and calls, without those that the user rolled back.
    pub fn conversation(&self, entry: &ForeignEntry) -> Result<Vec<ForeignMessage>, ReadError> {
        let mut conversation = Conversation::default();
        self.replay(entry, Branches::Last, &mut |record| conversation.add(record))?;
        Ok(conversation.finish())
    }

    /// The entry of a session known by its path, as given by a list or an index.
    pub fn entry(&self, path: &Path, id: &str) -> Option<ForeignEntry> {
        let stamp = folder::stamp(path).filter(|_| path.starts_with(&self.root))?;
        let is_database = self.agent == ForeignAgent::OpenCode && opencode::is_database(path);
        let within = is_database.then(|| id.to_owned());
        Some(ForeignEntry { path: path.to_owned(), within, stamp, name: None })
    }

    fn replay(
        &self,
        entry: &ForeignEntry,
        branches: Branches,
        visit: &mut dyn FnMut(&Record<'_>),
    ) -> Result<Facts, ReadError> {
        match self.agent {
            ForeignAgent::Claude => claude::replay(entry, branches, visit),
            ForeignAgent::Codex => codex::replay(entry, visit),
            ForeignAgent::OpenCode => opencode::replay(entry, &self.copies, branches, visit),
        }
    }
}

/// Receives a text: its kind, the id of its message, the time, and the text.
pub type ForeignTextVisitor<'a> = dyn FnMut(ForeignTextKind, &str, Option<Timestamp>, &str) + 'a;

fn show_text(record: &Record<'_>, visit: &mut ForeignTextVisitor<'_>) {
    match &record.what {
        RecordKind::User(text) => visit(ForeignTextKind::User, record.id, record.time, text),
        RecordKind::Agent(text) => visit(ForeignTextKind::Agent, record.id, record.time, text),
        RecordKind::Error(text) => visit(ForeignTextKind::Error, record.id, record.time, text),
        RecordKind::Call { name, args, .. } => {
            let text = format!("{name} {}", args.summary());
            visit(ForeignTextKind::Tool, record.id, record.time, text.trim_end());
        }
        RecordKind::CallEnded { status: CallStatus::Error, error: Some(error), .. } => {
            visit(ForeignTextKind::Error, record.id, record.time, error);
        }
        RecordKind::CallEnded { .. } | RecordKind::Model(_) | RecordKind::TurnsDropped(_) => {}
    }
}

/// An error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
