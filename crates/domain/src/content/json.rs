//! The JSON form of parts.
//!
//! It lives here and not in a `wire.rs`, because the Gemini API, session files, checkpoints and hook
//! payloads all use this one form; four copies would drift.

use serde_json::{Value, json};

use super::{BadArgs, Blob, Body, Content, FunctionCall, FunctionResponse, Part, Role, Seal};
use crate::JsonObject;

/// The key of a part or a record under which the program keeps what is its own. Never sent to a provider.
pub const POLLUX: &str = "pollux";

/// A value that cannot be read as a part.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected a JSON object for a part, found {found}")]
pub struct MalformedPart {
    found: &'static str,
}

impl Part {
    /// Reads a part; a bare string counts as text, as in session files.
    pub fn from_json(value: Value) -> Result<Self, MalformedPart> {
        match value {
            Value::String(text) => Ok(Self::text(text)),
            Value::Object(fields) => Ok(from_object(fields)),
            Value::Null => Err(MalformedPart { found: "null" }),
            Value::Bool(_) => Err(MalformedPart { found: "a boolean" }),
            Value::Number(_) => Err(MalformedPart { found: "a number" }),
            Value::Array(_) => Err(MalformedPart { found: "an array" }),
        }
    }

    /// The JSON object of this part.
    pub fn to_json(&self) -> Value {
        let mut fields = JsonObject::new();
        match &self.body {
            Body::Text(text) => {
                fields.insert("text".into(), json!(text));
            }
            Body::Reasoning { text, summary, seal } => {
                fields.insert("text".into(), json!(text));
                fields.insert("thought".into(), json!(true));
                if !summary || seal.is_some() {
                    let seal = seal.as_ref().map(Seal::to_json);
                    fields.insert(POLLUX.into(), json!({"summary": summary, "seal": seal}));
                }
            }
            Body::Call(call) => {
                fields.insert("functionCall".into(), call.to_json());
            }
            Body::Response(response) => {
                fields.insert("functionResponse".into(), response.to_json());
            }
            Body::InlineData(blob) => {
                fields.insert(
                    "inlineData".into(),
                    json!({"mimeType": blob.mime_type, "data": blob.data_base64}),
                );
            }
            Body::FileData { mime_type, uri } => {
                fields.insert("fileData".into(), json!({"mimeType": mime_type, "fileUri": uri}));
            }
            Body::Other(other) => fields.extend(other.clone()),
        }
        match &self.seal {
            Some(seal) => match seal.signature() {
                Some(signature) => fields.insert("thoughtSignature".into(), json!(signature)),
                None => fields.insert(POLLUX.into(), json!({"partSeal": seal.to_json()})),
            },
            None => None,
        };
        fields.extend(self.extra.clone());
        Value::Object(fields)
    }
}

impl FunctionCall {
    fn to_json(&self) -> Value {
        let mut fields = JsonObject::new();
        if let Some(id) = &self.id {
            fields.insert("id".into(), json!(id));
        }
        fields.insert("name".into(), json!(self.name));
        fields.insert("args".into(), Value::Object(self.args.clone()));
        Value::Object(fields)
    }
}

impl FunctionResponse {
    fn to_json(&self) -> Value {
        let mut fields = JsonObject::new();
        if let Some(id) = &self.id {
            fields.insert("id".into(), json!(id));
        }
        fields.insert("name".into(), json!(self.name));
        fields.insert("response".into(), Value::Object(JsonObject::clone(&self.response)));
        if !self.parts.is_empty() {
            let parts: Vec<Value> = self.parts.iter().map(Part::to_json).collect();
            fields.insert("parts".into(), Value::Array(parts));
        }
        Value::Object(fields)
    }
}

impl Content {
    /// The JSON object of this turn.
    pub fn to_json(&self) -> Value {
        let role = match self.role {
            Role::User => "user",
            Role::Model => "model",
        };
        json!({"role": role, "parts": self.parts.iter().map(Part::to_json).collect::<Vec<_>>()})
    }

    /// Reads a turn. A missing role means the model, as in API replies; unreadable parts are dropped.
    pub fn from_json(value: &Value) -> Self {
        let role = match value.get("role").and_then(Value::as_str) {
            Some("user" | "function") => Role::User,
            _ => Role::Model,
        };
        let parts = value.get("parts").and_then(Value::as_array).cloned().unwrap_or_default();
        Self::new(role, parts.into_iter().filter_map(|part| Part::from_json(part).ok()).collect())
    }
}

fn from_object(mut fields: JsonObject) -> Part {
    let mut seal = match fields.get("thoughtSignature") {
        Some(Value::String(signature)) => Some(Seal::gemini(signature.clone())),
        _ => None,
    };
    if seal.is_some() {
        fields.remove("thoughtSignature");
    }
    if let Some(own) = fields.get(POLLUX).and_then(|own| own.get("partSeal")).and_then(Seal::from_json) {
        fields.remove(POLLUX);
        seal = Some(own);
    }
    let body = take_body(&mut fields);
    match body {
        // A map that was emptied keeps its room, and a long conversation has very many of them.
        Some(body) if fields.is_empty() => Part { body, seal, extra: JsonObject::new() },
        Some(body) => Part { body, seal, extra: fields },
        None => Part { body: Body::Other(fields), seal, extra: JsonObject::new() },
    }
}

/// Removes the field that says what the part is, leaving the rest as extras.
fn take_body(fields: &mut JsonObject) -> Option<Body> {
    if matches!(fields.get("functionCall"), Some(Value::Object(_))) {
        return Some(Body::Call(read_call(take_object(fields, "functionCall"))));
    }
    if matches!(fields.get("functionResponse"), Some(Value::Object(_))) {
        return Some(Body::Response(read_response(take_object(fields, "functionResponse"))));
    }
    if matches!(fields.get("inlineData"), Some(Value::Object(_))) {
        let mut data = take_object(fields, "inlineData");
        return Some(Body::InlineData(Blob {
            mime_type: take_string(&mut data, "mimeType").unwrap_or_default(),
            data_base64: take_string(&mut data, "data").unwrap_or_default(),
        }));
    }
    if matches!(fields.get("fileData"), Some(Value::Object(_))) {
        let mut data = take_object(fields, "fileData");
        return Some(Body::FileData {
            mime_type: take_string(&mut data, "mimeType").unwrap_or_default(),
            uri: take_string(&mut data, "fileUri").unwrap_or_default(),
        });
    }
    if !matches!(fields.get("text"), Some(Value::String(_))) {
        return None;
    }
    let text = take_string(fields, "text")?;
    match fields.get("thought") {
        Some(Value::Bool(true)) => {
            fields.remove("thought");
            let own = fields.remove(POLLUX).unwrap_or_default();
            let summary = own.get("summary").and_then(Value::as_bool).unwrap_or(true);
            Some(Body::Reasoning { text, summary, seal: own.get("seal").and_then(Seal::from_json) })
        }
        Some(Value::Bool(false)) => {
            fields.remove("thought");
            Some(Body::Text(text))
        }
        _ => Some(Body::Text(text)),
    }
}

fn read_call(mut fields: JsonObject) -> FunctionCall {
    let id = take_string(&mut fields, "id").filter(|id| !id.is_empty());
    let name = take_string(&mut fields, "name").filter(|name| !name.trim().is_empty());
    // Upstream's name for a call that names nothing; it then fails as an unknown tool.
    let name = name.unwrap_or_else(|| "generic_tool".to_owned());
    match fields.remove("args") {
        Some(Value::Object(args)) => FunctionCall::new(id, name, args),
        None | Some(Value::Null) => FunctionCall::new(id, name, JsonObject::new()),
        // Some gateways leave arguments as the text that they were streamed in.
        Some(Value::String(text)) => FunctionCall::from_text(id, name, &text),
        Some(other) => {
            let bad = BadArgs { raw: other.to_string(), error: "expected a JSON object".to_owned() };
            let call = FunctionCall::new(id, name, JsonObject::new());
            FunctionCall { bad_args: Some(Box::new(bad)), ..call }
        }
    }
}

fn read_response(mut fields: JsonObject) -> FunctionResponse {
    let parts = match fields.remove("parts") {
        Some(Value::Array(parts)) => parts,
        _ => Vec::new(),
    };
    FunctionResponse {
        id: take_string(&mut fields, "id").filter(|id| !id.is_empty()),
        name: take_string(&mut fields, "name").unwrap_or_default(),
        response: take_object(&mut fields, "response").into(),
        parts: parts.into_iter().filter_map(|part| Part::from_json(part).ok()).collect(),
    }
}

fn take_string(fields: &mut JsonObject, key: &str) -> Option<String> {
    match fields.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn take_object(fields: &mut JsonObject, key: &str) -> JsonObject {
    match fields.remove(key) {
        Some(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::SealKind;

    #[test]
    fn every_known_part_survives_a_round_trip_with_its_unknown_fields() {
        let cases = [
            json!({"text": "hi"}),
            json!({"text": "why", "thought": true, "thoughtSignature": "c2ln"}),
            json!({"functionCall": {"id": "a", "name": "read_file", "args": {"z": 1, "a": [2]}}, "thoughtSignature": "x"}),
            json!({"functionResponse": {"id": "a", "name": "read_file", "response": {"output": "ok"},
                   "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}}),
            json!({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}, "videoMetadata": {"fps": 1}}),
            json!({"executableCode": {"language": "PYTHON", "code": "1"}}),
        ];
        for case in cases {
            assert_eq!(Part::from_json(case.clone()).unwrap().to_json(), case);
        }
    }

    #[test]
    fn foreign_seals_are_kept_under_the_reserved_key() {
        let seal = || Seal { kind: SealKind::AnthropicThinking, data: json!({"signature": "x"}) };
        let reasoning = |summary, seal| Part::from(Body::Reasoning { text: "why".into(), summary, seal });
        let mut sealed_text = Part::text("a");
        sealed_text.seal = Some(Seal { kind: SealKind::OpenAiReasoning, data: json!([1]) });
        for part in
            [reasoning(false, Some(seal())), reasoning(false, None), reasoning(true, None), sealed_text]
        {
            assert_eq!(Part::from_json(part.to_json()).unwrap(), part);
        }
        let plain = reasoning(true, None).to_json();
        assert_eq!(plain, json!({"text": "why", "thought": true}));
    }

    #[test]
    fn non_object_arguments_are_bad_and_written_as_none() {
        let read = |args: Value| {
            let value = json!({"functionCall": {"name": "ls", "args": args}});
            Part::from_json(value).unwrap().as_call().unwrap().clone()
        };
        assert_eq!(read(json!("{\"a\": 1}")).args["a"], 1);
        assert_eq!(read(json!("")).bad_args, None);
        for args in [json!("{\"a\": "), json!([1]), json!(7)] {
            let call = read(args.clone());
            assert!(call.args.is_empty() && call.bad_args.is_some(), "{args}");
            assert_eq!(Part::call(call).to_json()["functionCall"]["args"], json!({}));
        }
        assert_eq!(read(json!("{\"a\": ")).bad_args.unwrap().raw, "{\"a\": ");
    }

    #[test]
    fn arguments_that_are_nested_too_deeply_are_bad() {
        let nested = |depth: usize| format!("{}{}", "{\"a\":".repeat(depth - 1) + "{", "}".repeat(depth));
        for text in [nested(100), nested(101), nested(126)] {
            let is_good = text == nested(100);
            let args: Value = serde_json::from_str(&text).unwrap();
            let parsed = read_call(JsonObject::from_iter([("args".to_owned(), args)]));
            for call in [parsed, FunctionCall::from_text(None, "ls", &text)] {
                assert_eq!((call.bad_args.is_none(), call.args.is_empty()), (is_good, !is_good));
                let bad = call.bad_args.map(|bad| (bad.raw, bad.error));
                let told = (text.clone(), "nested more than 100 levels deep".to_owned());
                assert_eq!(bad, (!is_good).then_some(told));
            }
        }
    }

    #[test]
    fn a_call_without_name_or_arguments_is_still_a_call() {
        let part = Part::from_json(json!({"functionCall": {"name": " "}})).unwrap();
        assert_eq!(part.as_call().unwrap().name, "generic_tool");
        assert!(part.as_call().unwrap().args.is_empty());
    }

    #[test]
    fn a_part_that_is_not_an_object_or_text_is_refused_by_name() {
        assert_eq!(
            Part::from_json(json!(3)).unwrap_err().to_string(),
            "expected a JSON object for a part, found a number"
        );
    }
}
