//! What a conversation is made of: turns of parts.

mod answer_fields;
mod json;
mod seal;

pub use answer_fields::{AnswerFields, StoredText};
pub use json::{MalformedPart, POLLUX};
pub use seal::{Seal, SealKind};

use std::sync::Arc;

use serde_json::Value;

use crate::JsonObject;
use crate::json::{MAX_DEPTH, is_deeper, parse_wire};
use crate::model::Origin;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person, or a tool answering a call.
    User,
    /// The model.
    Model,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub role: Role,
    pub parts: Vec<Part>,
    /// Who said it, where a model did and its client knows.
    pub origin: Option<Arc<Origin>>,
}

impl Content {
    /// A turn.
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, origin: None }
    }

    /// A user turn.
    pub fn user(parts: Vec<Part>) -> Self {
        Self::new(Role::User, parts)
    }

    /// A user turn with a single text.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self::user(vec![Part::text(text)])
    }

    /// A model turn.
    pub fn model(parts: Vec<Part>) -> Self {
        Self::new(Role::Model, parts)
    }

    /// The spoken text: every text part that is not reasoning, joined without separator.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::spoken_text).collect()
    }

    /// The calls in this turn, in order.
    pub fn calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.parts.iter().filter_map(|part| match &part.body {
            Body::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The answers to calls in this turn, in order.
    pub fn responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.parts.iter().filter_map(|part| match &part.body {
            Body::Response(response) => Some(response),
            _ => None,
        })
    }
}

/// One piece of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub body: Body,
    /// What must go back to the model on this very part, unread.
    pub seal: Option<Seal>,
    /// Fields this program does not know; they survive a round trip. What stands under [`POLLUX`] is the program's
    /// own and never sent.
    pub extra: JsonObject,
}

/// The payload of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Text(String),
    /// The model's reasoning. Only a client whose provider wants it back sends it.
    Reasoning {
        text: String,
        /// A summary of the reasoning, not the reasoning itself.
        summary: bool,
        /// What must go back with it, or in its place.
        seal: Option<Seal>,
    },
    Call(FunctionCall),
    Response(FunctionResponse),
    InlineData(Blob),
    FileData {
        mime_type: String,
        uri: String,
    },
    /// A part of a kind this program does not interpret, kept as received.
    Other(JsonObject),
}

/// The model asks for a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    pub id: Option<String>,
    pub name: String,
    /// Empty where they could not be read.
    pub args: JsonObject,
    /// Why the arguments could not be read; such a call is answered with an error and never run.
    pub bad_args: Option<Box<BadArgs>>,
}

/// Arguments that are no JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadArgs {
    /// What the model wrote.
    pub raw: String,
    pub error: String,
}

impl FunctionCall {
    /// A call with arguments that could be read. If they are nested too deeply to be recorded, the call is not run.
    pub fn new(id: Option<String>, name: impl Into<String>, args: JsonObject) -> Self {
        let name = name.into();
        if args.values().all(|arg| !is_deeper(arg, MAX_DEPTH - 1)) {
            return Self { id, name, args, bad_args: None };
        }
        let raw = Value::Object(args).to_string();
        let bad = BadArgs { raw, error: format!("nested more than {MAX_DEPTH} levels deep") };
        Self { id, name, args: JsonObject::new(), bad_args: Some(Box::new(bad)) }
    }

    /// A call whose arguments are still text, as most providers send them; no text means no arguments.
    pub fn from_text(id: Option<String>, name: impl Into<String>, text: &str) -> Self {
        if text.trim().is_empty() {
            return Self::new(id, name, JsonObject::new());
        }
        match parse_wire(text.as_bytes()) {
            Ok(args) => Self::new(id, name, args),
            Err(error) => {
                let bad = BadArgs { raw: text.to_owned(), error: error.to_string() };
                Self { bad_args: Some(Box::new(bad)), ..Self::new(id, name, JsonObject::new()) }
            }
        }
    }
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionResponse {
    pub id: Option<String>,
    pub name: String,
    pub response: AnswerFields,
    /// Media that belong to the answer, for models that accept them there.
    pub parts: Vec<Part>,
}

/// Binary data with its type, base64-encoded as it travels.
#[derive(Debug, Clone, PartialEq)]
pub struct Blob {
    pub mime_type: String,
    pub data_base64: String,
}

impl From<Body> for Part {
    fn from(body: Body) -> Self {
        Self { body, seal: None, extra: JsonObject::new() }
    }
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Body::Text(text.into()).into()
    }

    /// A call part.
    pub fn call(call: FunctionCall) -> Self {
        Body::Call(call).into()
    }

    /// A response part.
    pub fn response(response: FunctionResponse) -> Self {
        Body::Response(response).into()
    }

    /// The text a person would read, if this is a text part.
    pub fn spoken_text(&self) -> Option<&str> {
        match &self.body {
            Body::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The call, if this is a call part.
    pub fn as_call(&self) -> Option<&FunctionCall> {
        match &self.body {
            Body::Call(call) => Some(call),
            _ => None,
        }
    }

    /// The signature of Gemini's on this part.
    pub fn signature(&self) -> Option<&str> {
        self.seal.as_ref().and_then(Seal::signature)
    }

    /// Whether this is reasoning that some provider wants back; what is not is for people only.
    pub fn is_sealed_reasoning(&self) -> bool {
        matches!(&self.body, Body::Reasoning { seal: Some(_), .. })
    }

    /// True for a text part without text and without anything else to carry.
    pub fn is_blank(&self) -> bool {
        matches!(&self.body, Body::Text(text) if text.is_empty())
            && self.seal.is_none()
            && self.extra.is_empty()
    }
}
