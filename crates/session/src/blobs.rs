//! Long texts and media, stored once beside the sessions of a folder.
//!
//! A session file then holds an excerpt that any reader understands, and in an extra field of the message
//! or call the hash under which the whole is found. Readers that know nothing of it see sensible text.

mod marks;
mod sweep;

pub(crate) use marks::resolve;
pub(crate) use sweep::{references, sweep};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileLock, Mode};
use pollux_config::paths::sha256_hex;
use pollux_domain::JsonObject;
use serde_json::Value;

use crate::load::SessionKind;

/// The field that says what was taken out.
pub(crate) const FIELD: &str = "polluxBlobs";
/// Ids of sub-agents' folders never have a dot, so this is nobody else's.
pub(crate) const FOLDER: &str = ".blobs";
/// What is longer is stored apart.
const THRESHOLD: usize = 64 * 1024;
/// No single text is longer; whatever is, is not ours.
const MAX_BYTES: u64 = 1 << 30;

/// The fields that may hold something long: of a user's message, and of a call.
pub(crate) const MESSAGE_KEYS: [&str; 2] = ["content", "displayContent"];
pub(crate) const CALL_KEYS: [&str; 2] = ["result", "resultDisplay"];

/// While this is held no blob of its folder is swept away.
#[derive(Debug, Default)]
pub(crate) struct Guard(Option<FileLock>);

/// The folder of one project's blobs.
#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    dir: PathBuf,
    /// Where sub-agents' sessions, which lie one folder deeper, find theirs.
    fallback: Option<PathBuf>,
}

impl Blobs {
    /// Of the folder that new sessions of this kind go to.
    pub(crate) fn of_chats(chats: &Path, kind: SessionKind) -> Self {
        let base = match kind {
            SessionKind::Main => chats,
            SessionKind::Subagent => chats.parent().unwrap_or(chats),
        };
        Self { dir: base.join(FOLDER), fallback: None }
    }

    /// Of an existing session file.
    pub(crate) fn of_file(session: &Path) -> Self {
        let dir = session.parent().unwrap_or(Path::new(""));
        let up = dir.parent().map(|up| up.join(FOLDER));
        Self { dir: dir.join(FOLDER), fallback: up }
    }

    /// Moves long values of these fields out. Until the guard is dropped nothing sweeps them away, so the
    /// record that names them has to be written before. What cannot be stored stays where it is.
    pub(crate) fn extract(&self, fields: &mut JsonObject, keys: &[&str], guard: &mut Guard) {
        if !marks::has_long(fields, keys) || files::create_folder(&self.dir, Mode::Private).is_err() {
            return;
        }
        if guard.0.is_none() {
            guard.0 = FileLock::acquire(&self.dir).ok();
        }
        if guard.0.is_some() {
            marks::extract(self, fields, keys);
        }
    }

    /// Brings the blobs of a message that was read beside `from` over here.
    pub(crate) fn adopt(&self, message: &mut JsonObject, from: &Self, guard: &mut Guard) {
        if self.dir == from.dir {
            return;
        }
        resolve(from, message);
        self.extract(message, &MESSAGE_KEYS, guard);
        let calls = message.get_mut("toolCalls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
            self.extract(call, &CALL_KEYS, guard);
        }
    }

    /// Stores a text; returns its name.
    fn put(&self, text: &str) -> io::Result<String> {
        let hash = sha256_hex(text.as_bytes());
        let path = self.dir.join(&hash);
        let is_there = fs::metadata(&path).is_ok_and(|found| found.len() == text.len() as u64);
        if !is_there {
            files::replace(&path, text.as_bytes(), Mode::Private).map_err(io::Error::other)?;
        }
        Ok(hash)
    }

    /// The text of this name, if it is there and what it says it is.
    pub(crate) fn get(&self, hash: &str, bytes: u64) -> Option<String> {
        if !is_hash(hash) || bytes > MAX_BYTES {
            return None;
        }
        let read = |dir: &Path| {
            let path = dir.join(hash);
            let metadata = fs::metadata(&path).ok()?;
            (metadata.is_file() && metadata.len() == bytes).then(|| fs::read(&path).ok())?
        };
        let found = read(&self.dir).or_else(|| read(self.fallback.as_deref()?))?;
        if sha256_hex(&found) != hash {
            return None;
        }
        String::from_utf8(found).ok()
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
