//! Extracts long values from a record and restores them.
//!
//! A mark is `{"at": <JSON pointer>, "sha256": …, "bytes": …}`. A medium is not cut but replaced as a whole
//! part, because half an image is useless; its mark has the `part` without its data, and `omitted` if even a
//! text in its place would be wrong there.

use pollux_domain::JsonObject;
use serde_json::{Value, json};

use super::{Blobs, FIELD, Record, THRESHOLD};

/// What an excerpt keeps of a text.
const HEAD_CHARS: usize = 2000;
const TAIL_CHARS: usize = 1000;
/// Maximum number of marks per record; more are ignored.
const MAX_MARKS: usize = 4096;

/// Whether anything in a record is long enough to be taken out.
pub(super) fn has_long(fields: &JsonObject, record: Record) -> bool {
    fn is_long(value: &Value) -> bool {
        match value {
            Value::String(text) => text.len() > THRESHOLD,
            Value::Array(items) => items.iter().any(is_long),
            Value::Object(fields) => fields.values().any(is_long),
            _ => false,
        }
    }
    record.keys().iter().any(|key| fields.get(*key).is_some_and(is_long))
}

/// Takes what is long out and notes where it was.
pub(super) fn extract(blobs: &Blobs, fields: &mut JsonObject, record: Record) {
    let mut extraction = Extraction { blobs, takes_texts: record == Record::Call, marks: Vec::new() };
    for key in record.keys() {
        if let Some(value) = fields.get_mut(key) {
            extraction.walk(value, &format!("/{key}"));
        }
    }
    if !extraction.marks.is_empty() {
        fields.insert(FIELD.into(), Value::Array(extraction.marks));
    }
}

struct Extraction<'a> {
    blobs: &'a Blobs,
    takes_texts: bool,
    marks: Vec<Value>,
}

impl Extraction<'_> {
    fn walk(&mut self, value: &mut Value, at: &str) {
        match value {
            Value::String(text) if self.takes_texts && text.len() > THRESHOLD => {
                if let Ok(hash) = self.blobs.put(text) {
                    self.marks.push(json!({"at": at, "sha256": hash, "bytes": text.len()}));
                    *text = excerpt(text, &hash);
                }
            }
            Value::Array(items) => self.walk_list(items, at),
            Value::Object(fields) => {
                if let Some((note, mark)) = self.medium(fields, at, false) {
                    self.marks.push(mark);
                    *value = note;
                    return;
                }
                for (key, field) in fields.iter_mut() {
                    self.walk(field, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn walk_list(&mut self, items: &mut Vec<Value>, at: &str) {
        // The parts of a response may contain only media.
        let omits = at.ends_with("/functionResponse/parts");
        let mut kept = Vec::with_capacity(items.len());
        for (index, mut item) in std::mem::take(items).into_iter().enumerate() {
            let at = format!("{at}/{index}");
            if let Value::Object(fields) = &item
                && omits
                && let Some((_, mark)) = self.medium(fields, &at, true)
            {
                self.marks.push(mark);
                continue;
            }
            self.walk(&mut item, &at);
            kept.push(item);
        }
        *items = kept;
    }

    /// The text that stands for a medium, and its mark; `None` if this is none or a short one.
    fn medium(&self, fields: &JsonObject, at: &str, omitted: bool) -> Option<(Value, Value)> {
        let inline = fields.get("inlineData")?.as_object()?;
        let data = inline.get("data")?.as_str().filter(|data| data.len() > THRESHOLD)?;
        let hash = self.blobs.put(data).ok()?;
        let mut part = fields.clone();
        part.get_mut("inlineData")?.as_object_mut()?.remove("data");
        let kind = inline.get("mimeType").and_then(Value::as_str).unwrap_or("data");
        let note = format!("[{kind}, {} KB, kept in .blobs/{hash}]", data.len() * 3 / 4 / 1024);
        let mut mark = json!({"at": at, "sha256": hash, "bytes": data.len(), "part": part});
        if omitted && let Some(mark) = mark.as_object_mut() {
            mark.insert("omitted".into(), json!(true));
        }
        Some((json!({ "text": note }), mark))
    }
}

fn excerpt(text: &str, hash: &str) -> String {
    let head: String = text.chars().take(HEAD_CHARS).collect();
    let mut tail: Vec<char> = text.chars().rev().take(TAIL_CHARS).collect();
    tail.reverse();
    let tail: String = tail.into_iter().collect();
    let left_out = text.len().saturating_sub(head.len() + tail.len());
    format!("{head}\n\n[... {left_out} bytes left out; the whole text is in .blobs/{hash} ...]\n\n{tail}")
}

/// Puts everything back into a message and its calls; what is lost stays an excerpt. Returns how many are.
pub(crate) fn resolve(blobs: &Blobs, message: &mut JsonObject) -> usize {
    let mut lost = resolve_record(blobs, message);
    if let Some(calls) = message.get_mut("toolCalls").and_then(Value::as_array_mut) {
        lost += calls
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .map(|call| resolve_record(blobs, call))
            .sum::<usize>();
    }
    lost
}

fn resolve_record(blobs: &Blobs, fields: &mut JsonObject) -> usize {
    let Some(Value::Array(marks)) = fields.shift_remove(FIELD) else { return 0 };
    let (marks, unread) = marks.split_at(marks.len().min(MAX_MARKS));
    let lost = unread.len() + marks.iter().filter(|mark| restore(blobs, fields, mark).is_none()).count();
    // Places of omitted media that were lost: they kept the ones behind them in their place.
    for mark in marks.iter().filter(|mark| is_omitted(mark)) {
        let list = mark.get("at").and_then(Value::as_str).and_then(|at| at.rsplit_once('/'));
        if let Some(Value::Array(items)) = list.and_then(|(list, _)| pointed(fields, list)) {
            items.retain(|item| !item.is_null());
        }
    }
    lost
}

fn is_omitted(mark: &Value) -> bool {
    mark.get("omitted").and_then(Value::as_bool).unwrap_or(false)
}

/// Puts one value back; `None` if it are not available or its place is not there.
fn restore(blobs: &Blobs, fields: &mut JsonObject, mark: &Value) -> Option<()> {
    let at = mark.get("at")?.as_str()?;
    let found = mark
        .get("sha256")
        .and_then(Value::as_str)
        .zip(mark.get("bytes").and_then(Value::as_u64))
        .and_then(|(hash, bytes)| blobs.get(hash, bytes));
    let whole = found.and_then(|text| match mark.get("part") {
        None => Some(Value::String(text)),
        Some(part) => {
            let mut part = part.clone();
            part.get_mut("inlineData")?.as_object_mut()?.insert("data".into(), Value::String(text));
            Some(part)
        }
    });
    if !is_omitted(mark) {
        *pointed(fields, at)? = whole?;
        return Some(());
    }
    let (list, index) = at.rsplit_once('/')?;
    let items = pointed(fields, list)?.as_array_mut()?;
    let index = index.parse::<usize>().ok()?.min(items.len());
    let is_lost = whole.is_none();
    items.insert(index, whole.unwrap_or_default());
    (!is_lost).then_some(())
}

/// The value that a pointer from the record leads to.
fn pointed<'a>(fields: &'a mut JsonObject, at: &str) -> Option<&'a mut Value> {
    let path = at.strip_prefix('/')?;
    match path.split_once('/') {
        None => fields.get_mut(path),
        Some((key, rest)) => fields.get_mut(key)?.pointer_mut(&format!("/{rest}")),
    }
}
