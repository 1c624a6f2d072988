//! The capsule file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pollux_session::StoredSession;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::concealment::Concealment;
use crate::event::{RecordedEvent, events_of};
use crate::steps::{ReplayStep, steps_to};

/// The format that this version writes and reads.
pub const FORMAT: u64 = 1;

/// The largest capsule.
pub const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// More events of a session are left out: every request of a replay goes through all that was said before it.
const MAX_EVENTS: usize = 20_000;
/// More sessions than this are no agents of one session.
const MAX_SESSIONS: usize = 1_000;

/// A bug report in one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capsule {
    pub format: u64,
    pub contents: Contents,
    /// Program, settings and machine, for people.
    #[serde(default)]
    pub environment: Value,
    /// The session, then its sub-agents.
    pub sessions: Vec<SessionRecord>,
}

/// Whether texts, arguments and results are in a capsule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Placeholders are there instead.
    Hidden,
    /// They are there without secrets.
    Redacted,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub subagent: bool,
    /// Events that were left out at its end, because there are too many.
    #[serde(default)]
    pub omitted: usize,
    pub events: Vec<RecordedEvent>,
    pub replay: Vec<ReplayStep>,
}

/// Why a file is no capsule that can be used.
#[derive(Debug, thiserror::Error)]
pub enum CapsuleError {
    #[error("could not read `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` exceeds the size limit of {} MiB", path.display(), MAX_BYTES / (1024 * 1024))]
    TooLarge { path: PathBuf },
    #[error("`{}` is not a capsule", path.display())]
    NotACapsule { path: PathBuf },
    #[error("`{}` has capsule format {found}; this version reads format {FORMAT}", path.display())]
    UnknownFormat { path: PathBuf, found: u64 },
    #[error("`{}` is a damaged capsule", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("`{}` has too many events to replay", path.display())]
    TooMany { path: PathBuf },
}

impl SessionRecord {
    /// The record of a session; `first` is the number of its first event.
    pub fn of(session: &StoredSession, subagent: bool, concealment: &Concealment, first: usize) -> Self {
        let mut events = events_of(session, concealment, first);
        let omitted = events.len().saturating_sub(MAX_EVENTS);
        events.truncate(MAX_EVENTS);
        let replay = steps_to(&events);
        Self { subagent, omitted, events, replay }
    }
}

impl Capsule {
    /// Reads a capsule, which may be anything.
    pub fn read(path: &Path) -> Result<Self, CapsuleError> {
        let unreadable = |source| CapsuleError::Unreadable { path: path.to_owned(), source };
        // Opening a pipe would wait for a writer that may never come.
        if !fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(CapsuleError::NotACapsule { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(CapsuleError::TooLarge { path: path.to_owned() });
        }
        Self::parse(&bytes, path)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Self, CapsuleError> {
        let value: Option<Value> = serde_json::from_slice(bytes).ok();
        match value.as_ref().and_then(|value| value.get("format")?.as_u64()) {
            None => return Err(CapsuleError::NotACapsule { path: path.to_owned() }),
            Some(FORMAT) => {}
            Some(found) => return Err(CapsuleError::UnknownFormat { path: path.to_owned(), found }),
        }
        let capsule: Self = serde_json::from_value(value.unwrap_or_default())
            .map_err(|source| CapsuleError::Damaged { path: path.to_owned(), source })?;
        let is_long = |record: &SessionRecord| {
            let calls: usize = record.replay.iter().map(ReplayStep::calls).sum();
            record.events.len().max(record.replay.len()).max(calls) > MAX_EVENTS
        };
        if capsule.sessions.len() > MAX_SESSIONS || capsule.sessions.iter().any(is_long) {
            return Err(CapsuleError::TooMany { path: path.to_owned() });
        }
        Ok(capsule)
    }
}

#[cfg(test)]
mod tests;
