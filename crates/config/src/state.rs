//! Persistent state: counters of shown messages, and the installation id.

use serde_json::{Map, Value};

use crate::files::{self, FileError, FileLock, LockError, Mode};
use crate::jsonc;
use crate::paths::Home;

/// Used when the id can be neither read nor written; upstream's constant.
const FALLBACK_ID: &str = "123456789";

/// Why the state was not saved.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// The content of `state.json`; a missing or broken file counts as empty.
pub fn read(home: &Home) -> Map<String, Value> {
    let text = files::read_text(&home.state_file()).ok().flatten().unwrap_or_default();
    match jsonc::parse(&text).map(|document| document.value) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// Changes `state.json` under its lock; keys that the change does not touch stay.
pub fn update(home: &Home, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), StateError> {
    let file = home.state_file();
    let _lock = FileLock::acquire(&file)?;
    let old = read(home);
    let mut new = old.clone();
    change(&mut new);
    if new == old {
        return Ok(());
    }
    let text = format!("{:#}", Value::Object(new));
    Ok(files::replace(&file, text.as_bytes(), Mode::Private)?)
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
