//! The session store `sessions.json`, which lists the remembered sessions.

mod prune;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jsonc_parser::{CollectOptions, ParseOptions};
use pollux_config::env::Env;
use pollux_config::files::{self, FileError, Mode};
use pollux_domain::JsonObject;
use pollux_domain::sync::Locked as _;
use pollux_domain::time::{Clock, Timestamp};
use serde_json::Value;

use crate::lock::{OwnedLock, OwnedLockError, Patience};
use crate::session_key::SessionKey;
use crate::state;

/// Cache lifetime.
pub const CACHE_TTL_VARIABLE: &str = "GIMLI_SESSION_CACHE_TTL_MS";
const DEFAULT_TTL: Duration = Duration::from_millis(45_000);

/// The time that the environment gives to the cache; zero switches it off.
pub fn cache_ttl(env: &Env) -> Duration {
    let given = env.non_empty(CACHE_TTL_VARIABLE).and_then(|text| text.trim().parse().ok());
    given.map_or(DEFAULT_TTL, Duration::from_millis)
}

/// Session keys and what is known of each session. Fields that we do not know survive a change.
pub struct SessionStore {
    file: PathBuf,
    ttl: Duration,
    clock: Arc<dyn Clock>,
    patience: Patience,
    cache: Mutex<Option<Cached>>,
}

struct Cached {
    store: JsonObject,
    stamp: Stamp,
    read: Timestamp,
}

/// Two writes can share a millisecond, hence the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    size: u64,
}

/// Why the store could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] OwnedLockError),
}

impl StoreError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File(_) => Some("check the state directory's permissions and the free disk space"),
            Self::Lock(error) => error.hint(),
        }
    }
}

impl SessionStore {
    pub fn new(file: PathBuf, ttl: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { file, ttl, clock, patience: Patience::STORE, cache: Mutex::new(None) }
    }

    /// With another limit on the wait for its lock.
    #[must_use]
    pub fn within(self, wait: Duration) -> Self {
        Self { patience: Patience::store(wait), ..self }
    }

    /// Every entry by its key.
    pub fn read(&self) -> Result<JsonObject, StoreError> {
        let stamp = stamp(&self.file);
        let now = self.clock.now();
        let mut cache = self.cache.locked();
        if let (Some(cached), Some(stamp)) = (cache.as_ref(), stamp) {
            let age = now.millis().saturating_sub(cached.read.millis());
            if cached.stamp == stamp && (0..=millis(self.ttl)).contains(&age) && !self.ttl.is_zero() {
                return Ok(cached.store.clone());
            }
        }
        let store = parse(&self.text()?).unwrap_or_default();
        *cache = stamp.map(|stamp| Cached { store: store.clone(), stamp, read: now });
        Ok(store)
    }

    /// Updates the store atomically under its lock.
    pub fn update<T>(&self, change: impl FnOnce(&mut JsonObject) -> T) -> Result<T, StoreError> {
        if let Some(folder) = self.file.parent() {
            files::create_folder(folder, Mode::Private)?;
        }
        let _lock = OwnedLock::acquire(&self.file, self.patience)?;
        let text = self.text()?;
        let mut store = match parse(&text) {
            Some(store) => store,
            None => {
                self.keep_aside()?;
                JsonObject::new()
            }
        };
        let result = change(&mut store);
        let pruned = prune::hook_sessions(&mut store, self.clock.now());
        self.write(&store)?;
        for entry in pruned {
            self.remove_transcript(&entry, &store);
        }
        Ok(result)
    }

    /// Adds fields to an entry, or makes it.
    pub fn upsert(&self, key: &SessionKey, patch: JsonObject) -> Result<JsonObject, StoreError> {
        let now = self.clock.now().millis();
        self.update(|store| {
            let mut entry = match store.get(key.as_str()) {
                Some(Value::Object(entry)) => entry.clone(),
                _ => JsonObject::from_iter([("createdAt".to_owned(), now.into())]),
            };
            let updated = [entry.get("updatedAt"), patch.get("updatedAt")];
            let newest = updated.into_iter().flatten().filter_map(Value::as_i64).fold(now, i64::max);
            entry.extend(patch);
            let id = entry.get("sessionId").and_then(Value::as_str).map(str::to_owned);
            let id = id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
            entry.insert("sessionId".to_owned(), id.into());
            entry.insert("updatedAt".to_owned(), newest.into());
            store.insert(key.as_str().to_owned(), Value::Object(entry.clone()));
            entry
        })
    }

    /// Whether there was such a session. Its transcript stays.
    pub fn remove(&self, key: &SessionKey) -> Result<bool, StoreError> {
        self.update(|store| store.remove(key.as_str()).is_some())
    }

    fn text(&self) -> Result<String, StoreError> {
        match files::read_text(&self.file) {
            Ok(text) => Ok(text.unwrap_or_default()),
            Err(FileError::NotUtf8 { .. }) => {
                let bytes = fs::read(&self.file).unwrap_or_default();
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn write(&self, store: &JsonObject) -> Result<(), StoreError> {
        let failed = |source: io::Error| FileError::Write { path: self.file.clone(), source };
        let text = serde_json::to_string_pretty(store).map_err(|error| failed(error.into()))?;
        *self.cache.locked() = None;
        files::replace(&self.file, text.as_bytes(), Mode::Private)?;
        // An older file may have been readable by others; replacing keeps a file's mode.
        state::set_mode(&self.file, 0o600).map_err(failed)?;
        Ok(())
    }

    /// An unreadable store is moved aside, not deleted.
    fn keep_aside(&self) -> Result<(), StoreError> {
        let mut name = self.file.as_os_str().to_owned();
        name.push(format!(".corrupt-{}", self.clock.now().millis()));
        let failed = |source| FileError::Write { path: PathBuf::from(&name), source };
        fs::rename(&self.file, &name).map_err(failed)?;
        Ok(())
    }

    /// The transcript of a session that was dropped, if it is one of ours and lies here.
    fn remove_transcript(&self, entry: &Value, store: &JsonObject) {
        let Some(folder) = self.file.parent() else { return };
        let id_of =
            |entry: &Value| entry.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = id_of(entry);
        let is_used = store.values().any(|kept| id_of(kept) == id);
        if !is_used && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            // It may never have had one. Its rows leave the index with the next sync.
            let _ = fs::remove_file(folder.join(format!("{id}.jsonl")));
        }
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let meta = fs::metadata(file).ok()?;
    Some(Stamp { modified: meta.modified().ok()?, size: meta.len() })
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The store in a text; `None` when it is something else. Old names of fields become the new ones.
pub(crate) fn parse(text: &str) -> Option<JsonObject> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Some(JsonObject::new());
    }
    let mut store = match serde_json::from_str(text).ok().or_else(|| loose(text))? {
        Value::Object(store) => store,
        _ => return None,
    };
    for (_, entry) in &mut store {
        let Value::Object(entry) = entry else { continue };
        for (old, new) in [("provider", "channel"), ("lastProvider", "lastChannel"), ("room", "groupChannel")]
        {
            if !entry.contains_key(new)
                && let Some(value) = entry.get(old).cloned()
            {
                entry.insert(new.to_owned(), value);
            }
        }
        entry.shift_remove("room");
    }
    Some(store)
}

/// A text that a person edited: comments, commas too many, names without quotes.
fn loose(text: &str) -> Option<Value> {
    let (collect, options) = (CollectOptions::default(), ParseOptions::default());
    jsonc_parser::parse_to_ast(text, &collect, &options).ok()?.value.map(Value::from)
}

#[cfg(test)]
mod tests;
