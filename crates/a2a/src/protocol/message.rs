//! Messages and their parts.

use pollux_domain::JsonObject;
use serde_json::{Map, Value, json};

use super::version::Dialect;

/// The ids that connect messages and events to a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    pub context: Option<String>,
    pub task: Option<String>,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Agent,
}

/// A message of either side.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: String,
    pub ids: Ids,
    pub role: Role,
    pub parts: Vec<Part>,
    pub metadata: JsonObject,
}

/// A piece of a message or an artifact.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub body: PartBody,
    pub name: Option<String>,
    pub media_type: Option<String>,
}

/// The content of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum PartBody {
    Text(String),
    Data(Value),
    /// A file as base64.
    Bytes(String),
    /// A file elsewhere.
    Uri(String),
    /// A file without content.
    Nothing,
}

impl Ids {
    pub(super) fn read(value: &Value, task: &str) -> Self {
        let text = |key: &str| {
            value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        Self { context: text("contextId"), task: text(task) }
    }

    pub(super) fn write(&self, fields: &mut JsonObject) {
        for (key, id) in [("taskId", &self.task), ("contextId", &self.context)] {
            if let Some(id) = id {
                fields.insert(key.to_owned(), json!(id));
            }
        }
    }
}

impl Role {
    fn read(value: Option<&Value>) -> Self {
        let role = value.and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        if role.contains("user") { Self::User } else { Self::Agent }
    }

    fn word(self, dialect: Dialect) -> &'static str {
        match (self, dialect.is_tagged()) {
            (Self::User, true) => "user",
            (Self::Agent, true) => "agent",
            (Self::User, false) => "ROLE_USER",
            (Self::Agent, false) => "ROLE_AGENT",
        }
    }
}

impl Message {
    /// Reads a message; what cannot be read is left out.
    pub fn read(value: &Value) -> Self {
        let parts = value.get("parts").or_else(|| value.get("content"));
        Self {
            id: value.get("messageId").and_then(Value::as_str).unwrap_or_default().to_owned(),
            ids: Ids::read(value, "taskId"),
            role: Role::read(value.get("role")),
            parts: Part::read_all(parts),
            metadata: object(value.get("metadata")),
        }
    }

    pub fn to_json(&self, dialect: Dialect) -> Value {
        let mut fields = JsonObject::new();
        if dialect.is_tagged() {
            fields.insert("kind".to_owned(), json!("message"));
        }
        fields.insert("role".to_owned(), json!(self.role.word(dialect)));
        let parts: Vec<Value> = self.parts.iter().map(|part| part.to_json(dialect)).collect();
        let key = if dialect == Dialect::OldBuffers { "content" } else { "parts" };
        fields.insert(key.to_owned(), Value::Array(parts));
        fields.insert("messageId".to_owned(), json!(self.id));
        self.ids.write(&mut fields);
        if !self.metadata.is_empty() {
            fields.insert("metadata".to_owned(), Value::Object(self.metadata.clone()));
        }
        Value::Object(fields)
    }

    /// All parts as text, in upstream's format.
    pub fn text(&self) -> String {
        Part::text_of(&self.parts)
    }
}

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Self { body: PartBody::Text(text.into()), name: None, media_type: None }
    }

    pub fn data(data: Value) -> Self {
        Self { body: PartBody::Data(data), name: None, media_type: None }
    }

    pub(super) fn read_all(parts: Option<&Value>) -> Vec<Self> {
        parts.and_then(Value::as_array).into_iter().flatten().filter_map(Self::read).collect()
    }

    /// Reads a part; `None` if its kind is unknown.
    pub fn read(part: &Value) -> Option<Self> {
        let text = |value: &Value, keys: &[&str]| {
            keys.iter().find_map(|key| value.get(key).and_then(Value::as_str)).map(str::to_owned)
        };
        if let Some(content) = text(part, &["text"]) {
            return Some(Self { media_type: text(part, &["mediaType"]), ..Self::text(content) });
        }
        let file = part.get("file").filter(|file| file.is_object());
        if let Some(file) = file {
            let body = if let Some(uri) = text(file, &["uri", "fileWithUri"]) {
                PartBody::Uri(uri)
            } else if let Some(bytes) = text(file, &["bytes", "fileWithBytes"]) {
                PartBody::Bytes(bytes)
            } else {
                PartBody::Nothing
            };
            let name = text(file, &["name"]);
            return Some(Self { body, name, media_type: text(file, &["mimeType", "mediaType"]) });
        }
        let body = if let Some(bytes) = text(part, &["raw"]) {
            PartBody::Bytes(bytes)
        } else if let Some(url) = text(part, &["url"]) {
            PartBody::Uri(url)
        } else {
            let data = part.get("data")?;
            // The buffers of 0.3 wrap it once more.
            let is_wrapped =
                part.get("kind").is_none() && data.as_object().is_some_and(|data| data.len() == 1);
            PartBody::Data(data.get("data").filter(|_| is_wrapped).unwrap_or(data).clone())
        };
        Some(Self { body, name: text(part, &["filename"]), media_type: text(part, &["mediaType"]) })
    }

    pub fn to_json(&self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::Tagged => self.tagged(),
            Dialect::OldBuffers => self.old_buffers(),
            Dialect::One => self.one(),
        }
    }

    fn tagged(&self) -> Value {
        let mut file = Map::new();
        match &self.body {
            PartBody::Text(text) => return json!({"kind": "text", "text": text}),
            PartBody::Data(data) => return json!({"kind": "data", "data": data}),
            PartBody::Bytes(bytes) => file.insert("bytes".to_owned(), json!(bytes)),
            PartBody::Uri(uri) => file.insert("uri".to_owned(), json!(uri)),
            PartBody::Nothing => None,
        };
        self.describe(&mut file, "name", "mimeType");
        json!({"kind": "file", "file": file})
    }

    fn old_buffers(&self) -> Value {
        let mut file = Map::new();
        match &self.body {
            PartBody::Text(text) => return json!({"text": text}),
            PartBody::Data(data) => return json!({"data": {"data": data}}),
            PartBody::Bytes(bytes) => file.insert("fileWithBytes".to_owned(), json!(bytes)),
            PartBody::Uri(uri) => file.insert("fileWithUri".to_owned(), json!(uri)),
            PartBody::Nothing => None,
        };
        self.describe(&mut file, "name", "mimeType");
        json!({"file": file})
    }

    fn one(&self) -> Value {
        let mut part = Map::new();
        match &self.body {
            PartBody::Text(text) => part.insert("text".to_owned(), json!(text)),
            PartBody::Data(data) => part.insert("data".to_owned(), data.clone()),
            PartBody::Bytes(bytes) => part.insert("raw".to_owned(), json!(bytes)),
            PartBody::Uri(uri) => part.insert("url".to_owned(), json!(uri)),
            PartBody::Nothing => None,
        };
        self.describe(&mut part, "filename", "mediaType");
        Value::Object(part)
    }

    fn describe(&self, fields: &mut JsonObject, name: &str, media_type: &str) {
        for (key, text) in [(name, &self.name), (media_type, &self.media_type)] {
            if let Some(text) = text {
                fields.insert(key.to_owned(), json!(text));
            }
        }
    }

    /// Parts as text, in upstream's format.
    pub(super) fn text_of(parts: &[Self]) -> String {
        parts.iter().map(Self::as_text).collect()
    }

    fn as_text(&self) -> String {
        let named = |uri: Option<&String>| {
            let name = self.name.as_ref().or(uri).filter(|name| !name.is_empty());
            format!("File: {}", name.map_or("[binary/unnamed]", String::as_str))
        };
        match &self.body {
            PartBody::Text(text) => text.clone(),
            PartBody::Data(data) => format!("Data: {data}"),
            PartBody::Uri(uri) => named(Some(uri)),
            PartBody::Bytes(_) | PartBody::Nothing => named(None),
        }
    }
}

/// The members of an object; none for anything else.
pub(super) fn object(value: Option<&Value>) -> JsonObject {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_every_dialect() {
        let file = |body| Part { body, name: Some("a.txt".into()), media_type: Some("text/plain".into()) };
        let message = Message {
            id: "m".into(),
            ids: Ids { context: Some("c".into()), task: Some("t".into()) },
            role: Role::Agent,
            parts: vec![
                Part::text("hello"),
                Part::data(json!({"callId": "x", "outcome": "cancel"})),
                file(PartBody::Bytes("AA==".into())),
                file(PartBody::Uri("https://a.example/a.txt".into())),
            ],
            metadata: object(Some(&json!({"k": 1}))),
        };
        for dialect in [Dialect::Tagged, Dialect::OldBuffers, Dialect::One] {
            assert_eq!(Message::read(&message.to_json(dialect)), message, "{dialect:?}");
        }
        let one = message.to_json(Dialect::One);
        assert_eq!((&one["role"], &one["parts"][2]["raw"]), (&json!("ROLE_AGENT"), &json!("AA==")));
        assert!(one.get("kind").is_none());
        let tagged = message.to_json(Dialect::Tagged);
        assert_eq!((&tagged["role"], &tagged["parts"][0]["kind"]), (&json!("agent"), &json!("text")));
    }

    #[test]
    fn message_parts_become_text() {
        let message = json!({"kind": "message", "role": "agent", "parts": [
            {"kind": "text", "text": "a "}, {"kind": "data", "data": {"n": 1}}, {"kind": "file", "file": {"uri": "u"}},
            {"kind": "file", "file": {"bytes": "AA=="}}, {"kind": "new"}, 3,
        ]});
        assert_eq!(Message::read(&message).text(), "a Data: {\"n\":1}File: uFile: [binary/unnamed]");
    }
}
