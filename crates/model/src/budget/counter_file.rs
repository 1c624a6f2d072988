//! Spending per day and project, and what sessions reserved, in a file that all processes share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::files::{FileError, FileLock, LockError, Mode, read_text, replace};
use pollux_domain::budget::Spent;
use pollux_domain::model::MicroUsd;
use pollux_domain::time::Clock;
use serde::{Deserialize, Serialize};

/// Older days are removed.
const MAX_DAYS: usize = 31;
/// Sessions of killed processes that were never resumed; more are removed.
const MAX_SESSIONS: usize = 200;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CounterFileError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is not a valid budget file: {source}; delete it to reset the counters", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
}

/// The file, for one project.
#[derive(Clone)]
pub struct CounterFile {
    path: PathBuf,
    project: String,
    clock: Arc<dyn Clock>,
}

/// The locked file.
pub(super) struct OpenFile<'a> {
    file: &'a CounterFile,
    counters: Counters,
    today: String,
    _lock: FileLock,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Counters {
    #[serde(default)]
    days: BTreeMap<String, Row>,
    #[serde(default)]
    projects: BTreeMap<String, Row>,
    /// What sessions with running requests have spent, reservations included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sessions: BTreeMap<String, Row>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Row {
    #[serde(default)]
    micro_usd: u64,
    #[serde(default)]
    tokens: u64,
    #[serde(default)]
    requests: u64,
    #[serde(default)]
    millis: u64,
}

impl CounterFile {
    /// A file that is created when something is spent. `project` names the project in it.
    pub fn new(path: impl Into<PathBuf>, project: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self { path: path.into(), project: project.into(), clock }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the file and reads it.
    pub(super) fn open(&self) -> Result<OpenFile<'_>, CounterFileError> {
        let lock = FileLock::acquire(&self.path)?;
        let counters = match read_text(&self.path)? {
            Some(text) => serde_json::from_str(&text)
                .and_then(|counters: serde_json::Map<_, _>| serde_json::from_value(counters.into()))
                .map_err(|source| CounterFileError::Damaged { path: self.path.clone(), source })?,
            None => Counters::default(),
        };
        let today = self.clock.now().to_iso().chars().take("2026-11-16".len()).collect();
        Ok(OpenFile { file: self, counters, today, _lock: lock })
    }
}

impl OpenFile<'_> {
    /// The day of the clock, in UTC.
    pub(super) fn today(&self) -> &str {
        &self.today
    }

    /// What today has spent.
    pub(super) fn day(&self) -> Spent {
        self.counters.days.get(&self.today).copied().unwrap_or_default().into()
    }

    /// What the project has spent.
    pub(super) fn project(&self) -> Spent {
        self.counters.projects.get(&self.file.project).copied().unwrap_or_default().into()
    }

    /// What a session had spent, reservations included, if it was killed.
    pub(super) fn session(&self, session: &str) -> Spent {
        self.counters.sessions.get(session).copied().unwrap_or_default().into()
    }

    /// Notes what a session has spent while requests run; `None` if none runs.
    pub(super) fn note_session(&mut self, session: &str, spent: Option<Spent>) {
        self.counters.sessions.remove(session);
        let Some(spent) = spent else { return };
        while self.counters.sessions.len() >= MAX_SESSIONS {
            self.counters.sessions.pop_first();
        }
        self.counters.sessions.insert(session.to_owned(), spent.into());
    }

    /// Replaces one amount of a day with another.
    pub(super) fn change(&mut self, day: &str, before: Spent, after: Spent) {
        let days = self.counters.days.entry(day.to_owned()).or_default();
        *days = Spent::from(*days).minus(before).plus(after).into();
        let project = self.counters.projects.entry(self.file.project.clone()).or_default();
        *project = Spent::from(*project).minus(before).plus(after).into();
        while self.counters.days.len() > MAX_DAYS {
            // Days that are still to come are of a clock that was wrong.
            let wrong = self.counters.days.keys().next_back().filter(|last| **last > self.today).cloned();
            match wrong {
                Some(day) => drop(self.counters.days.remove(&day)),
                None => drop(self.counters.days.pop_first()),
            }
        }
    }

    pub(super) fn write(&self) -> Result<(), CounterFileError> {
        let text = serde_json::to_string_pretty(&self.counters)
            .map_err(|source| CounterFileError::Damaged { path: self.file.path.clone(), source })?;
        Ok(replace(&self.file.path, text.as_bytes(), Mode::Private)?)
    }
}

impl From<Row> for Spent {
    fn from(row: Row) -> Self {
        Self { usd: MicroUsd(row.micro_usd), tokens: row.tokens, requests: row.requests, millis: row.millis }
    }
}

impl From<Spent> for Row {
    fn from(spent: Spent) -> Self {
        Self { micro_usd: spent.usd.0, tokens: spent.tokens, requests: spent.requests, millis: spent.millis }
    }
}
