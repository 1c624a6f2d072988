//! Stores long texts and media once, in a folder next to the sessions.
//!
//! The session file keeps an excerpt that any reader understands; an extra field of the message or call holds the
//! hash of the full text. Readers that ignore the field still see sensible text.

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

/// The field that lists what was extracted.
pub(crate) const FIELD: &str = "polluxBlobs";
/// Sub-agent folder ids never contain a dot, so this name cannot collide.
pub(crate) const FOLDER: &str = ".blobs";
/// Longer texts are stored separately.
const THRESHOLD: usize = 64 * 1024;
/// Upper limit for a single text; longer files were not written by this program.
const MAX_BYTES: u64 = 1 << 30;

/// Total bytes that one load of a session may read from blobs, against marks that repeat.
const MAX_TOTAL: u64 = 1 << 30;

/// The kind of record that a long value is extracted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// A user message: only its media. The typed text always stays in the session file.
    Prompt,
    /// A tool call: media and texts.
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

/// While held, no blob of the folder is removed.
#[derive(Debug, Default)]
pub(crate) struct Guard(Option<FileLock>);

/// The folder of one project's blobs.
#[derive(Debug)]
pub(crate) struct Blobs {
    dir: PathBuf,
    /// The folder for sub-agent sessions, which are one level deeper.
    fallback: Option<PathBuf>,
    /// How many bytes may still be read.
    left: AtomicU64,
}

impl Blobs {
    /// The blobs of the folder for new sessions of this kind.
    pub(crate) fn of_chats(chats: &Path, kind: SessionKind) -> Self {
        let base = match kind {
            SessionKind::Main => chats,
            SessionKind::Subagent => chats.parent().unwrap_or(chats),
        };
        Self { dir: base.join(FOLDER), fallback: None, left: MAX_TOTAL.into() }
    }

    /// The blobs of an existing session file.
    pub(crate) fn of_file(session: &Path) -> Self {
        let dir = session.parent().unwrap_or(Path::new(""));
        let up = dir.parent().map(|up| up.join(FOLDER));
        Self { dir: dir.join(FOLDER), fallback: up, left: MAX_TOTAL.into() }
    }

    /// Extracts long values from a record. The guard protects the new blobs from removal, so the
    /// record must be written before it is dropped. Values that cannot be stored stay in the record.
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

    /// Copies the blobs of a message from the folder of `from`.
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
        // A corrupt file with the same name and length would lose the text, so it is verified.
        let is_there = read(&path, text.len() as u64).is_some_and(|found| found == text.as_bytes());
        if !is_there {
            files::replace(&path, text.as_bytes(), Mode::Private).map_err(io::Error::other)?;
        }
        Ok(hash)
    }

    /// The text with this hash, if present and intact.
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
