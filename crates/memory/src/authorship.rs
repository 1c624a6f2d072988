//! Tracks which lines of notes the model wrote. Stored next to the notes, since the text itself cannot prove it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use pollux_config::paths::sha256_hex;
use serde::{Deserialize, Serialize};

use crate::source::Provenance;
use crate::state::{AgentDir, StateError};

/// Maximum number of lines; the oldest are dropped first.
const MAX_LINES: usize = 20_000;
/// Characters of a hash: enough to tell lines apart.
const KEY: usize = 16;

/// Why authorship was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum AuthorshipError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// The list of one agent.
#[derive(Debug, Clone)]
pub struct ModelNotes {
    agent: AgentDir,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    version: u32,
    lines: Vec<String>,
}

impl ModelNotes {
    pub fn new(agent: AgentDir) -> Self {
        Self { agent }
    }

    /// Records that the model wrote these lines. Call it before they are written to a note.
    /// Waits so long for the list's lock.
    pub fn add(&self, lines: &[String], wait: Duration) -> Result<(), AuthorshipError> {
        self.agent.prepare()?;
        let file = file_of(&self.agent);
        let _lock = FileLock::acquire_within(&file, wait)?;
        let mut wire: Wire =
            files::read_text(&file)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        for key in lines.iter().map(|line| key(line)) {
            if !wire.lines.contains(&key) {
                wire.lines.push(key);
            }
        }
        let excess = wire.lines.len().saturating_sub(MAX_LINES);
        wire.lines.drain(..excess);
        wire.version = 1;
        let text = serde_json::to_string(&wire).unwrap_or_default();
        files::replace(&file, text.as_bytes(), Mode::Private)?;
        Ok(())
    }
}

/// The list as it is read.
#[derive(Debug, Default)]
pub(crate) struct Authorship {
    lines: HashSet<String>,
    /// The list is unreadable, so authorship is unknown.
    is_lost: bool,
}

impl Authorship {
    pub(crate) fn read(agent: &AgentDir) -> Self {
        let text = match files::read_text(&file_of(agent)) {
            Ok(None) => return Self::default(),
            Ok(Some(text)) => text,
            Err(_) => String::new(),
        };
        match serde_json::from_str::<Wire>(&text) {
            Ok(wire) => Self { lines: wire.lines.into_iter().collect(), is_lost: false },
            Err(_) => Self { lines: HashSet::new(), is_lost: true },
        }
    }

    /// The author of a line; `whose` unless the model wrote it.
    pub(crate) fn of(&self, line: &str, whose: Provenance) -> Provenance {
        let is_asked = self.is_lost || !self.lines.is_empty();
        let is_model =
            is_asked && !line.trim().is_empty() && (self.is_lost || self.lines.contains(&key(line)));
        if is_model { whose.max(Provenance::Agent) } else { whose }
    }
}

fn file_of(agent: &AgentDir) -> PathBuf {
    agent.agent_dir().join("model-notes.json")
}

fn key(line: &str) -> String {
    sha256_hex(line.trim().as_bytes()).chars().take(KEY).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::scratch;

    #[test]
    fn lines_of_the_model_are_told_from_those_of_the_user() {
        let (_folder, agent) = scratch();
        let notes = ModelNotes::new(agent.clone());
        notes.add(&["- the port is 8080".to_owned()], Duration::ZERO).unwrap();
        notes.add(&["- the host is db1".to_owned()], Duration::ZERO).unwrap();
        let read = Authorship::read(&agent);
        assert_eq!(read.of("- the port is 8080 ", Provenance::Owner), Provenance::Agent);
        assert_eq!(read.of("- the host is db1", Provenance::Untrusted), Provenance::Untrusted);
        assert_eq!(read.of("- the port is 8081", Provenance::Owner), Provenance::Owner);
    }

    #[test]
    fn without_the_list_no_line_is_taken_for_the_users() {
        let (_folder, agent) = scratch();
        assert_eq!(Authorship::read(&agent).of("- x", Provenance::Owner), Provenance::Owner);
        agent.prepare().unwrap();
        files::replace(&file_of(&agent), b"{half", Mode::Private).unwrap();
        let read = Authorship::read(&agent);
        assert_eq!(read.of("- x", Provenance::Owner), Provenance::Agent);
        assert_eq!(read.of("  ", Provenance::Owner), Provenance::Owner);
    }
}
