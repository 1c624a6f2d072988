//! Streams a session file of any size and format in one pass.
//!
//! Only the positions of messages are stored, so memory is bounded by the largest record, not the file.
//! Damaged files are handled by the reader of whole files, which repairs them.

mod log;
mod object;

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use pollux_domain::json::{parse_lenient, parse_lenient_str};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::load::{self, FileStamp, LoadError, RepairNote, stamp_of};
use crate::salvage::{self, LineBreaks};
use object::{Outcome, Scanned};

const BUFFER: usize = 256 * 1024;
/// A damaged file up to this size is read as a whole, which repairs more.
const WHOLE: u64 = 32 << 20;

/// A session file whose messages can be visited one at a time.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) path: PathBuf,
    pub(crate) meta: JsonObject,
    pub(crate) format: SessionFormat,
    pub(crate) stamp: FileStamp,
    pub(crate) damage: Option<RepairNote>,
    places: Vec<MessagePlace>,
    file: File,
}

/// Where a message is.
#[derive(Debug, Clone)]
pub(crate) enum MessagePlace {
    File { at: u64, length: u64 },
    Memory(String),
}

impl Stream {
    /// Finds the messages of a file.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(unreadable)?;
        // Opening a pipe would wait for a writer that may never come.
        if !metadata.is_file() {
            return Err(LoadError::NotASession { path: path.to_owned() });
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let stamp = stamp_of(&metadata);
        let mut reader = BufReader::with_capacity(BUFFER, &mut file);
        let scanned = object::scan(&mut reader).map_err(unreadable)?;
        let found = match scanned.outcome {
            Outcome::Whole => single(path, scanned)?,
            Outcome::MoreLines => {
                reader.seek(SeekFrom::Start(0)).map_err(unreadable)?;
                log::read(&mut reader).map_err(unreadable)?
            }
            Outcome::Empty => return Err(LoadError::Empty { path: path.to_owned() }),
            Outcome::Torn | Outcome::Damaged => None,
        };
        match found {
            Some(found) => Ok(Self {
                path: path.to_owned(),
                meta: found.meta,
                format: found.format,
                stamp,
                damage: found.damage,
                places: found.places,
                file,
            }),
            None => Self::open_damaged(path, file, stamp),
        }
    }

    /// A large undamaged object, provided that the file has not changed.
    pub(crate) fn whole_object(path: &Path, stamp: FileStamp) -> Option<Self> {
        if stamp.length < load::WORTH_A_STREAM {
            return None;
        }
        let stream = Self::open(path).ok()?;
        let is_whole = stream.stamp == stamp && stream.damage.is_none();
        (is_whole && stream.format == SessionFormat::Json).then_some(stream)
    }

    /// Reads a damaged file.
    fn open_damaged(path: &Path, mut file: File, stamp: FileStamp) -> Result<Self, LoadError> {
        let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
        if stamp.length > WHOLE {
            file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
            let mut scanned =
                object::scan_damaged(&mut BufReader::with_capacity(BUFFER, &mut file)).map_err(unreadable)?;
            if let Some(at) = scanned.unfinished.filter(|_| scanned.outcome == Outcome::Torn)
                && let Some(message) = salvaged(&file, at, stamp.length).map_err(unreadable)?
            {
                scanned.spans.push(MessagePlace::Memory(message));
            }
            if let Some(mut found) = single(path, scanned)? {
                found.damage.get_or_insert(RepairNote::torn(stamp.length));
                let Found { meta, places, format, damage } = found;
                return Ok(Self { path: path.to_owned(), meta, format, stamp, damage, places, file });
            }
        }
        let (_, stamp, folded) = load::read_folded(path)?;
        let format = match folded.layout {
            load::Layout::Log { .. } => SessionFormat::Jsonl,
            load::Layout::Document { .. } | load::Layout::Other => SessionFormat::Json,
        };
        Ok(Self {
            path: path.to_owned(),
            meta: folded.meta,
            format,
            stamp,
            damage: folded.repaired,
            places: folded
                .messages
                .into_iter()
                .map(|message| MessagePlace::Memory(message.to_string()))
                .collect(),
            file,
        })
    }

    /// The number of messages, including unreadable ones.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Hands every message to `visit` with its number from 0, as the text it has in the file.
    pub(crate) fn for_each<E: From<LoadError>>(
        &self,
        mut visit: impl FnMut(usize, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffer = Vec::new();
        for index in 0..self.places.len() {
            let text = self
                .text(index, &mut buffer)
                .map_err(|source| E::from(LoadError::Unreadable { path: self.path.clone(), source }))?;
            visit(index, &text)?;
        }
        Ok(())
    }

    /// The text of one message; the buffer is used again for the next.
    pub(crate) fn text<'a>(&'a self, index: usize, buffer: &'a mut Vec<u8>) -> io::Result<Cow<'a, str>> {
        match self.places.get(index) {
            None => Err(io::ErrorKind::InvalidInput.into()),
            Some(MessagePlace::Memory(text)) => Ok(Cow::Borrowed(text)),
            Some(MessagePlace::File { at, length }) => {
                let length = usize::try_from(*length).unwrap_or(0);
                // It only grows, because shrinking would require filling it again.
                buffer.resize(buffer.len().max(length), 0);
                let text = buffer.get_mut(..length).unwrap_or_default();
                self.file.read_exact_at(text, *at)?;
                let text = lossy(text);
                let is_damaged = self.damage.is_some();
                let clean = is_damaged.then(|| salvage::replace_controls(&text, LineBreaks::Replace));
                Ok(clean.flatten().map_or(text, Cow::Owned))
            }
        }
    }

    /// Where the bytes of a message are, if they are in the file as they should be.
    pub(crate) fn span(&self, index: usize) -> Option<(u64, u64)> {
        match self.places.get(index)? {
            MessagePlace::File { at, length } => Some((*at, *length)),
            MessagePlace::Memory(_) => None,
        }
    }
}

/// What is damaged in a session file that can be read nevertheless.
pub fn damage(path: &Path) -> Result<Option<RepairNote>, LoadError> {
    let stream = Stream::open(path)?;
    let mut unreadable = 0;
    stream.for_each::<LoadError>(|_, text| {
        unreadable += usize::from(!is_readable(text));
        Ok(())
    })?;
    Ok(RepairNote::with_unreadable(stream.damage, unreadable))
}

/// Whether a message is valid JSON, unpaired surrogates included.
pub(crate) fn is_readable(message: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(message).is_ok()
}

/// A damaged object, as far as its brackets are in order.
pub(crate) struct Readable {
    pub(crate) meta: JsonObject,
    /// Messages that are valid, and the intact parts of others.
    pub(crate) messages: Vec<Value>,
    /// Messages of which nothing can be read.
    pub(crate) unreadable: usize,
}

/// The messages of an object in which one is damaged, which costs no other; `None` if nothing tells its session.
pub(crate) fn readable(bytes: &[u8]) -> Option<Readable> {
    let mut scanned = object::scan_damaged(&mut &*bytes).ok()?;
    // A field that cannot be read costs no message.
    scanned.fields.retain(|(_, value)| field(value).is_some());
    let unfinished = scanned.unfinished.and_then(|at| bytes.get(usize::try_from(at).ok()?..));
    let found = single(Path::new(""), scanned).ok()??;
    let message = |place: &MessagePlace| match place {
        MessagePlace::File { at, length } => {
            let (at, length) = (usize::try_from(*at).ok()?, usize::try_from(*length).ok()?);
            let text = bytes.get(at..at.checked_add(length)?)?;
            parse_lenient(text).ok().or_else(|| salvage::message(text))
        }
        MessagePlace::Memory(text) => parse_lenient_str(text).ok(),
    };
    let mut messages: Vec<Value> = found.places.iter().filter_map(message).collect();
    let unreadable = found.places.len() - messages.len();
    messages.extend(unfinished.and_then(salvage::message));
    Some(Readable { unreadable, meta: found.meta, messages })
}

/// The value of a field, without control characters.
fn field(text: &[u8]) -> Option<Value> {
    parse_lenient(text).ok().or_else(|| salvage::without_controls(text))
}

/// What a pass found.
struct Found {
    meta: JsonObject,
    places: Vec<MessagePlace>,
    format: SessionFormat,
    damage: Option<RepairNote>,
}

/// A single object; `None` if it is not one that can be taken as it is.
fn single(path: &Path, scanned: Scanned) -> Result<Option<Found>, LoadError> {
    let mut meta = JsonObject::new();
    for (key, value) in scanned.fields {
        let Some(value) = field(&value) else { return Ok(None) };
        meta.insert(key, value);
    }
    if !meta.get("sessionId").is_some_and(Value::is_string) {
        return Ok(None);
    }
    match meta.shift_remove("messages") {
        None | Some(Value::Null) => {}
        Some(_) => {
            let reason = "its `messages` are not a list";
            return Err(LoadError::UnknownShape { path: path.to_owned(), reason });
        }
    }
    // A record log of one line looks the same but for its missing list.
    let format =
        if scanned.is_line && !scanned.has_list { SessionFormat::Jsonl } else { SessionFormat::Json };
    Ok(Some(Found { meta, places: scanned.spans, format, damage: None }))
}

/// What can be told of a message that ends with the file.
fn salvaged(file: &File, at: u64, length: u64) -> io::Result<Option<String>> {
    let mut rest = vec![0; usize::try_from(length.saturating_sub(at)).unwrap_or(0)];
    file.read_exact_at(&mut rest, at)?;
    Ok(salvage::message(&rest).map(|message| message.to_string()))
}

/// A broken character must not cost a whole message.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}
