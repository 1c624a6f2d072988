//! The conversation as the API wants it: alternating turns of blocks, each call answered at the start of the next
//! turn, and the model's own blocks back as they came.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use pollux_domain::content::{Blob, Body, Content, FunctionResponse, Part, Role, Seal, SealKind};
use pollux_domain::model::{Capabilities, Dialect, Origin};
use serde_json::{Value, json};

use super::BLOCK;
use crate::shared::call_ids::{CallIds, IdRule};
use crate::shared::tool_names::ToolNames;

/// Image formats of the API.
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];
const PDF: &str = "application/pdf";
/// Anthropic's ids are shorter; other servers' are kept as far as they are legal.
const IDS: IdRule = IdRule::Plain { max: 128 };

const NO_RESULT: &str = "No result: the call was interrupted.";
/// Stands in for the person where a conversation begins or ends with the model.
const CARRY_ON: &str = "Continue.";

/// What decides how a conversation is written.
pub(super) struct Writer<'a> {
    /// Who is asked.
    pub(super) target: &'a Origin,
    /// Whether the target is Anthropic's own server, which sorts out the reasoning of its other models.
    pub(super) first_party: bool,
    pub(super) caps: &'a Capabilities,
    pub(super) names: &'a ToolNames,
    /// Whether reasoning goes back at all: it is bound to the conversation that it came from.
    pub(super) seals: bool,
    /// Seals that the server refused before.
    pub(super) void: &'a HashSet<u64>,
    /// The last turn is one of the model's that the server paused and will continue.
    pub(super) continues: bool,
}

/// A conversation to send.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) messages: Vec<Message>,
    /// Marks of the seals that are sent along.
    pub(super) seals: Vec<u64>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) blocks: Vec<Value>,
}

impl Message {
    pub(super) fn has(&self, kinds: &[&str]) -> bool {
        self.blocks.iter().any(|block| kinds.contains(&kind(block)))
    }

    pub(super) fn into_json(self) -> Value {
        let role = match self.role {
            Role::User => "user",
            Role::Model => "assistant",
        };
        let mut message = json!({"role": role});
        // Moved, because the macro would copy the blocks.
        message["content"] = Value::Array(self.blocks);
        message
    }
}

impl Written {
    /// Whether the model is in the middle of its calls, and whether it reasoned before the first of them.
    pub(super) fn active_loop(&self) -> Option<bool> {
        let answers = |message: &&Message| message.role == Role::User && message.has(&["tool_result"]);
        self.messages.last().filter(answers)?;
        let asked = |message: &&Message| message.role == Role::User && !message.has(&["tool_result"]);
        let since = self.messages.iter().rev().take_while(|message| !asked(message));
        Some(since.into_iter().any(|message| message.has(&["thinking", "redacted_thinking"])))
    }

    /// The names of the tools that were called, each once.
    pub(super) fn called(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for block in self.messages.iter().flat_map(|message| &message.blocks) {
            if kind(block) == "tool_use"
                && let Some(name) = block["name"].as_str()
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        names
    }
}

impl Writer<'_> {
    pub(super) fn write<'a>(&self, contents: impl Iterator<Item = &'a Content> + Clone) -> Written {
        let ids = CallIds::of(contents.clone(), IDS);
        let mut written = Written::default();
        for (turn, content) in contents.enumerate() {
            let mut missing = Vec::new();
            let mut blocks = Vec::new();
            for (place, part) in content.parts.iter().enumerate() {
                match content.role {
                    Role::User => self.user_part(part, ids.answer(turn, place), &mut blocks),
                    Role::Model => {
                        let seals = &mut written.seals;
                        let id = ids.call(turn, place);
                        blocks.extend(self.model_part(part, id, content.origin.as_deref(), seals));
                        missing.extend(id.filter(|_| ids.is_unanswered(turn, place)).map(no_result));
                    }
                }
            }
            push(&mut written.messages, content.role, blocks);
            push(&mut written.messages, Role::User, missing);
        }
        self.tidy(&mut written.messages);
        written
    }

    /// Whether this target can read a seal of the turn's.
    fn reads(&self, origin: Option<&Origin>) -> bool {
        origin.is_some_and(|origin| {
            origin.dialect == Dialect::MESSAGES
                && origin.host == self.target.host
                && (origin.model == self.target.model || self.first_party)
        })
    }

    fn model_part(
        &self,
        part: &Part,
        id: Option<&str>,
        origin: Option<&Origin>,
        seals: &mut Vec<u64>,
    ) -> Option<Value> {
        match &part.body {
            Body::Text(text) => text_block(text),
            Body::Reasoning { text, seal: Some(seal), .. } if self.seals && self.reads(origin) => {
                let mark = mark(seal);
                let block = reasoning_block(text, seal).filter(|_| !self.void.contains(&mark))?;
                seals.push(mark);
                Some(block)
            }
            Body::Call(call) => {
                let mut block = json!({"type": "tool_use", "id": id?, "name": self.names.wire(&call.name)});
                block["input"] = Value::Object(call.args.clone());
                Some(block)
            }
            Body::Other(fields) if self.reads(origin) => fields.get(BLOCK).cloned(),
            Body::InlineData(Blob { mime_type, .. }) | Body::FileData { mime_type, .. } => {
                text_block(&format!("[{mime_type}]"))
            }
            Body::Reasoning { .. } | Body::Response(_) | Body::Other(_) => None,
        }
    }

    fn user_part(&self, part: &Part, answers: Option<&str>, blocks: &mut Vec<Value>) {
        match &part.body {
            Body::Text(text) => blocks.extend(text_block(text)),
            Body::Response(response) => match answers {
                Some(id) => self.result(response, id, blocks),
                // Its call is gone, as after a compression; what it said may still matter.
                None => {
                    let (text, _) = said(response);
                    blocks.extend(text_block(&format!("[result of {}]\n{text}", response.name)));
                }
            },
            Body::InlineData(_) | Body::FileData { .. } => blocks.push(self.media(part)),
            Body::Reasoning { .. } | Body::Call(_) | Body::Other(_) => {}
        }
    }

    fn result(&self, response: &FunctionResponse, id: &str, blocks: &mut Vec<Value>) {
        let (text, failed) = said(response);
        let media: Vec<Value> = response.parts.iter().map(|part| self.media(part)).collect();
        let mut result = json!({"type": "tool_result", "tool_use_id": id});
        // A failure may hold nothing but text.
        let inside = if failed { Vec::new() } else { media.clone() };
        if inside.is_empty() {
            if !text.trim().is_empty() {
                result["content"] = json!(text);
            }
        } else {
            result["content"] = text_block(&text).into_iter().chain(inside).collect();
        }
        if failed {
            result["is_error"] = json!(true);
        }
        blocks.push(result);
        if failed {
            blocks.extend(media);
        }
    }

    /// A picture or a document; a text in its place where the model cannot take it.
    fn media(&self, part: &Part) -> Value {
        let (mime_type, source) = match &part.body {
            Body::InlineData(Blob { mime_type, data_base64 }) => {
                (mime_type, Some(json!({"type": "base64", "media_type": mime_type, "data": data_base64})))
            }
            Body::FileData { mime_type, uri } if uri.starts_with("https://") => {
                (mime_type, Some(json!({"type": "url", "url": uri})))
            }
            Body::FileData { mime_type, .. } => (mime_type, None),
            _ => return json!({"type": "text", "text": "[attachment: not supported by this model]"}),
        };
        let block = match mime_type.as_str() {
            PDF if self.caps.pdf => "document",
            image if self.caps.images && IMAGES.contains(&image) => "image",
            _ => "",
        };
        match source.filter(|_| !block.is_empty()) {
            Some(source) => json!({"type": block, "source": source}),
            None => {
                json!({"type": "text", "text": format!("[{mime_type}: not supported by this model]")})
            }
        }
    }

    /// Orders the blocks of each turn, and sees to it that the person has the first and the last word.
    fn tidy(&self, messages: &mut Vec<Message>) {
        for message in messages.iter_mut() {
            match message.role {
                // A stable sort: results first, the rest in its order.
                Role::User => message.blocks.sort_by_key(|block| kind(block) != "tool_result"),
                // Reasoning that leads to nothing is refused.
                Role::Model => {
                    while message.blocks.last().is_some_and(is_reasoning) {
                        message.blocks.pop();
                    }
                }
            }
        }
        let mut kept = Vec::with_capacity(messages.len());
        for message in messages.drain(..) {
            push(&mut kept, message.role, message.blocks);
        }
        let carry_on = || Message { role: Role::User, blocks: text_block(CARRY_ON).into_iter().collect() };
        if kept.first().is_none_or(|message| message.role == Role::Model) {
            kept.insert(0, carry_on());
        }
        if !self.continues && kept.last().is_some_and(|message| message.role == Role::Model) {
            kept.push(carry_on());
        }
        *messages = kept;
    }
}

/// Adds blocks to the last turn if it is of the same role.
fn push(messages: &mut Vec<Message>, role: Role, blocks: Vec<Value>) {
    if blocks.is_empty() {
        return;
    }
    match messages.last_mut() {
        Some(last) if last.role == role => last.blocks.extend(blocks),
        _ => messages.push(Message { role, blocks }),
    }
}

/// Tells seals apart without keeping them.
fn mark(seal: &Seal) -> u64 {
    let mut hasher = DefaultHasher::new();
    seal.data.to_string().hash(&mut hasher);
    hasher.finish()
}

fn kind(block: &Value) -> &str {
    block["type"].as_str().unwrap_or_default()
}

fn is_reasoning(block: &Value) -> bool {
    matches!(kind(block), "thinking" | "redacted_thinking")
}

/// Text without anything to read is refused.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn reasoning_block(text: &str, seal: &Seal) -> Option<Value> {
    match seal.kind {
        SealKind::AnthropicThinking => {
            Some(json!({"type": "thinking", "thinking": text, "signature": seal.data}))
        }
        SealKind::AnthropicRedacted => Some(json!({"type": "redacted_thinking", "data": seal.data})),
        _ => None,
    }
}

fn no_result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": NO_RESULT, "is_error": true})
}

/// What a tool answered, and whether it failed.
fn said(response: &FunctionResponse) -> (String, bool) {
    let fields = &*response.response;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match (fields.get("error"), fields.get("output")) {
        (Some(error), _) if fields.len() == 1 => (text(error), true),
        (None, Some(output)) if fields.len() == 1 => (text(output), false),
        (error, _) => (Value::Object(fields.clone()).to_string(), error.is_some()),
    }
}
