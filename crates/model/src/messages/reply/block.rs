//! One block of a reply, while it arrives.

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, FunctionCall, Part, Seal, SealKind};
use pollux_domain::json::parse_wire;
use serde_json::{Value, json};

use crate::http::Failure;
use crate::messages::BLOCK;

/// No block may be longer than this.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A block under way.
pub(super) enum Block {
    /// With the text that it began with; the rest is told as it comes.
    Text(String),
    Thinking {
        text: String,
        signature: Option<String>,
    },
    Redacted(Value),
    Call {
        /// Its place among the calls.
        index: usize,
        id: Option<String>,
        name: String,
        /// Arguments that came with the beginning.
        input: Value,
        json: String,
        /// How much of the arguments was told as progress.
        told: usize,
    },
    /// Of a kind that only the server understands.
    Other {
        block: JsonObject,
        json: String,
    },
}

/// What a block turned out to be.
pub(super) enum Closed {
    /// It was told while it came.
    Nothing,
    Part(Box<Part>),
    Call(FunctionCall),
}

impl Closed {
    fn whole(body: Body) -> Self {
        Self::Part(Box::new(body.into()))
    }
}

/// Whether it says itself that it is no piece of a call's arguments. Some servers send text with the index of a call.
pub(super) fn is_of_other_kind(delta: &Value) -> bool {
    let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default();
    ["text_delta", "thinking_delta", "signature_delta", "citations_delta"].contains(&kind)
}

/// Servers that write every field have `null` where there is nothing.
fn may_be_arguments(delta: &Value) -> bool {
    delta.get("partial_json").is_some_and(|piece| piece.is_string() || piece.is_null())
}

impl Block {
    /// `calls` is how many calls came before.
    pub(super) fn open(content: Value, calls: usize) -> Self {
        let text = |key: &str| content.get(key).and_then(Value::as_str).map(str::to_owned);
        match content.get("type").and_then(Value::as_str) {
            Some("text") => Self::Text(text("text").unwrap_or_default()),
            Some("thinking") => Self::Thinking {
                text: text("thinking").unwrap_or_default(),
                signature: text("signature").filter(|signature| !signature.is_empty()),
            },
            Some("redacted_thinking") => Self::Redacted(content.get("data").cloned().unwrap_or_default()),
            Some("tool_use") => Self::Call {
                index: calls,
                id: text("id").filter(|id| !id.is_empty()),
                name: text("name").unwrap_or_default(),
                input: content.get("input").cloned().unwrap_or_default(),
                json: String::new(),
                told: 0,
            },
            _ => Self::Other { block: content.as_object().cloned().unwrap_or_default(), json: String::new() },
        }
    }

    /// Takes a piece; text that can be told at once.
    pub(super) fn delta(&mut self, delta: &Value) -> Result<Option<String>, Failure> {
        let piece = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        if let Self::Other { block, .. } = self {
            let begun = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
            // Text is shown whatever type its block declares.
            match (piece("type"), begun("text"), begun("thinking")) {
                ("text_delta", text, _) => {
                    if text.is_some() {
                        *self = Self::Text(String::new());
                    }
                    let text = text.unwrap_or_default() + piece("text");
                    return Ok((!text.is_empty()).then_some(text));
                }
                ("thinking_delta", _, Some(text)) => *self = Self::Thinking { text, signature: None },
                _ => {}
            }
        }
        let grown = match self {
            Self::Text(_) => {
                let text = piece("text");
                return Ok((!text.is_empty()).then(|| text.to_owned()));
            }
            Self::Thinking { text, signature } => {
                text.push_str(piece("thinking"));
                if delta.get("signature").is_some() {
                    signature.get_or_insert_default().push_str(piece("signature"));
                }
                text.len()
            }
            // Without this piece the arguments would be different.
            Self::Call { .. } if !is_of_other_kind(delta) && !may_be_arguments(delta) => {
                return Err(Failure::malformed("part of a tool call's arguments cannot be read"));
            }
            Self::Call { json, .. } | Self::Other { json, .. } => {
                json.push_str(piece("partial_json"));
                json.len()
            }
            Self::Redacted(_) => 0,
        };
        if grown > MAX_BYTES {
            return Err(Failure::malformed("a block of the reply exceeds the size limit"));
        }
        Ok(None)
    }

    pub(super) fn close(self) -> Closed {
        match self {
            Self::Text(_) => Closed::Nothing,
            Self::Thinking { text, signature } => {
                let kind = SealKind::AnthropicThinking;
                let seal = signature.map(|signature| Seal { kind, data: Value::String(signature) });
                Closed::whole(Body::Reasoning { text, summary: true, seal })
            }
            Self::Redacted(data) => {
                let seal = Some(Seal { kind: SealKind::AnthropicRedacted, data });
                Closed::whole(Body::Reasoning { text: String::new(), summary: true, seal })
            }
            Self::Call { id, name, input, json, .. } => Closed::Call(match input {
                Value::Object(args) if json.trim().is_empty() => FunctionCall::new(id, name, args),
                _ => FunctionCall::from_text(id, name, &json),
            }),
            Self::Other { mut block, json } => {
                if let Ok(input) = parse_wire::<Value>(json.as_bytes()) {
                    block.insert("input".into(), input);
                }
                let fields = JsonObject::from_iter([(BLOCK.to_owned(), json!(block))]);
                Closed::whole(Body::Other(fields))
            }
        }
    }
}
