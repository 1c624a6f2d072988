//! What a conversation is made of: turns of parts.

mod answer_fields;
mod json;

pub use answer_fields::{AnswerFields, StoredText};
pub use json::MalformedPart;

use crate::JsonObject;

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
}

impl Content {
    /// A user turn.
    pub fn user(parts: Vec<Part>) -> Self {
        Self { role: Role::User, parts }
    }

    /// A user turn with a single text.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self::user(vec![Part::text(text)])
    }

    /// A model turn.
    pub fn model(parts: Vec<Part>) -> Self {
        Self { role: Role::Model, parts }
    }

    /// The spoken text: every text part that is not a thought, joined without separator.
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
    /// Opaque token of the model that must be sent back on this very part.
    pub thought_signature: Option<String>,
    /// Fields this program does not know; they survive a round trip.
    pub extra: JsonObject,
}

/// The payload of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Text(String),
    /// A summary of the model's reasoning; never sent back.
    Thought(String),
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
    pub args: JsonObject,
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
        Self { body, thought_signature: None, extra: JsonObject::new() }
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

    /// True for a text part without text and without anything else to carry.
    pub fn is_blank(&self) -> bool {
        matches!(&self.body, Body::Text(text) if text.is_empty())
            && self.thought_signature.is_none()
            && self.extra.is_empty()
    }
}
