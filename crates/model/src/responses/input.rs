//! The conversation as input items.
//!
//! The list is flat: messages, calls and the answers to calls are items of their own, and a sealed reasoning item
//! stands directly before the item it led to.

use std::borrow::Cow;

use pollux_domain::content::{Body, Content, FunctionResponse, Part, Role, Seal, SealKind};
use pollux_domain::model::{Capabilities, Dialect, Origin};
use serde::Serialize;
use serde_json::Value;

use crate::shared::call_ids::CallIds;
use crate::shared::tool_names::ToolNames;

/// Pictures that the API reads.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
const PDF: &str = "application/pdf";

/// One input item.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Item<'a> {
    Known(Known<'a>),
    /// An item that goes back exactly as it came.
    Sealed(&'a Value),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Known<'a> {
    Message {
        role: &'static str,
        content: Said<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
    },
    FunctionCall {
        call_id: &'a str,
        name: String,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Said<'a>,
    },
}

/// What a message or an answer says.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Said<'a> {
    Text(Cow<'a, str>),
    Pieces(Vec<Piece<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub(super) enum Piece<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { image_url: Cow<'a, str>, detail: &'static str },
    #[serde(rename = "input_file")]
    File(File<'a>),
}

#[derive(Debug, Serialize)]
pub(super) struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_url: Option<&'a str>,
}

/// What decides how a conversation is written.
pub(super) struct Writer<'a> {
    pub(super) names: &'a ToolNames,
    pub(super) ids: &'a CallIds,
    pub(super) caps: &'a Capabilities,
    /// Whether the seals of a turn may go back.
    pub(super) keeps_seals: &'a dyn Fn(&Origin) -> bool,
    /// Whether one seal may go back.
    pub(super) keeps_seal: &'a dyn Fn(&Value) -> bool,
}

impl<'a> Writer<'a> {
    /// The items of a conversation.
    pub(super) fn items(&self, contents: impl IntoIterator<Item = &'a Content>) -> Vec<Item<'a>> {
        let mut items = Vec::new();
        for (turn, content) in contents.into_iter().enumerate() {
            match content.role {
                Role::User => self.user(turn, content, &mut items),
                Role::Model => self.model(turn, content, &mut items),
            }
        }
        items
    }

    fn user(&self, turn: usize, content: &'a Content, items: &mut Vec<Item<'a>>) {
        for (at, part) in content.parts.iter().enumerate() {
            // An answer to a call that is not there would be refused.
            if let (Body::Response(response), Some(call_id)) = (&part.body, self.ids.answer(turn, at)) {
                let output = self.answer(response);
                items.push(Item::Known(Known::FunctionCallOutput { call_id, output }));
            }
        }
        let pieces: Vec<Piece<'a>> = content.parts.iter().filter_map(|part| self.piece(part)).collect();
        if !pieces.is_empty() {
            let content = Said::Pieces(pieces);
            items.push(Item::Known(Known::Message { role: "user", content, phase: None }));
        }
    }

    fn model(&self, turn: usize, content: &'a Content, items: &mut Vec<Item<'a>>) {
        let origin = content.origin.as_deref();
        let keeps = origin.is_some_and(|origin| (self.keeps_seals)(origin));
        let mut phases = Phases::of(content);
        // A reasoning item without the item it led to is refused, so it waits for that one.
        let mut sealed: Vec<&'a Value> = Vec::new();
        for (at, part) in content.parts.iter().enumerate() {
            let item = match &part.body {
                Body::Reasoning { seal: Some(seal), .. } => {
                    if keeps && is_ours(seal) && (self.keeps_seal)(&seal.data) {
                        sealed.push(&seal.data);
                    }
                    continue;
                }
                Body::Text(text) if !text.is_empty() => Known::Message {
                    role: "assistant",
                    content: Said::Text(text.into()),
                    phase: phases.next(),
                },
                Body::Call(call) => match self.ids.call(turn, at) {
                    Some(call_id) if !self.ids.is_unanswered(turn, at) => Known::FunctionCall {
                        call_id,
                        name: self.names.wire(&call.name),
                        arguments: serde_json::to_string(&call.args).unwrap_or_else(|_| "{}".to_owned()),
                    },
                    // A call without an answer is refused, and so is what led to it.
                    _ => {
                        sealed.clear();
                        continue;
                    }
                },
                _ => continue,
            };
            items.extend(sealed.drain(..).map(Item::Sealed));
            items.push(Item::Known(item));
        }
    }

    /// A part of a user's turn; answers to calls are items of their own.
    fn piece(&self, part: &'a Part) -> Option<Piece<'a>> {
        match &part.body {
            Body::Text(text) if !text.is_empty() => Some(Piece::Text { text: text.into() }),
            Body::InlineData(blob) => {
                let address = || format!("data:{};base64,{}", blob.mime_type, blob.data_base64);
                Some(match self.medium(&blob.mime_type) {
                    Some(Medium::Image) => image(address().into()),
                    Some(Medium::Pdf) => Piece::File(File {
                        filename: Some("document.pdf"),
                        file_data: Some(address()),
                        file_url: None,
                    }),
                    None => unreadable(&blob.mime_type),
                })
            }
            Body::FileData { mime_type, uri } => Some(match self.medium(mime_type) {
                Some(Medium::Image) if is_web(uri) => image(uri.into()),
                Some(Medium::Pdf) if is_web(uri) => {
                    Piece::File(File { filename: None, file_data: None, file_url: Some(uri) })
                }
                _ => unreadable(mime_type),
            }),
            Body::Text(_) | Body::Reasoning { .. } | Body::Call(_) | Body::Response(_) | Body::Other(_) => {
                None
            }
        }
    }

    fn answer(&self, response: &'a FunctionResponse) -> Said<'a> {
        let text = answer_text(response);
        let media: Vec<Piece<'a>> = response.parts.iter().filter_map(|part| self.piece(part)).collect();
        if media.is_empty() {
            return Said::Text(text);
        }
        let text = (!text.is_empty()).then_some(Piece::Text { text });
        Said::Pieces(text.into_iter().chain(media).collect())
    }

    fn medium(&self, mime_type: &str) -> Option<Medium> {
        match mime_type {
            PDF if self.caps.pdf => Some(Medium::Pdf),
            image if self.caps.images && IMAGE_TYPES.contains(&image) => Some(Medium::Image),
            _ => None,
        }
    }
}

enum Medium {
    Image,
    Pdf,
}

fn image(image_url: Cow<'_, str>) -> Piece<'_> {
    Piece::Image { image_url, detail: "auto" }
}

/// The model is told what it cannot see.
fn unreadable<'a>(mime_type: &str) -> Piece<'a> {
    Piece::Text { text: format!("[{mime_type} content is not supported by this model]").into() }
}

fn is_web(uri: &str) -> bool {
    uri.starts_with("https://") || uri.starts_with("http://")
}

fn is_ours(seal: &Seal) -> bool {
    matches!(seal.kind, SealKind::OpenAiReasoning | SealKind::OpenAiCompaction)
}

/// The plain output of a tool as it is, everything else as JSON.
fn answer_text(response: &FunctionResponse) -> Cow<'_, str> {
    let fields = &*response.response;
    match fields.get("output") {
        Some(Value::String(text)) if fields.len() == 1 => text.into(),
        _ => serde_json::to_string(fields).unwrap_or_default().into(),
    }
}

/// The phases of a turn's texts, as [`phases_word`] wrote them down.
struct Phases<'a> {
    words: Vec<&'a str>,
    next: usize,
}

impl<'a> Phases<'a> {
    fn of(content: &'a Content) -> Self {
        let origin = content.origin.as_deref().filter(|origin| origin.dialect == Dialect::RESPONSES);
        let word = origin.and_then(|origin| origin.phase.as_deref());
        let words: Vec<&str> = word.map(|word| word.split(',').collect()).unwrap_or_default();
        let texts =
            content.parts.iter().filter(|part| part.spoken_text().is_some_and(|text| !text.is_empty()));
        // Where texts were joined or taken away it cannot be told which of the words belongs to which.
        let fits = words.len() <= 1 || words.len() == texts.count();
        Self { words: if fits { words } else { Vec::new() }, next: 0 }
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = if self.words.len() == 1 { self.words.first() } else { self.words.get(self.next) };
        self.next += 1;
        word.copied().filter(|word| !word.is_empty())
    }
}

/// The phases of a reply's messages in one word: a single one if all are the same.
pub(super) fn phases_word(phases: &[String]) -> Option<String> {
    let first = phases.first()?;
    let word = if phases.iter().all(|phase| phase == first) { first.clone() } else { phases.join(",") };
    (!word.is_empty()).then_some(word)
}
