//! A read-only view of a message for transcripts and search: speaker, text and calls.

mod call;

pub(crate) use call::{CallView, Outcome};

use pollux_domain::time::Timestamp;
use serde_json::Value;

use crate::message::{UserText, text_kind};
use crate::raw::{self, Fields, Raw};

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Agent,
    Error,
    /// Notices, and kinds nobody knows.
    Nobody,
}

/// One message; its fields are read when asked for.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) id: String,
    pub(crate) speaker: Speaker,
    fields: Fields<'a>,
}

impl<'a> View<'a> {
    /// Looks at the message with this number from 0; `None` if the text is not an object.
    pub(crate) fn of(index: usize, text: &'a str) -> Option<Self> {
        let fields = raw::fields(text)?;
        let speaker = match raw::string(&fields, "type").as_deref() {
            Some("user") => Speaker::User,
            Some("gemini") => Speaker::Agent,
            Some("error") => Speaker::Error,
            _ => Speaker::Nobody,
        };
        // As `load` names it.
        let id = raw::string(&fields, "id").unwrap_or_else(|| format!("message-{}", index + 1));
        Some(Self { id, speaker, fields })
    }

    pub(crate) fn time(&self) -> Option<Timestamp> {
        Timestamp::parse(&raw::string(&self.fields, "timestamp")?)
    }

    pub(crate) fn field(&self, key: &str) -> Option<Raw<'a>> {
        self.fields.get(key)
    }

    pub(crate) fn string(&self, key: &str) -> Option<String> {
        raw::string(&self.fields, key)
    }

    /// The text: for users as typed, if known. Excludes thoughts and calls.
    pub(crate) fn words(&self) -> String {
        let typed = self.field("displayContent").filter(|_| self.speaker == Speaker::User).map(words_of);
        match typed {
            Some(typed) if !typed.is_empty() => typed,
            _ => self.field("content").map(words_of).unwrap_or_default(),
        }
    }

    /// Whether the user typed this text.
    pub(crate) fn is_prompt(words: &str) -> bool {
        text_kind(words) == UserText::Prompt
    }

    /// Whether the program wrote this on the user's behalf.
    pub(crate) fn is_context(words: &str) -> bool {
        text_kind(words) == UserText::Context
    }

    /// Placeholders for attachments: `[image: image/png]`.
    pub(crate) fn attachments(&self) -> Vec<String> {
        let Some(content) = self.field("content") else { return Vec::new() };
        let parts = raw::list(content).unwrap_or_else(|| vec![content]);
        parts.into_iter().filter_map(attachment).collect()
    }

    /// The calls of a reply. Where its content holds calls, those are the ones; `toolCalls` then only say
    /// how they ended.
    pub(crate) fn calls(&self) -> Vec<CallView<'a>> {
        let listed = self.field("toolCalls").and_then(raw::objects).unwrap_or_default();
        let stored: Vec<CallView<'a>> = listed.into_iter().map(CallView::stored).collect();
        let content = self.field("content").filter(|content| content.get().contains("functionCall"));
        let parts = content.and_then(raw::list).unwrap_or_default();
        let spoken: Vec<Fields<'a>> = parts
            .into_iter()
            .filter_map(|part| raw::fields(raw::fields(part.get())?.get("functionCall")?.get()))
            .collect();
        if spoken.is_empty() { stored } else { CallView::joined(spoken, stored) }
    }

    /// Whether the message has a list of this name with something in it.
    pub(crate) fn has_items(&self, key: &str) -> bool {
        self.field(key).and_then(raw::list).is_some_and(|items| !items.is_empty())
    }
}

/// The words of a string, a part, or a list of both.
fn words_of(content: Raw<'_>) -> String {
    if let Some(text) = raw::text(content) {
        return text;
    }
    match raw::list(content) {
        Some(parts) => parts.into_iter().filter_map(part_words).collect(),
        None => part_words(content).unwrap_or_default(),
    }
}

fn part_words(part: Raw<'_>) -> Option<String> {
    if let Some(text) = raw::text(part) {
        return Some(text);
    }
    let fields = raw::fields(part.get())?;
    let is_thought = fields.get("thought").is_some_and(|thought| thought.get() == "true");
    if is_thought { None } else { raw::string(&fields, "text") }
}

fn attachment(part: Raw<'_>) -> Option<String> {
    let fields = raw::fields(part.get())?;
    let of = |key: &str| raw::fields(fields.get(key)?.get());
    if let Some(data) = of("inlineData") {
        let mime = raw::string(&data, "mimeType").unwrap_or_else(|| "unknown".to_owned());
        let kind = mime.split('/').next().filter(|kind| matches!(*kind, "image" | "audio" | "video"));
        let kind = kind.unwrap_or("media");
        return Some(format!("[{kind}: {mime}]"));
    }
    let uri = raw::string(&of("fileData")?, "fileUri").unwrap_or_default();
    Some(format!("[file: {uri}]"))
}

/// A value as text: strings as they are, other things as JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
