//! Parses bytes into metadata and messages, detecting the format.

use std::collections::HashSet;
use std::path::Path;

use pollux_domain::JsonObject;
use pollux_domain::json::parse_lenient;
use serde_json::Value;

use super::{LoadError, RepairNote, log};
use crate::document::{self, Ending};
use crate::salvage;

/// A session file as JSON, with everything kept.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) meta: JsonObject,
    /// Every object among them has an id.
    pub(crate) messages: Vec<Value>,
    pub(crate) layout: Layout,
    pub(crate) repaired: Option<RepairNote>,
}

/// How the file can be continued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Layout {
    /// Our document.
    Document {
        /// Where the 24 bytes of `lastUpdated` are; `None` if only a rewrite helps.
        stamp_at: Option<u64>,
        /// Where the tail begins.
        end: u64,
        /// Whether what is at `end` is not the tail.
        torn: bool,
        /// Whether the bytes at `end` are worth a copy.
        holds_data: bool,
        /// Whether the last message was read from those bytes.
        salvaged: bool,
        /// Whether a message or an unreadable line stands before `end`.
        follows: bool,
    },
    /// Upstream's record log.
    Log { ends_with_newline: bool },
    /// A single object in a foreign layout.
    Other,
}

pub(crate) fn fold(path: &Path, bytes: &[u8]) -> Result<Folded, LoadError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    if text.is_empty() {
        return Err(LoadError::Empty { path: path.to_owned() });
    }
    if !text.starts_with(b"{") {
        return Err(LoadError::NotASession { path: path.to_owned() });
    }
    let mut folded = match document::scan(bytes) {
        Some(document) if document.meta.get("sessionId").is_some_and(Value::is_string) => {
            from_document(document)
        }
        _ => match log::fold(text) {
            Some(folded) => folded,
            None => from_object(path, text)?,
        },
    };
    let was_incomplete = name_messages(&mut folded.messages);
    if was_incomplete && matches!(folded.layout, Layout::Document { .. }) {
        // Only resembles our layout; the ids must be written.
        folded.layout = Layout::Other;
    }
    Ok(folded)
}

fn from_document(document: document::Document) -> Folded {
    let end = document.end as u64;
    let mut messages = document.messages;
    let is_damaged = document.ending != Ending::Whole || document.unreadable_lines > 0;
    let kept_part = matches!(document.ending, Ending::Torn { salvaged: Some(_), .. });
    let unreadable_lines = document.unreadable_lines;
    let note = RepairNote { torn_at: Some(end), kept_part, unreadable_lines, lost_blobs: 0 };
    let follows = !messages.is_empty() || unreadable_lines > 0;
    let repaired = is_damaged.then_some(note);
    let layout = match document.ending {
        Ending::Whole => Layout::Document {
            stamp_at: document.stamp_at,
            end,
            torn: false,
            holds_data: false,
            salvaged: false,
            follows,
        },
        Ending::Torn { salvaged, holds_data } => {
            messages.extend(salvaged);
            Layout::Document {
                stamp_at: document.stamp_at,
                end,
                torn: true,
                holds_data,
                salvaged: kept_part,
                follows,
            }
        }
        Ending::Disordered => Layout::Other,
    };
    Folded { meta: document.meta, messages, layout, repaired }
}

/// One JSON object over many lines, or on a single one without a project hash.
fn from_object(path: &Path, text: &[u8]) -> Result<Folded, LoadError> {
    let unknown = |reason| LoadError::UnknownShape { path: path.to_owned(), reason };
    let (value, repaired) = match parse_lossy(text) {
        Some(value) => (value, None),
        None => {
            let note = RepairNote::torn(salvage::sound_length(text) as u64);
            match salvage::session(text).filter(|value| value.get("sessionId").is_some()) {
                Some(value) => (value, Some(note)),
                None => return Err(LoadError::NotASession { path: path.to_owned() }),
            }
        }
    };
    let Value::Object(mut meta) = value else { return Err(unknown("not an object")) };
    if !meta.get("sessionId").is_some_and(Value::is_string) {
        return Err(unknown("it has no `sessionId`"));
    }
    let is_line = !text.trim_ascii_end().contains(&b'\n');
    let messages = match meta.shift_remove("messages") {
        // The first line of a record log that has no other yet.
        None if is_line && repaired.is_none() => {
            let layout = Layout::Log { ends_with_newline: text.last() == Some(&b'\n') };
            return Ok(Folded { meta, messages: Vec::new(), layout, repaired });
        }
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(messages)) => messages,
        Some(_) => return Err(unknown("its `messages` are not a list")),
    };
    Ok(Folded { meta, messages, layout: Layout::Other, repaired })
}

/// Parses JSON. A broken character must not cost a whole message.
pub(super) fn parse_lossy(text: &[u8]) -> Option<Value> {
    parse_lenient(text).ok()
}

/// Gives every message an id that has none; the same file always gets the same ones. True if one had none.
pub(super) fn name_messages(messages: &mut [Value]) -> bool {
    let mut any = false;
    let mut taken: HashSet<String> =
        messages.iter().filter_map(|message| message.get("id")?.as_str().map(str::to_owned)).collect();
    for (index, message) in messages.iter_mut().enumerate() {
        any |= name_message(message, index, &mut taken);
    }
    any
}

/// Gives the message at this place an id if it has none, one that is not taken. True if it had none.
pub(super) fn name_message(message: &mut Value, index: usize, taken: &mut HashSet<String>) -> bool {
    if !message.is_object() {
        // Not written by any release; kept as an unknown message, so that a rewrite preserves it.
        *message = serde_json::json!({"type": "unknown", "value": message.take()});
    }
    let Value::Object(fields) = message else { return false };
    if fields.get("id").is_some_and(Value::is_string) {
        return false;
    }
    let mut id = format!("message-{}", index + 1);
    while !taken.insert(id.clone()) {
        id.push('_');
    }
    let mut named = JsonObject::new();
    named.insert("id".into(), Value::String(id));
    named.extend(std::mem::take(fields).into_iter().filter(|(key, _)| key != "id"));
    *fields = named;
    true
}
