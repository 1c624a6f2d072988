//! Upstream's record log: one JSON value per line, later ones changing what earlier ones said.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pollux_domain::JsonObject;
use pollux_domain::json::parse_wire;
use serde_json::Value;

use super::RepairNote;
use super::fold::{Folded, Layout, parse_lossy};
use crate::{raw, salvage};

/// The state after the records so far.
pub(super) struct LogState<M> {
    meta: JsonObject,
    /// `None` for an unreadable message: a rewind to it keeps those before it, and a later record of its id replaces it,
    /// as in the reader of streams.
    messages: Vec<Option<M>>,
    /// Position of each id among the messages.
    places: HashMap<String, usize>,
}

/// Reads a record log; `None` if the first line is not a record, if it is all there is, or if no line names
/// the session.
pub(super) fn fold(text: &[u8]) -> Option<Folded> {
    let mut lines =
        text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).peekable();
    let first = lines.next()?;
    lines.peek()?;
    let Some(Value::Object(first)) = parse_lossy(first) else { return None };
    let mut state: LogState<Value> = LogState::of(first)?;
    let mut last_is_bad = false;
    let mut damaged = 0;
    for line in lines {
        last_is_bad = false;
        if let Ok(record) = parse_wire(line) {
            if let Value::Object(record) = record {
                state.apply(record);
            }
            continue;
        }
        damaged += 1;
        match parse_lossy(line).or_else(|| salvage::without_controls(line)) {
            Some(Value::Object(record)) => state.supplement(record),
            Some(_) => {}
            None => {
                last_is_bad = true;
                state.skip(line);
            }
        }
    }
    let ends_with_newline = text.last() == Some(&b'\n');
    let torn_at = last_is_bad.then(|| {
        let torn = text.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
        (text.trim_ascii_end().len() - torn) as u64
    });
    let repaired = RepairNote::of_log(torn_at, damaged);
    let (meta, messages) = state.into_parts()?;
    Some(Folded { meta, messages, layout: Layout::Log { ends_with_newline }, repaired })
}

impl<M: From<Value>> LogState<M> {
    /// Begins with the first record; `None` if no log begins so.
    pub(super) fn of(first: JsonObject) -> Option<Self> {
        // Another shape of the list is none of today; the reader of whole objects says so.
        if !matches!(first.get("messages"), None | Some(Value::Null | Value::Array(_))) {
            return None;
        }
        let mut state = Self { meta: JsonObject::new(), messages: Vec::new(), places: HashMap::new() };
        state.apply(first);
        Some(state)
    }

    /// Metadata and messages; `None` if the log never names its session.
    pub(super) fn into_parts(self) -> Option<(JsonObject, Vec<M>)> {
        let is_named = self.meta.get("sessionId").is_some_and(Value::is_string);
        is_named.then(|| (self.meta, self.messages.into_iter().flatten().collect()))
    }

    /// The order of these tests is upstream's.
    pub(super) fn apply(&mut self, mut record: JsonObject) {
        if let Some(Value::String(id)) = record.get("$rewindTo") {
            // An unknown id empties the conversation, as in upstream.
            let keep = self.places.get(id).copied().unwrap_or(0);
            self.messages.truncate(keep);
            self.places.retain(|_, place| *place < keep);
        } else if let Some(Value::String(id)) = record.get("id") {
            self.put(id.clone(), Value::Object(record).into());
        } else if let Some(Value::Object(set)) = record.shift_remove("$set") {
            self.describe(set);
        } else if record.get("sessionId").is_some_and(Value::is_string) {
            self.describe(record);
        } else if record.get("type").is_some_and(Value::is_string) && record.contains_key("content") {
            // Upstream would lose a message without an id.
            self.messages.push(Some(Value::Object(record).into()));
        }
    }

    /// Takes from a damaged record what no intact one says. A power failure leaves zeros within a record; the one before
    /// it of the same message is intact.
    fn supplement(&mut self, mut record: JsonObject) {
        if record.contains_key("$rewindTo") || record.get("id").is_some_and(|id| self.has_read(id)) {
            return;
        }
        let mut fields = match record.shift_remove("$set") {
            Some(Value::Object(set)) => set,
            _ if !record.contains_key("id") && record.get("sessionId").is_some_and(Value::is_string) => {
                record
            }
            _ => return self.apply(record),
        };
        if let Some(Value::Array(messages)) = fields.shift_remove("messages") {
            for message in messages {
                let id = message.get("id").filter(|id| !self.has_read(id)).and_then(Value::as_str);
                if let Some(id) = id.map(str::to_owned) {
                    self.put(id, message.into());
                }
            }
        }
        for (key, value) in fields {
            self.meta.entry(key).or_insert(value);
        }
    }

    fn has_read(&self, id: &Value) -> bool {
        let place = id.as_str().and_then(|id| self.places.get(id));
        place.and_then(|place| self.messages.get(*place)).is_some_and(Option::is_some)
    }

    /// Remembers the place of a record that is not valid JSON, if it looks like a message. A message that was read
    /// before stays.
    fn skip(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if let Some(id) = raw::fields(&text).and_then(|fields| raw::string(&fields, "id"))
            && let Entry::Vacant(place) = self.places.entry(id)
        {
            place.insert(self.messages.len());
            self.messages.push(None);
        }
    }

    /// Adds a message, or takes it in place of the one with the same id.
    pub(super) fn put(&mut self, id: String, message: M) {
        match self.places.get(&id).and_then(|place| self.messages.get_mut(*place)) {
            Some(known) => *known = Some(message),
            None => {
                self.places.insert(id, self.messages.len());
                self.messages.push(Some(message));
            }
        }
    }

    fn describe(&mut self, mut fields: JsonObject) {
        if let Some(Value::Array(messages)) = fields.shift_remove("messages") {
            self.messages.clear();
            self.places.clear();
            for message in messages {
                match message.get("id").and_then(Value::as_str).map(str::to_owned) {
                    Some(id) => self.put(id, message.into()),
                    None => self.messages.push(Some(message.into())),
                }
            }
        }
        self.meta.extend(fields);
    }
}
