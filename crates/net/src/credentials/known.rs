//! Names of entries seen in the keychain, so that a process that cannot reach it can still list them.
//!
//! A file without secrets: a desktop has a keychain that the same user has not got over ssh, and "nothing stored"
//! would be wrong there. Entries that another program made are missing until they are seen.

use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileLock, Mode};
use pollux_domain::JsonObject;
use serde_json::{Value, json};

const FILE: &str = "keychain_entries.json";

pub(super) struct KnownEntries {
    path: PathBuf,
}

impl KnownEntries {
    pub(super) fn new(folder: &Path) -> Self {
        Self { path: folder.join(FILE) }
    }

    /// Whether an entry was in the keychain when it was last seen. A list that cannot be read may name everything.
    pub(super) fn has(&self, service: &str, account: &str) -> bool {
        match self.read() {
            Some(known) => names(&known, service).any(|name| name == account),
            None => true,
        }
    }

    /// Whether any entry of these services was there.
    pub(super) fn has_any(&self, services: &[&str]) -> bool {
        match self.read() {
            Some(known) => services.iter().any(|service| names(&known, service).next().is_some()),
            None => true,
        }
    }

    /// Records an entry. The list is only an aid, so a failed write is ignored.
    pub(super) fn add(&self, service: &str, account: &str) {
        if !self.has(service, account) {
            self.change(|known| {
                let list = known.entry(service).or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(Value::from(account));
                }
            });
        }
    }

    /// It is not there any more.
    pub(super) fn remove(&self, service: &str, account: &str) {
        if self.path.exists() && self.has(service, account) {
            self.change(|known| {
                if let Some(list) = known.get_mut(service).and_then(Value::as_array_mut) {
                    list.retain(|name| name.as_str() != Some(account));
                }
                known.retain(|_, list| list.as_array().is_some_and(|list| !list.is_empty()));
            });
        }
    }

    fn change(&self, change: impl FnOnce(&mut JsonObject)) {
        let Ok(_lock) = FileLock::acquire(&self.path) else { return };
        let mut known = self.read().unwrap_or_default();
        change(&mut known);
        let _ = if known.is_empty() {
            std::fs::remove_file(&self.path).map_err(drop)
        } else {
            let text = format!("{:#}", Value::Object(known));
            files::replace(&self.path, text.as_bytes(), Mode::Private).map_err(drop)
        };
    }

    fn read(&self) -> Option<JsonObject> {
        match files::read_text(&self.path) {
            Ok(None) => Some(JsonObject::new()),
            Ok(Some(text)) => serde_json::from_str(&text).ok(),
            Err(_) => None,
        }
    }
}

fn names<'a>(known: &'a JsonObject, service: &str) -> impl Iterator<Item = &'a str> {
    known.get(service).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
