//! Long texts and media, stored once beside the sessions of a folder.
//!
//! A session file then holds an excerpt that any reader understands, and in an extra field of the message
//! or call the hash under which the whole is found. Readers that know nothing of it see sensible text.

mod marks;
mod sweep;

pub(crate) use marks::resolve;
pub(crate) use sweep::{references, sweep, used_alone};

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pollux_config::files::{self, FileLock, Mode};
use pollux_config::paths::sha256_hex;
use pollux_domain::JsonObject;
use serde_json::Value;

use crate::kind::SessionKind;

/// The field that says what was taken out.
pub(crate) const FIELD: &str = "polluxBlobs";
/// Ids of sub-agents' folders never have a dot, so this is nobody else's.
pub(crate) const FOLDER: &str = ".blobs";
/// What is longer is stored apart.
const THRESHOLD: usize = 64 * 1024;
/// No single text is longer; whatever is, is not ours.
const MAX_BYTES: u64 = 1 << 30;

/// What one reading of a session takes from blobs at the most, however often its marks name them.
const MAX_TOTAL: u64 = 1 << 30;

/// What kind of record something long is taken out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// A person's message: its media. Their words stay whole in the session file, whatever their length.
    Prompt,
    /// A call: media and texts.
    Call,
}

impl Record {
    /// The fields that may hold something long.
    fn keys(self) -> [&'static str; 2] {
        match self {
            Self::Prompt => ["content", "displayContent"],
            Self::Call => ["result", "resultDisplay"],
        }
    }
}

/// While this is held no blob of its folder is swept away.
#[derive(Debug, Default)]
pub(crate) struct Guard(Option<FileLock>);

/// The folder of one project's blobs.
#[derive(Debug)]
pub(crate) struct Blobs {
    dir: PathBuf,
    /// Where sub-agents' sessions, which lie one folder deeper, find theirs.
    fallback: Option<PathBuf>,
    /// How many bytes may still be read.
    left: AtomicU64,
}

impl Blobs {
    /// Of the folder that new sessions of this kind go to.
    pub(crate) fn of_chats(chats: &Path, kind: SessionKind) -> Self {
        let base = match kind {
            SessionKind::Main => chats,
            SessionKind::Subagent => chats.parent().unwrap_or(chats),
        };
        Self { dir: base.join(FOLDER), fallback: None, left: MAX_TOTAL.into() }
    }

    /// Of an existing session file.
    pub(crate) fn of_file(session: &Path) -> Self {
        let dir = session.parent().unwrap_or(Path::new(""));
        let up = dir.parent().map(|up| up.join(FOLDER));
        Self { dir: dir.join(FOLDER), fallback: up, left: MAX_TOTAL.into() }
    }

    /// Moves what is long out of a record. Until the guard is dropped nothing sweeps them away, so the
    /// record that names them has to be written before. What cannot be stored stays where it is.
    pub(crate) fn extract(&self, fields: &mut JsonObject, record: Record, guard: &mut Guard) {
        if !marks::has_long(fields, record) || files::create_folder(&self.dir, Mode::Private).is_err() {
            return;
        }
        if guard.0.is_none() {
            guard.0 = FileLock::acquire(&self.dir).ok();
        }
        if guard.0.is_some() {
            marks::extract(self, fields, record);
        }
    }

    /// Brings the blobs of a message that was read beside `from` over here.
    pub(crate) fn adopt(&self, message: &mut JsonObject, from: &Self, guard: &mut Guard) {
        if self.dir == from.dir {
            return;
        }
        resolve(from, message);
        self.extract(message, Record::Prompt, guard);
        let calls = message.get_mut("toolCalls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
            self.extract(call, Record::Call, guard);
        }
    }

    /// Stores a text; returns its name.
    fn put(&self, text: &str) -> io::Result<String> {
        let hash = sha256_hex(text.as_bytes());
        let path = self.dir.join(&hash);
        // A file of this name and length that says something else would cost the text.
        let is_there = read(&path, text.len() as u64).is_some_and(|found| found == text.as_bytes());
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
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).ok()?;
        let found = read(&self.dir.join(hash), bytes)
            .or_else(|| read(&self.fallback.as_deref()?.join(hash), bytes))?;
        if sha256_hex(&found) != hash {
            return None;
        }
        String::from_utf8(found).ok()
    }
}

/// A file of exactly this length.
fn read(path: &Path, bytes: u64) -> Option<Vec<u8>> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() != bytes {
        return None;
    }
    let mut found = Vec::with_capacity(usize::try_from(bytes).ok()?);
    fs::File::open(path).ok()?.take(bytes).read_to_end(&mut found).ok()?;
    Some(found)
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
