//! Deletes journals of removed sessions and contents that no journal references.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use pollux_domain::id::SessionId;

use crate::store;

use super::log;

/// The result of a clean-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneOutcome {
    Done,
    /// A session is using the store; another time.
    InUse,
}

/// Deletes the journals of removed sessions, and contents that no journal references.
pub fn forget(store: &Path, is_kept: impl Fn(&SessionId) -> bool) -> io::Result<PruneOutcome> {
    let sessions = store.join("sessions");
    if !sessions.exists() {
        return Ok(PruneOutcome::Done);
    }
    let lock = File::options().create(true).append(true).open(store.join("in-use"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(PruneOutcome::InUse),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut needed = HashSet::new();
    for session in fs::read_dir(&sessions)? {
        let path = session?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if is_kept(&SessionId::from_file(name)) {
            needed.extend(log::needed(&path)?);
        } else {
            fs::remove_dir_all(&path)?;
        }
    }
    store::sweep(store, |hash| needed.contains(hash));
    Ok(PruneOutcome::Done)
}

/// Whether a store has a journal of this session.
pub fn has_journal(store: &Path, session: &SessionId) -> bool {
    store.join("sessions").join(folder_name(session)).is_dir()
}

/// A session's id as the name of a folder.
pub(super) fn folder_name(session: &SessionId) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match session.as_str() {
        id if !id.is_empty() && id.len() <= 100 && id.chars().all(is_plain) => id.to_owned(),
        id => pollux_config::paths::sha256_hex(id.as_bytes()),
    }
}
