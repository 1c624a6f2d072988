//! The sources of sessions, and the sessions that currently exist in them.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_foreign::{ForeignAgent, ForeignEntry, ForeignStore, Stamp};
use pollux_session::{KnownProject, session_files, subagent_files, unreadable_folders};

use crate::scope::Scope;

/// Sessions that belong together.
#[derive(Debug, Clone)]
pub enum Source {
    /// The folders with the sessions of one project of ours.
    Own { project: Option<PathBuf>, dirs: Vec<PathBuf> },
    /// The store of another agent.
    Foreign(ForeignStore),
}

impl Source {
    pub(crate) fn unreadable_folders(&self) -> Vec<(PathBuf, String)> {
        match self {
            Self::Own { dirs, .. } => unreadable_folders(dirs),
            Self::Foreign(_) => Vec::new(),
        }
    }
}

impl From<KnownProject> for Source {
    fn from(project: KnownProject) -> Self {
        Self::Own { project: project.root, dirs: project.chats_dirs }
    }
}

/// Whose session it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    Own,
    Foreign(ForeignAgent),
}

impl Origin {
    pub const ALL: [Self; 4] = [
        Self::Own,
        Self::Foreign(ForeignAgent::Claude),
        Self::Foreign(ForeignAgent::Codex),
        Self::Foreign(ForeignAgent::OpenCode),
    ];

    /// The name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own => "pollux",
            Self::Foreign(agent) => agent.as_str(),
        }
    }

    /// The number in the index.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Own => 0,
            Self::Foreign(ForeignAgent::Claude) => 1,
            Self::Foreign(ForeignAgent::Codex) => 2,
            Self::Foreign(ForeignAgent::OpenCode) => 3,
        }
    }

    pub(crate) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.number() == number)
    }
}

/// An existing session, not yet read.
#[derive(Debug, Clone)]
pub(crate) struct FoundSession {
    pub(crate) path: PathBuf,
    pub(crate) within: String,
    pub(crate) stamp: Stamp,
    pub(crate) place: SessionStore,
}

/// How to read it.
#[derive(Debug, Clone)]
pub(crate) enum SessionStore {
    Own,
    Foreign(ForeignStore, ForeignEntry),
}

/// The sessions in one folder of ours.
pub(crate) fn own(dir: &Path) -> Vec<FoundSession> {
    let dirs = [dir.to_owned()];
    let files = session_files(&dirs).into_iter().chain(subagent_files(&dirs));
    files
        .filter_map(|path| {
            Some(FoundSession { stamp: stamp(&path)?, path, within: String::new(), place: SessionStore::Own })
        })
        .collect()
}

/// The sessions in another agent's store.
pub(crate) fn foreign(store: &ForeignStore) -> Vec<FoundSession> {
    let entries = store.entries().into_iter();
    entries
        .map(|entry| FoundSession {
            path: entry.path.clone(),
            within: entry.within.clone().unwrap_or_default(),
            stamp: entry.stamp,
            place: SessionStore::Foreign(store.clone(), entry),
        })
        .collect()
}

/// A session that the index knows, to be read again.
pub(crate) fn found(
    sources: &[Source],
    scope: &Scope,
    path: PathBuf,
    within: String,
) -> Option<FoundSession> {
    let place = match scope.origin {
        Origin::Own => SessionStore::Own,
        Origin::Foreign(_) => {
            let store = store(sources, scope)?;
            SessionStore::Foreign(store.clone(), store.entry(&path, &within)?)
        }
    };
    Some(FoundSession { path, within, stamp: Stamp::default(), place })
}

/// The store of a scope.
pub(crate) fn store<'a>(sources: &'a [Source], scope: &Scope) -> Option<&'a ForeignStore> {
    sources.iter().find_map(|source| match source {
        Source::Foreign(store)
            if Origin::Foreign(store.agent) == scope.origin && store.root == scope.path =>
        {
            Some(store)
        }
        Source::Foreign(_) | Source::Own { .. } => None,
    })
}

/// Unlike in foreign stores, links are followed: users move their own sessions as they like.
fn stamp(path: &Path) -> Option<Stamp> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|metadata| Stamp::from(&metadata))
}
