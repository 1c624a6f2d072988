//! Calls that arrive in pieces.

use std::collections::HashSet;

use pollux_domain::JsonObject;
use pollux_domain::content::{FunctionCall, Part, Seal};
use pollux_domain::json::parse_wire;
use pollux_domain::model::ReplyEvent;
use serde_json::Value;

use crate::http::Failure;
use crate::shared::tool_names::ToolNames;

/// Upstream's name for a call that names nothing; it then fails as an unknown tool.
const NAMELESS: &str = "generic_tool";
const MAX_ARGUMENT_BYTES: usize = 64 * 1024 * 1024;
/// How much of the arguments has to come before people are told again.
const PROGRESS_BYTES: u64 = 512;

/// The calls of one reply.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: Vec<Open>,
    /// How many were told already.
    told: usize,
    bytes: usize,
    ids: HashSet<String>,
}

/// A call under way.
#[derive(Debug, Default)]
struct Open {
    index: Option<u64>,
    id: String,
    name: String,
    text: String,
    object: Option<JsonObject>,
    signature: Option<String>,
    shown: Option<u64>,
}

impl Open {
    /// Whether its arguments could be all.
    fn is_whole(&self) -> bool {
        self.object.is_some() || parse_wire::<JsonObject>(self.text.as_bytes()).is_ok()
    }

    fn can_be_read(&self) -> bool {
        self.text.trim().is_empty() || self.is_whole()
    }
}

impl Calls {
    /// Whether there are calls that were not told yet.
    pub(super) fn any(&self) -> bool {
        self.open.len() > self.told
    }

    /// Whether any call came at all.
    pub(super) fn any_ever(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the arguments of a call have begun and are not whole.
    pub(super) fn under_way(&self) -> bool {
        self.open.iter().skip(self.told).any(|call| !call.text.is_empty() && !call.is_whole())
    }

    /// Whether every call's arguments are JSON.
    pub(super) fn can_be_read(&self) -> bool {
        self.open.iter().skip(self.told).all(Open::can_be_read)
    }

    /// Takes one element of `tool_calls`.
    pub(super) fn delta(&mut self, delta: &Value) -> Result<Option<ReplyEvent>, Failure> {
        let function = delta.get("function").unwrap_or(delta);
        let word = |value: Option<&Value>| {
            value.and_then(Value::as_str).filter(|word| !word.is_empty()).map(str::to_owned)
        };
        let (id, name) = (word(delta.get("id")), word(function.get("name")));
        let index = delta.get("index").and_then(Value::as_u64);
        let arguments = function.get("arguments").filter(|arguments| !arguments.is_null());
        if id.is_none() && name.is_none() {
            let has_place =
                self.open.iter().skip(self.told).any(|call| index.is_none() || call.index == index);
            let is_odd = !has_place || function.get("arguments").is_none() && has_unknown_fields(delta);
            // Last, because it reads all arguments so far.
            if is_odd && self.under_way() {
                return Err(lost_piece());
            }
        }
        let at = self.place(index, id.as_deref(), name.is_some() && arguments.is_some());
        let Some(call) = self.open.get_mut(at) else { return Ok(None) };
        if let (true, Some(id)) = (call.id.is_empty(), id) {
            call.id = id;
        }
        if let (true, Some(name)) = (call.name.is_empty(), name) {
            call.name = name;
        }
        let signature =
            delta.get("extra_content").and_then(|extra| extra.get("google")?.get("thought_signature"));
        call.signature = word(signature).or_else(|| call.signature.take());
        match arguments {
            Some(Value::String(text)) => {
                self.bytes += text.len();
                call.text.push_str(text);
            }
            Some(Value::Object(object)) => call.object = Some(object.clone()),
            _ => {}
        }
        if self.bytes > MAX_ARGUMENT_BYTES {
            return Err(Failure::malformed("the arguments of the calls are longer than 64 MiB"));
        }
        Ok(progress(call, at))
    }

    /// Where a piece belongs; a new place if it begins a call.
    fn place(&mut self, index: Option<u64>, id: Option<&str>, begins: bool) -> usize {
        let fresh = self.told;
        let found = match (index, id) {
            (Some(_), _) => self.open.iter().rposition(|call| call.index == index),
            (None, Some(id)) => self.open.iter().rposition(|call| call.id == id),
            (None, None) => self.open.len().checked_sub(1),
        };
        let found = found.filter(|at| *at >= fresh).filter(|at| {
            self.open.get(*at).is_some_and(|call| {
                let other_id = id.is_some_and(|id| !call.id.is_empty() && call.id != id);
                // Some servers number nothing: a name after whole arguments is the next call's.
                let next = begins && id.is_none() && !call.name.is_empty() && call.is_whole();
                !other_id && !next
            })
        });
        found.unwrap_or_else(|| {
            self.open.push(Open { index, ..Open::default() });
            self.open.len() - 1
        })
    }

    /// The calls as parts, once; without those that cannot be read if the reply was cut at its limit.
    pub(super) fn take(&mut self, names: &ToolNames, cut: bool) -> Vec<Part> {
        let fresh = self.told;
        self.told = self.open.len();
        let mut order: Vec<&Open> = self.open.iter().skip(fresh).collect();
        // Numbers say the order where all calls have one.
        if order.iter().all(|call| call.index.is_some()) {
            order.sort_by_key(|call| call.index);
        }
        let mut parts = Vec::new();
        for call in order.into_iter().filter(|call| !cut || call.can_be_read()) {
            // A second call of the same id gets one of the program's.
            let id = Some(call.id.clone()).filter(|id| !id.is_empty() && self.ids.insert(id.clone()));
            let name = if call.name.is_empty() { NAMELESS.to_owned() } else { names.own(&call.name) };
            let read = match &call.object {
                Some(object) if call.text.is_empty() => FunctionCall::new(id, name, object.clone()),
                _ => FunctionCall::from_text(id, name, &call.text),
            };
            let mut part = Part::call(read);
            part.seal = call.signature.clone().map(Seal::gemini);
            parts.push(part);
        }
        parts
    }
}

/// Unreadable data in the middle of a tool call may have been part of its arguments; without it, the call would run with
/// different ones.
pub(super) fn lost_piece() -> Failure {
    Failure::malformed("part of a tool call's arguments cannot be read")
}

fn has_unknown_fields(delta: &Value) -> bool {
    let unknown = |value: &Value, known: &[&str]| {
        value.as_object().is_some_and(|fields| fields.keys().any(|key| !known.contains(&key.as_str())))
    };
    unknown(delta, &["index", "id", "type", "function", "name", "arguments", "extra_content"])
        || delta.get("function").is_some_and(|function| unknown(function, &["name", "arguments"]))
}

fn progress(call: &mut Open, index: usize) -> Option<ReplyEvent> {
    let bytes = call.text.len() as u64;
    if call.name.is_empty() || call.shown.is_some_and(|shown| bytes < shown + PROGRESS_BYTES) {
        return None;
    }
    call.shown = Some(bytes);
    Some(ReplyEvent::CallProgress { index, name: call.name.clone(), bytes })
}
