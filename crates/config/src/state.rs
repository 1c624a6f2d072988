//! Persistent state: counters of shown messages, and the installation id.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::edit_file::{ObjectError, change_object, read_object};
use crate::files::{self, FileError, FileLock, LockError, Mode};
use crate::paths::Home;

/// Used when the id can be neither read nor written; upstream's constant.
const FALLBACK_ID: &str = "123456789";

/// Why the installation id was not saved.
#[derive(Debug, thiserror::Error)]
enum StateError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// The content of `state.json`; a missing or damaged file counts as empty. It grants and counts, so what cannot be read
/// is not granted.
pub fn read(home: &Home) -> Map<String, Value> {
    read_object(&home.state_file()).unwrap_or_default()
}

/// Changes `state.json` under its lock; keys that the change does not touch stay. A damaged file is moved aside; returns
/// its new path.
pub fn update(
    home: &Home,
    change: impl FnMut(&mut Map<String, Value>),
) -> Result<Option<PathBuf>, ObjectError> {
    change_object(&home.state_file(), change)
}

/// This installation's id, made at the first call.
pub fn installation_id(home: &Home) -> String {
    match stored_id(home) {
        Ok(Some(id)) => id,
        Ok(None) => new_id(home).unwrap_or_else(|_| FALLBACK_ID.to_owned()),
        Err(_) => FALLBACK_ID.to_owned(),
    }
}

fn stored_id(home: &Home) -> Result<Option<String>, FileError> {
    let text = files::read_text(&home.installation_id_file())?;
    Ok(text.map(|text| text.trim().to_owned()).filter(|id| !id.is_empty()))
}

fn new_id(home: &Home) -> Result<String, StateError> {
    let file = home.installation_id_file();
    let _lock = FileLock::acquire(&file)?;
    // Two first runs at once must agree on one id.
    if let Some(id) = stored_id(home)? {
        return Ok(id);
    }
    let id = uuid::Uuid::new_v4().to_string();
    files::replace(&file, id.as_bytes(), Mode::Private)?;
    Ok(id)
}

#[cfg(test)]
mod tests;
