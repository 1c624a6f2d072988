//! The conversation as it is sent: borrowed, cleaned, signed, and with the model's own call ids.

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, Content, FunctionCall, FunctionResponse, POLLUX, Part, Role};
use pollux_domain::id::CallId;
use pollux_domain::model::Dialect;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Stands for a signature that never was, and makes the API accept the call; the word is the API's.
const SYNTHETIC_SIGNATURE: &str = "skip_thought_signature_validator";

/// A turn to send.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    role: Role,
    parts: Vec<Sent<'a>>,
}

/// A part to send.
#[derive(Debug, Clone, Copy)]
struct Sent<'a> {
    part: &'a Part,
    signature: Option<&'a str>,
    /// Whether media of a function response stay inside it.
    nested_media: bool,
    /// Fields that are not known here came from this API and go back to it.
    own: bool,
}

/// Makes a history fit to send: no reasoning, no seals of others, nothing of the program's own, no empty parts or turns, alternating roles, responses before
/// whatever else a turn holds, and a signature on the first call of each model turn under way.
///
/// Upstream drops a whole model turn for one empty part; only that part is dropped here, because the turn
/// may hold calls that are answered later.
pub(crate) fn hygiene<'a>(
    contents: impl IntoIterator<Item = &'a Content>,
    nested_media: bool,
) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for content in contents {
        let parts = sendable(content, nested_media);
        if parts.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some(last) if last.role == content.role => last.parts.extend(parts),
            _ => turns.push(Turn { role: content.role, parts }),
        }
    }
    for turn in turns.iter_mut().filter(|turn| turn.role == Role::User) {
        responses_first(turn, nested_media);
    }
    sign_active_loop(&mut turns);
    turns
}

fn sendable(content: &Content, nested_media: bool) -> Vec<Sent<'_>> {
    let own = content.origin.as_ref().is_none_or(|origin| origin.dialect == Dialect::GEMINI);
    let mut signed_thought = false;
    let mut parts = Vec::with_capacity(content.parts.len());
    for part in &content.parts {
        match &part.body {
            Body::Reasoning { .. } => signed_thought |= part.signature().is_some(),
            Body::Other(fields) if fields.is_empty() && part.signature().is_none() => {}
            // Only its sender knows what it means.
            Body::Other(_) if !own => {}
            _ if part.is_blank() => {}
            _ => parts.push(Sent { part, signature: part.signature(), nested_media, own }),
        }
    }
    if signed_thought {
        sign_first_call(&mut parts);
    }
    parts
}

fn sign_first_call(parts: &mut [Sent<'_>]) {
    let first = parts.iter_mut().find(|sent| matches!(sent.part.body, Body::Call(_)));
    if let Some(call) = first.filter(|call| call.signature.is_none()) {
        call.signature = Some(SYNTHETIC_SIGNATURE);
    }
}

/// The API wants the answers to its calls at the front; media that do not nest follow them.
fn responses_first<'a>(turn: &mut Turn<'a>, nested_media: bool) {
    if !turn.parts.iter().any(|sent| matches!(sent.part.body, Body::Response(_))) {
        return;
    }
    let (mut parts, rest): (Vec<Sent<'a>>, Vec<Sent<'a>>) =
        turn.parts.drain(..).partition(|sent| matches!(sent.part.body, Body::Response(_)));
    let siblings: Vec<Sent<'a>> = parts
        .iter()
        .filter_map(|sent| match &sent.part.body {
            Body::Response(response) => Some(&response.parts),
            _ => None,
        })
        .flatten()
        .filter(|media| !stays_inside(media, nested_media))
        .map(|part| Sent { part, signature: part.signature(), nested_media, own: true })
        .collect();
    parts.extend(siblings);
    parts.extend(rest);
    turn.parts = parts;
}

fn stays_inside(media: &Part, nested_media: bool) -> bool {
    nested_media && matches!(media.body, Body::InlineData(_))
}

/// Signs the first call of every model turn after the last thing the person said.
fn sign_active_loop(turns: &mut [Turn<'_>]) {
    let said = |turn: &Turn<'_>| {
        turn.role == Role::User
            && turn.parts.iter().any(|sent| matches!(sent.part.body, Body::Text(_)))
            && !turn.parts.iter().any(|sent| matches!(sent.part.body, Body::Response(_)))
    };
    let start = turns.iter().rposition(said).unwrap_or(0);
    for turn in turns.iter_mut().skip(start).filter(|turn| turn.role == Role::Model) {
        sign_first_call(&mut turn.parts);
    }
}

impl Serialize for Turn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let role = match self.role {
            Role::User => "user",
            Role::Model => "model",
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("role", role)?;
        map.serialize_entry("parts", &self.parts)?;
        map.end()
    }
}

impl Serialize for Sent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.part.body {
            Body::Text(text) => map.serialize_entry("text", text)?,
            Body::Reasoning { text, .. } => {
                map.serialize_entry("text", text)?;
                map.serialize_entry("thought", &true)?;
            }
            Body::Call(call) => map.serialize_entry("functionCall", &Call(call))?,
            Body::Response(response) => {
                map.serialize_entry(
                    "functionResponse",
                    &Response { response, nested_media: self.nested_media },
                )?;
            }
            Body::InlineData(blob) => {
                map.serialize_entry(
                    "inlineData",
                    &Pair("mimeType", &blob.mime_type, "data", &blob.data_base64),
                )?;
            }
            Body::FileData { mime_type, uri } => {
                map.serialize_entry("fileData", &Pair("mimeType", mime_type, "fileUri", uri))?;
            }
            Body::Other(fields) => entries(&mut map, fields)?,
        }
        if let Some(signature) = self.signature {
            map.serialize_entry("thoughtSignature", signature)?;
        }
        if self.own {
            entries(&mut map, &self.part.extra)?;
        }
        map.end()
    }
}

fn entries<M: SerializeMap>(map: &mut M, fields: &JsonObject) -> Result<(), M::Error> {
    let sent = fields.iter().filter(|(key, _)| *key != POLLUX);
    sent.into_iter().try_for_each(|(key, value)| map.serialize_entry(key, value))
}

struct Pair<'a>(&'static str, &'a str, &'static str, &'a str);

impl Serialize for Pair<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry(self.0, self.1)?;
        map.serialize_entry(self.2, self.3)?;
        map.end()
    }
}

struct Call<'a>(&'a FunctionCall);

impl Serialize for Call<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        wire_id(&mut map, self.0.id.as_deref(), &self.0.name)?;
        map.serialize_entry("name", &self.0.name)?;
        map.serialize_entry("args", &self.0.args)?;
        map.end()
    }
}

struct Response<'a> {
    response: &'a FunctionResponse,
    nested_media: bool,
}

impl Serialize for Response<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        wire_id(&mut map, self.response.id.as_deref(), &self.response.name)?;
        map.serialize_entry("name", &self.response.name)?;
        map.serialize_entry("response", &*self.response.response)?;
        let inside: Vec<Sent<'_>> = self
            .response
            .parts
            .iter()
            .filter(|media| stays_inside(media, self.nested_media))
            .map(|part| Sent { part, signature: None, nested_media: true, own: true })
            .collect();
        if !inside.is_empty() {
            map.serialize_entry("parts", &inside)?;
        }
        map.end()
    }
}

/// The model knows its calls without our prefix.
fn wire_id<M: SerializeMap>(map: &mut M, id: Option<&str>, tool: &str) -> Result<(), M::Error> {
    match id {
        Some(id) => map.serialize_entry("id", CallId::from_file(id).on_wire(tool)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
