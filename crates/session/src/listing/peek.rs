//! Reads list information from the first bytes of a file.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use pollux_domain::JsonObject;
use pollux_domain::id::SessionId;
use pollux_domain::json::parse_lenient;
use pollux_domain::time::Timestamp;
use serde_json::Value;

use super::{SessionInfo, said, title};
use crate::document::{Head, read_head};
use crate::kind::{SessionKind, kind_of};
use crate::load::{load, stamp_of, time_of};
use crate::message::{Message, UserText, message_from_json, user_text_kind};

/// The head and the first prompt mostly fit in here; otherwise twice as much is read, and so on.
const FIRST_READ: usize = 4096;

pub(super) enum Peek {
    Found(SessionInfo),
    /// A sub-agent's session.
    NotListed,
    /// Not our layout, or nothing to show in what can be read one line at a time.
    ReadWhole,
}

/// The result for the bytes read so far.
enum Glance {
    Told(Peek),
    NeedsMore,
}

pub(super) fn peek(path: &Path, now: Timestamp) -> Peek {
    try_peek(path, now).unwrap_or(Peek::ReadWhole)
}

fn try_peek(path: &Path, now: Timestamp) -> Option<Peek> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() {
        return None;
    }
    let modified = match stamp_of(&metadata).modified_ms {
        0 => now,
        millis => Timestamp::from_millis(millis),
    };
    let mut file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    let mut amount = FIRST_READ;
    loop {
        let read = file.by_ref().take(amount as u64).read_to_end(&mut bytes).ok()?;
        match glance(&bytes, path, modified) {
            Glance::Told(told) => return Some(told),
            Glance::NeedsMore if read < amount => return None,
            Glance::NeedsMore => amount = bytes.len(),
        }
    }
}

fn glance(bytes: &[u8], path: &Path, modified: Timestamp) -> Glance {
    let (meta, body_at) = match read_head(bytes) {
        Head::Ours { meta, body_at, .. } => (meta, body_at),
        Head::Cut { .. } => return Glance::NeedsMore,
        Head::Foreign => return Glance::Told(Peek::ReadWhole),
    };
    let Some(id) = meta.get("sessionId").and_then(Value::as_str) else {
        return Glance::Told(Peek::ReadWhole);
    };
    if kind_of(&meta) == SessionKind::Subagent {
        return Glance::Told(Peek::NotListed);
    }
    let body = bytes.get(body_at..).unwrap_or_default();
    // The first piece is what is left of the line that opens the list, the last one is not complete.
    let mut lines = body.split(|byte| *byte == b'\n').skip(1).peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_none() {
            return Glance::NeedsMore;
        }
        match first_prompt(line) {
            Line::Prompt(text) => return Glance::Told(Peek::Found(info(id, &meta, text, path, modified))),
            Line::SomethingElse => {}
            Line::NotAMessage => return Glance::Told(Peek::ReadWhole),
        }
    }
    Glance::NeedsMore
}

enum Line {
    Prompt(String),
    SomethingElse,
    NotAMessage,
}

fn first_prompt(line: &[u8]) -> Line {
    let line = line.strip_suffix(b",").unwrap_or(line);
    let Some(Ok(fields)) = line.strip_prefix(b"    ").map(parse_lenient::<JsonObject>) else {
        return Line::NotAMessage;
    };
    match message_from_json(String::new(), fields.into()) {
        Message::User(user) if user_text_kind(&user.parts) == UserText::Prompt => match said(&user) {
            text if text.is_empty() => Line::SomethingElse,
            text => Line::Prompt(text),
        },
        _ => Line::SomethingElse,
    }
}

fn info(
    id: &str,
    meta: &JsonObject,
    first_user_message: String,
    path: &Path,
    modified: Timestamp,
) -> SessionInfo {
    let start = time_of(meta, "startTime");
    let last_updated = time_of(meta, "lastUpdated");
    SessionInfo {
        id: SessionId::from_file(id),
        path: path.to_owned(),
        start: start.or(last_updated).unwrap_or(modified),
        last_updated: last_updated.or(start).unwrap_or(modified),
        title: title(meta.get("summary").and_then(Value::as_str), &first_user_message),
        first_user_message,
        message_count: None,
        kind: SessionKind::Main,
    }
}

/// The id in a session file, whatever its layout; `None` if it cannot be read.
pub(crate) fn session_id(path: &Path) -> Option<SessionId> {
    match first_meta(path)?.get("sessionId").and_then(Value::as_str) {
        Some(id) => Some(SessionId::from_file(id)),
        None => load(path).ok().map(|session| session.id),
    }
}

/// The hash of the project that a session names.
pub(crate) fn project_hash(path: &Path) -> Option<String> {
    match first_meta(path)?.get("projectHash").and_then(Value::as_str) {
        Some(hash) => Some(hash.to_owned()),
        None => load(path).ok()?.project_hash,
    }
}

/// The metadata in the first bytes of a file.
fn first_meta(path: &Path) -> Option<JsonObject> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FIRST_READ as u64).read_to_end(&mut bytes).ok()?;
    Some(match read_head(&bytes) {
        Head::Ours { meta, .. } | Head::Cut { meta, .. } => meta,
        // The metadata line of a record log.
        Head::Foreign => {
            let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            parse_lenient(line).unwrap_or_default()
        }
    })
}
