//! Reads our layout, complete or truncated at any byte.

use pollux_domain::JsonObject;
use pollux_domain::json::parse_lenient;
use pollux_domain::time::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{MESSAGES, TAIL};
use crate::salvage;

/// A file in our layout.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) meta: JsonObject,
    /// Where the 24 bytes of `lastUpdated` are, if they can be patched in place.
    pub(crate) stamp_at: Option<u64>,
    pub(crate) messages: Vec<Value>,
    /// Where the tail begins, or would begin: behind the last complete message.
    pub(crate) end: usize,
    pub(crate) ending: Ending,
    /// Lines between readable messages that could not be read, or not in full.
    pub(crate) unreadable_lines: usize,
}

/// What follows the last complete message.
#[derive(Debug, PartialEq)]
pub(crate) enum Ending {
    /// Exactly the tail.
    Whole,
    /// The file was cut, or a write was.
    Torn {
        /// What can be told of the message that was being written.
        salvaged: Option<Value>,
        /// Whether the bytes behind `end` are more than fragments of the tail.
        holds_data: bool,
    },
    /// The end is intact but something before it is not; only a rewrite fixes this.
    Disordered,
}

/// The fields in front of the messages.
#[derive(Debug)]
pub(crate) enum Head {
    /// Complete; the messages begin at `body_at`.
    Ours { meta: JsonObject, stamp_at: Option<u64>, body_at: usize },
    /// The bytes end inside the head.
    Cut { meta: JsonObject, end: usize },
    /// Not our layout.
    Foreign,
}

struct Line<'a> {
    text: &'a [u8],
    next: usize,
    ended: bool,
}

fn line_at(bytes: &[u8], at: usize) -> Line<'_> {
    let rest = bytes.get(at..).unwrap_or_default();
    match memchr::memchr(b'\n', rest).and_then(|length| rest.split_at_checked(length)) {
        Some((text, _)) => Line { text, next: at + text.len() + 1, ended: true },
        None => Line { text: rest, next: bytes.len(), ended: false },
    }
}

pub(crate) fn read_head(bytes: &[u8]) -> Head {
    if !bytes.starts_with(b"{\n") {
        return Head::Foreign;
    }
    let mut meta = JsonObject::new();
    let mut stamp_at = None;
    let mut at = 2;
    loop {
        let line = line_at(bytes, at);
        if line.text == MESSAGES {
            return Head::Ours { meta, stamp_at, body_at: at + MESSAGES.len() };
        }
        if !line.ended {
            return Head::Cut { meta, end: at };
        }
        let Some((key, value)) = field(line.text) else { return Head::Foreign };
        if key == "lastUpdated" && is_stamp(&value) {
            stamp_at =
                line.text.windows(3).position(|window| window == b": \"").map(|gap| (at + gap + 3) as u64);
        }
        meta.insert(key, value);
        at = line.next;
    }
}

fn is_stamp(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == Timestamp::ISO_LEN && Timestamp::parse(text).is_some())
}

/// `  "key": value,`
fn field(line: &[u8]) -> Option<(String, Value)> {
    let body = line.strip_prefix(b"  ")?.strip_suffix(b",")?;
    let object = [b"{", body, b"}"].concat();
    let fields: JsonObject = parse_lenient(&object).ok()?;
    let mut fields = fields.into_iter();
    match (fields.next(), fields.next()) {
        (Some((key, value)), None) if key != "messages" => Some((key, value)),
        _ => None,
    }
}

/// Reads the bytes as our layout; `None` if they are not.
pub(crate) fn scan(bytes: &[u8]) -> Option<Document> {
    let (meta, stamp_at, body_at) = match read_head(bytes) {
        Head::Ours { meta, stamp_at, body_at } => (meta, stamp_at, body_at),
        Head::Cut { meta, end } => {
            meta.get("sessionId")?;
            if is_json(bytes) {
                return None;
            }
            let holds_data = bytes.len() > end;
            let ending = Ending::Torn { salvaged: None, holds_data };
            return Some(Document {
                meta,
                stamp_at: None,
                messages: Vec::new(),
                end,
                ending,
                unreadable_lines: 0,
            });
        }
        Head::Foreign => return None,
    };
    let mut document = Document {
        meta,
        stamp_at,
        messages: Vec::new(),
        end: body_at,
        ending: Ending::Whole,
        unreadable_lines: 0,
    };
    if !read_body(bytes, &mut document) {
        return None;
    }
    let looks_damaged = match document.ending {
        Ending::Whole | Ending::Torn { salvaged: None, holds_data: false } => false,
        Ending::Torn { .. } | Ending::Disordered => true,
    };
    // Valid JSON is not damaged, so this is another layout that starts like ours.
    if looks_damaged && is_json(bytes) {
        return None;
    }
    Some(document)
}

/// Reads message lines until the tail or the cut; false if this is another layout after all.
fn read_body(bytes: &[u8], document: &mut Document) -> bool {
    let mut at = document.end;
    let mut comma_before = true;
    let mut disordered = false;
    // Where a readable message is known to come, so that lines before it are no torn end.
    let mut next_message = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.trim_ascii_end() == TAIL.trim_ascii_end() {
            let exact = rest == TAIL && document.end == at;
            document.ending = match (disordered, exact) {
                (true, _) => Ending::Disordered,
                (false, true) => Ending::Whole,
                // A comma without its message, or a last line break that is missing.
                (false, false) => Ending::Torn { salvaged: None, holds_data: false },
            };
            return true;
        }
        let Some(start) = bytes.get(at).filter(|byte| **byte == b'\n').map(|_| at + 1) else {
            document.end_torn(bytes, disordered);
            return true;
        };
        let line = line_at(bytes, start);
        if line.text == b"    {" && line.ended {
            return false;
        }
        // Fields after the messages: not how we write.
        if line.text == b"  ]," {
            return false;
        }
        let (body, comma) = match line.text.strip_suffix(b",") {
            Some(body) => (body, true),
            None => (line.text, false),
        };
        let line_end = start + line.text.len();
        match read_message(body) {
            Some(message) => {
                // A torn write can leave a space of the old end before the new line.
                disordered |= !comma_before || !body.starts_with(b"    {");
                document.messages.push(message);
                document.end = start + body.len();
            }
            None => {
                if line.next > next_message {
                    next_message = find_message(bytes, line.next).unwrap_or(0);
                }
                if next_message == 0 {
                    document.end_torn(bytes, disordered);
                    return true;
                }
                document.unreadable_lines += 1;
                disordered |= !comma_before;
                if !is_json(body) {
                    document.messages.extend(salvage::message(body.trim_ascii_start()));
                    disordered = true;
                }
                document.end = start + body.len();
            }
        }
        comma_before = comma;
        at = line_end;
    }
}

/// The place of the next line that is a readable message.
fn find_message(bytes: &[u8], mut at: usize) -> Option<usize> {
    while at < bytes.len() {
        let line = line_at(bytes, at);
        let body = line.text.strip_suffix(b",").unwrap_or(line.text);
        if read_message(body).is_some() {
            return Some(at);
        }
        at = line.next;
    }
    None
}

/// Whether a line is valid at any depth; one that is too deep to be read does no harm where it is.
fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(line).is_ok()
}

/// The message of a line, which may be indented by more or less than it should be.
fn read_message(line: &[u8]) -> Option<Value> {
    let message = line.trim_ascii_start();
    if !message.starts_with(b"{") {
        return None;
    }
    parse_lenient(message).ok()
}

impl Document {
    /// Notes what can be told of the bytes behind the last message.
    fn end_torn(&mut self, bytes: &[u8], disordered: bool) {
        let rest = bytes.get(self.end..).unwrap_or_default();
        let is_fragment = |byte: &u8| matches!(byte, b'\n' | b' ' | b',' | b']' | b'}');
        let holds_data = !rest.iter().all(is_fragment);
        let salvaged = salvaged(rest);
        self.ending = if disordered {
            self.messages.extend(salvaged);
            Ending::Disordered
        } else {
            Ending::Torn { salvaged, holds_data }
        };
    }
}

/// What can be told of the message in the bytes behind the last whole one.
pub(crate) fn salvaged(rest: &[u8]) -> Option<Value> {
    let start = rest.iter().position(|byte| *byte == b'{')?;
    salvage::message(rest.get(start..)?)
}
