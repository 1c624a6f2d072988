//! Reads one session file of any release, including truncated ones.

mod fold;
mod log;
mod sections;

pub(crate) use fold::{Folded, Layout, fold};
pub(crate) use sections::frame;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use pollux_domain::JsonObject;
use pollux_domain::id::SessionId;
use pollux_domain::json::parse_lenient_str;
use pollux_domain::plural::counted;
use pollux_domain::time::Timestamp;
use serde_json::Value;

use crate::blobs::{self, Blobs};
use crate::kind::{SessionKind, kind_of};
use crate::message::{Message, MessageFields, message_from_json};
use crate::redo;
use crate::salvage;
use crate::stream::{self, Stream};

/// Larger files are refused: reading one would take several times its size in memory.
const MAX_BYTES: u64 = pollux_config::files::MAX_SESSION_BYTES;
/// Larger files in a foreign layout are read message by message instead of as a whole.
pub(crate) const WORTH_A_STREAM: u64 = 1 << 20;
/// Fewer messages are decoded faster than a thread starts.
const WORTH_A_THREAD: usize = 1000;

/// A session as it is on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSession {
    pub path: PathBuf,
    pub id: SessionId,
    /// Missing in files of some releases.
    pub project_hash: Option<String>,
    pub start: Timestamp,
    pub last_updated: Timestamp,
    pub kind: SessionKind,
    pub summary: Option<String>,
    /// Workspace folders added during the session.
    pub directories: Vec<String>,
    pub messages: Vec<Message>,
    /// Set if the file was damaged.
    pub repaired: Option<RepairNote>,
    /// Top-level fields this program does not know.
    pub extra: JsonObject,
    pub(crate) stamp: FileStamp,
    pub(crate) layout: Layout,
}

impl StoredSession {
    /// A copy without the messages, which may use most of the memory.
    pub fn without_messages(&self) -> Self {
        Self {
            path: self.path.clone(),
            id: self.id.clone(),
            project_hash: self.project_hash.clone(),
            start: self.start,
            last_updated: self.last_updated,
            kind: self.kind,
            summary: self.summary.clone(),
            directories: self.directories.clone(),
            messages: Vec::new(),
            repaired: self.repaired.clone(),
            extra: self.extra.clone(),
            stamp: self.stamp,
            layout: self.layout,
        }
    }
}

/// What was damaged in a file, and what could still be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairNote {
    /// Offset of the first byte after the last complete message, if the file is damaged.
    pub torn_at: Option<u64>,
    /// Whether part of the unfinished message was recovered.
    pub kept_part: bool,
    /// Lines or messages that cannot be read completely; they stay in the file.
    pub unreadable_lines: usize,
    /// Separately stored values that are missing; excerpts are used instead.
    pub lost_blobs: usize,
}

impl RepairNote {
    /// Only a damaged end.
    pub(crate) fn torn(at: u64) -> Self {
        Self { torn_at: Some(at), kept_part: false, unreadable_lines: 0, lost_blobs: 0 }
    }

    /// Adds messages that cannot be read completely to a note, if any.
    pub(crate) fn with_unreadable(note: Option<Self>, messages: usize) -> Option<Self> {
        let empty = || Self { torn_at: None, kept_part: false, unreadable_lines: 0, lost_blobs: 0 };
        let note = if messages > 0 { Some(note.unwrap_or_else(empty)) } else { note };
        note.map(|note| Self { unreadable_lines: note.unreadable_lines + messages, ..note })
    }

    /// For a record log with so many damaged lines, the one that it is cut in included. `None` without any.
    pub(crate) fn of_log(torn_at: Option<u64>, damaged: usize) -> Option<Self> {
        let unreadable_lines = damaged - usize::from(torn_at.is_some());
        (damaged > 0).then_some(Self { torn_at, kept_part: false, unreadable_lines, lost_blobs: 0 })
    }
}

impl std::fmt::Display for RepairNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(torn_at) = self.torn_at {
            write!(f, "the file is damaged at byte {torn_at}; everything before that was read")?;
            if self.kept_part {
                f.write_str(", and the intact part of the message being written")?;
            }
            if self.unreadable_lines > 0 {
                write!(f, " ({} unreadable line(s) skipped)", self.unreadable_lines)?;
            }
        } else if self.unreadable_lines > 0 {
            let records = counted(self.unreadable_lines, "record");
            write!(f, "the file is damaged: {records} could not be read completely")?;
        }
        if self.lost_blobs > 0 {
            let and = if self.torn_at.is_some() || self.unreadable_lines > 0 { "; " } else { "" };
            write!(
                f,
                "{and}{} long text(s) or media file(s) stored separately are missing; excerpts are shown instead",
                self.lost_blobs
            )?;
        }
        Ok(())
    }
}

/// Detects changes to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) length: u64,
    pub(crate) modified_ms: i64,
}

/// Why a file could not be read as a session. The file is never changed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("could not read session file `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("session file `{}` is empty", path.display())]
    Empty { path: PathBuf },
    #[error("`{}` is not a session file; it was left unchanged", path.display())]
    NotASession { path: PathBuf },
    #[error("unsupported session format in `{}` ({reason}); the file was left unchanged", path.display())]
    UnknownShape { path: PathBuf, reason: &'static str },
    #[error("session file `{}` is too large: {length} bytes (limit {MAX_BYTES})", path.display())]
    TooLarge { path: PathBuf, length: u64 },
}

/// Reads a session. The format is detected from the content, not the name.
pub fn load(path: &Path) -> Result<StoredSession, LoadError> {
    let blobs = Blobs::of_file(path);
    // Intact files are read in pieces; the repairing reader needs the whole file.
    let (file, stamp) = open(path)?;
    if !redo::is_noted(path) {
        let read = sections::read(&file, stamp, &blobs).or_else(|| streamed(path, stamp, &blobs));
        if let Some(read) = read {
            return Ok(stored(path, read, stamp));
        }
    }
    drop(file);
    let (bytes, stamp, folded) = read_folded(path)?;
    // The bytes are dropped before the messages are decoded.
    drop(bytes);
    Ok(stored(path, folded.decoded(&blobs), stamp))
}

/// Reads a large object in a foreign layout; `None` if anything is unusual.
fn streamed(path: &Path, stamp: FileStamp, blobs: &Blobs) -> Option<Decoded> {
    let stream = Stream::whole_object(path, stamp)?;
    let mut messages = Vec::with_capacity(stream.len());
    let mut lost_blobs = 0;
    let mut buffer = Vec::new();
    for index in 0..stream.len() {
        let text = stream.text(index, &mut buffer).ok()?;
        let fields: JsonObject = parse_lenient_str(&text).ok()?;
        // The generated id of a message depends on all others.
        fields.get("id").filter(|id| id.is_string())?;
        let (message, lost) = decoded(fields.into(), blobs);
        messages.push(message);
        lost_blobs += lost;
    }
    Some(Decoded { meta: stream.meta, messages, layout: Layout::Other, repaired: None, lost_blobs })
}

/// Reads a whole file, completing an interrupted write if there is a redo note. A mixture of old and
/// new bytes may look intact, so the note is always applied.
pub(crate) fn read_folded(path: &Path) -> Result<(Vec<u8>, FileStamp, Folded), LoadError> {
    let (mut bytes, stamp) = read(path)?;
    let finished = redo::finish(path, &mut bytes);
    let mut folded = fold_or_salvage(path, &bytes)?;
    if let Some(at) = finished {
        // The file on disk is still torn there; only a rewrite repairs it.
        folded.layout = Layout::Other;
        folded.repaired.get_or_insert(RepairNote::torn(at));
    }
    Ok((bytes, stamp, folded))
}

/// Parses a whole file, and what can be read of a damaged one.
pub(crate) fn fold_or_salvage(path: &Path, bytes: &[u8]) -> Result<Folded, LoadError> {
    let mut folded = match fold(path, bytes) {
        Err(LoadError::NotASession { .. }) => from_damaged(path, bytes)?,
        folded => folded?,
    };
    read_behind_damage(bytes, &mut folded);
    Ok(folded)
}

/// An object that is damaged before it names its session.
fn from_damaged(path: &Path, bytes: &[u8]) -> Result<Folded, LoadError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let readable = text.starts_with(b"{").then(|| stream::readable(text)).flatten();
    let Some(stream::Readable { meta, mut messages, unreadable }) = readable else {
        return Err(LoadError::NotASession { path: path.to_owned() });
    };
    let mut note = RepairNote::torn(salvage::sound_length(text) as u64);
    note.unreadable_lines = unreadable;
    fold::name_messages(&mut messages);
    Ok(Folded { meta, messages, layout: Layout::Other, repaired: Some(note) })
}

/// A damaged message in a foreign layout must not cost the intact ones behind it.
fn read_behind_damage(bytes: &[u8], folded: &mut Folded) {
    if let (Some(note), Layout::Other) = (&mut folded.repaired, folded.layout)
        && let Some(readable) = stream::readable(bytes)
        && readable.messages.len() > folded.messages.len()
    {
        note.unreadable_lines = readable.unreadable;
        (folded.meta, folded.messages) = (readable.meta, readable.messages);
        fold::name_messages(&mut folded.messages);
    }
}

pub(crate) fn open(path: &Path) -> Result<(File, FileStamp), LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    // Opening a pipe would wait for a writer that may never come.
    if !metadata.is_file() {
        return Err(LoadError::NotASession { path: path.to_owned() });
    }
    if metadata.len() > MAX_BYTES {
        return Err(LoadError::TooLarge { path: path.to_owned(), length: metadata.len() });
    }
    Ok((File::open(path).map_err(unreadable)?, stamp_of(&metadata)))
}

pub(crate) fn read(path: &Path) -> Result<(Vec<u8>, FileStamp), LoadError> {
    let (file, stamp) = open(path)?;
    // One byte more, so that the end is seen without asking for more room.
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.length + 1).unwrap_or(0));
    let read = file.take(MAX_BYTES).read_to_end(&mut bytes);
    read.map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    Ok((bytes, stamp))
}

pub(crate) fn stamp_of(metadata: &fs::Metadata) -> FileStamp {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified_ms = modified.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0);
    FileStamp { length: metadata.len(), modified_ms }
}

/// A session file with its messages as this program uses them.
struct Decoded {
    meta: JsonObject,
    messages: Vec<Message>,
    layout: Layout,
    repaired: Option<RepairNote>,
    lost_blobs: usize,
}

impl Folded {
    fn decoded(self, blobs: &Blobs) -> Decoded {
        let mut messages = Vec::with_capacity(self.messages.len());
        let mut lost_blobs = 0;
        for (message, lost) in decoded_all(self.messages, blobs) {
            messages.push(message);
            lost_blobs += lost;
        }
        Decoded { meta: self.meta, messages, layout: self.layout, repaired: self.repaired, lost_blobs }
    }
}

/// Decodes all messages, using a second thread for large numbers.
fn decoded_all(mut values: Vec<Value>, blobs: &Blobs) -> Vec<(Message, usize)> {
    let decode = |values: Vec<Value>| -> Vec<(Message, usize)> {
        let objects = values.into_iter().filter_map(|value| match value {
            Value::Object(fields) => Some(fields),
            _ => None,
        });
        objects.map(|fields| decoded(fields.into(), blobs)).collect()
    };
    if values.len() < WORTH_A_THREAD {
        return decode(values);
    }
    let others = values.split_off(values.len() / 2);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| decode(others));
        let mut messages = decode(values);
        // Propagate a panic of the other thread.
        messages.extend(others.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        messages
    })
}

/// A message, and the number of missing blobs.
fn decoded(mut fields: MessageFields, blobs: &Blobs) -> (Message, usize) {
    let lost = blobs::resolve(blobs, &mut fields.all);
    let id = match fields.all.get_mut("id") {
        Some(Value::String(id)) => std::mem::take(id),
        _ => String::new(),
    };
    (message_from_json(id, fields), lost)
}

fn stored(path: &Path, decoded: Decoded, stamp: FileStamp) -> StoredSession {
    let Decoded { mut meta, messages, layout, mut repaired, lost_blobs } = decoded;
    let start = take_time(&mut meta, "startTime");
    let last_updated = take_time(&mut meta, "lastUpdated");
    let modified = Timestamp::from_millis(stamp.modified_ms);
    let directories = match meta.get("directories") {
        Some(Value::Array(items)) => {
            items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    if lost_blobs > 0 {
        let whole = RepairNote { torn_at: None, kept_part: false, unreadable_lines: 0, lost_blobs };
        repaired.get_or_insert(whole).lost_blobs = lost_blobs;
    }
    StoredSession {
        path: path.to_owned(),
        id: SessionId::from_file(take_string(&mut meta, "sessionId").unwrap_or_default()),
        project_hash: take_string(&mut meta, "projectHash"),
        start: start.or(last_updated).unwrap_or(modified),
        last_updated: last_updated.or(start).unwrap_or(modified),
        kind: kind_of(&meta),
        summary: take_string(&mut meta, "summary").filter(|summary| !summary.trim().is_empty()),
        directories,
        messages,
        repaired,
        extra: meta,
        stamp,
        layout,
    }
}

pub(crate) fn time_of(meta: &JsonObject, key: &str) -> Option<Timestamp> {
    meta.get(key).and_then(Value::as_str).and_then(Timestamp::parse)
}

fn take_time(meta: &mut JsonObject, key: &str) -> Option<Timestamp> {
    let time = time_of(meta, key);
    meta.remove(key);
    time
}

fn take_string(meta: &mut JsonObject, key: &str) -> Option<String> {
    match meta.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
