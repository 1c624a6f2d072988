//! Finds the messages of a record log that are in effect at its end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead};

use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use pollux_domain::json::parse_lenient_str;
use serde_json::Value;

use super::{Found, MessagePlace, is_readable, lossy};
use crate::load::RepairNote;
use crate::raw::{self, Fields};
use crate::salvage::{self, LineBreaks};

#[derive(Default)]
struct State {
    meta: JsonObject,
    places: Vec<MessagePlace>,
    /// Position of each id among the messages.
    known: HashMap<String, usize>,
}

/// One line and where its text came from.
struct Line<'a> {
    text: &'a str,
    /// Where the text begins in the file; `None` if broken characters were replaced in it.
    at: Option<u64>,
}

/// Reads a record log; `None` if the first line is not a record or no line names the session.
pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Found>> {
    let mut state = State::default();
    let mut buffer = Vec::new();
    let mut at = 0;
    let mut records = 0;
    let mut torn_at = None;
    let mut damaged = 0;
    loop {
        buffer.clear();
        let length = reader.read_until(b'\n', &mut buffer)?;
        if length == 0 {
            break;
        }
        let bytes = buffer.strip_prefix(b"\xef\xbb\xbf").filter(|_| at == 0).unwrap_or(&buffer);
        let skipped = length - bytes.len() + (bytes.len() - bytes.trim_ascii_start().len());
        let start = at + skipped as u64;
        at += length as u64;
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            continue;
        }
        records += 1;
        let text = lossy(bytes);
        // All of them, without a way out in between: that is faster.
        let has_controls = bytes.iter().fold(false, |found, byte| found | (*byte < 0x20));
        let clean = has_controls.then(|| salvage::replace_controls(&text, LineBreaks::Replace)).flatten();
        let text = clean.map_or(text, Cow::Owned);
        let is_exact = matches!(text, Cow::Borrowed(_));
        let line = Line { text: &text, at: is_exact.then_some(start) };
        // Only brackets and quotes are followed below; zeros between them are no JSON.
        let is_json = !has_controls || is_readable(line.text);
        torn_at = match raw::fields(line.text).filter(|_| is_json) {
            Some(fields) => {
                damaged += usize::from(!is_exact);
                if is_exact || records == 1 {
                    state.apply(&line, &fields);
                } else {
                    state.supplement(&line, &fields);
                }
                None
            }
            None if records == 1 => return Ok(None),
            None => parse_lenient_str::<Value>(line.text).is_err().then_some(start),
        };
        damaged += usize::from(torn_at.is_some());
    }
    if !state.meta.get("sessionId").is_some_and(Value::is_string) {
        return Ok(None);
    }
    let damage = RepairNote::of_log(torn_at, damaged);
    Ok(Some(Found { meta: state.meta, places: state.places, format: SessionFormat::Jsonl, damage }))
}

impl Line<'_> {
    /// The place of a value that was read from this line.
    fn place(&self, text: &str) -> MessagePlace {
        let offset = (text.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize);
        match (self.at, offset) {
            (Some(at), Some(offset)) => {
                MessagePlace::File { at: at + offset as u64, length: text.len() as u64 }
            }
            _ => MessagePlace::Memory(text.to_owned()),
        }
    }
}

impl State {
    /// The order of these tests is upstream's.
    fn apply(&mut self, line: &Line<'_>, fields: &Fields<'_>) {
        if let Some(id) = raw::string(fields, "$rewindTo") {
            // An unknown id empties the conversation, as in upstream.
            let keep = self.known.get(&id).copied().unwrap_or(0);
            self.places.truncate(keep);
            self.known.retain(|_, place| *place < keep);
        } else if let Some(id) = raw::string(fields, "id") {
            self.put(id, line.place(line.text));
        } else if let Some(set) = fields.get("$set").and_then(|set| raw::fields(set.get())) {
            self.describe(line, &set);
        } else if raw::string(fields, "sessionId").is_some() {
            self.describe(line, fields);
        } else if raw::string(fields, "type").is_some() && fields.contains_key("content") {
            self.places.push(line.place(line.text));
        }
    }

    /// As the reader of whole files: takes from a damaged record what no intact one says.
    fn supplement(&mut self, line: &Line<'_>, fields: &Fields<'_>) {
        let id = raw::string(fields, "id");
        if fields.contains_key("$rewindTo") || id.as_ref().is_some_and(|id| self.known.contains_key(id)) {
            return;
        }
        let set = fields.get("$set").and_then(|set| raw::fields(set.get()));
        let described = match &set {
            Some(set) => set,
            None if id.is_none() && raw::string(fields, "sessionId").is_some() => fields,
            None => return self.apply(line, fields),
        };
        for message in described.get("messages").and_then(raw::list).unwrap_or_default() {
            let id = raw::fields(message.get()).and_then(|fields| raw::string(&fields, "id"));
            if let Some(id) = id.filter(|id| !self.known.contains_key(id)) {
                self.put(id, line.place(message.get()));
            }
        }
        for (key, value) in described.iter().filter(|(key, _)| *key != "messages") {
            let value = || parse_lenient_str(value.get()).unwrap_or_default();
            self.meta.entry(key).or_insert_with(value);
        }
    }

    fn put(&mut self, id: String, place: MessagePlace) {
        match self.known.get(&id).and_then(|at| self.places.get_mut(*at)) {
            Some(known) => *known = place,
            None => {
                self.known.insert(id, self.places.len());
                self.places.push(place);
            }
        }
    }

    fn describe(&mut self, line: &Line<'_>, fields: &Fields<'_>) {
        if let Some(list) = fields.get("messages").and_then(raw::list) {
            self.places.clear();
            self.known.clear();
            for message in list {
                let id = raw::fields(message.get()).and_then(|fields| raw::string(&fields, "id"));
                match id {
                    Some(id) => self.put(id, line.place(message.get())),
                    None => self.places.push(line.place(message.get())),
                }
            }
        }
        for (key, value) in fields.iter().filter(|(key, _)| *key != "messages") {
            self.meta.insert(key.to_owned(), parse_lenient_str(value.get()).unwrap_or_default());
        }
    }
}
