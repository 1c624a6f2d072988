//! The decoded messages of a stored session.

mod decode;
pub(crate) mod encode;
mod fields;
pub(crate) mod own;

pub(crate) use decode::message_from_json;
pub(crate) use fields::MessageFields;

use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, Part, Seal};
use pollux_domain::event::{CallStatus, Severity, Thought};
use pollux_domain::id::CallId;
use pollux_domain::model::{Origin, Usage};
use pollux_domain::time::Timestamp;
use pollux_domain::tool::Display;
use serde_json::Value;

/// Names one message inside its session.
pub type MessageId = String;

/// One message of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    User(UserMessage),
    Reply(ReplyMessage),
    Notice(NoticeMessage),
    /// A message of a kind this program does not know; kept, never sent to a model.
    Other {
        id: MessageId,
        fields: JsonObject,
    },
}

/// A user message, or one sent by upstream on the user's behalf.
#[derive(Debug, Clone, PartialEq)]
pub struct UserMessage {
    pub id: MessageId,
    pub time: Option<Timestamp>,
    pub parts: Vec<Part>,
    /// What was typed, where it differs from what was sent.
    pub typed: Option<String>,
    /// Fields this program does not know.
    pub extra: JsonObject,
}

/// What the model answered, with its calls and their results.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyMessage {
    pub id: MessageId,
    pub time: Option<Timestamp>,
    pub parts: Vec<Part>,
    pub thoughts: Vec<(Thought, Option<Timestamp>)>,
    pub usage: Option<Box<Usage>>,
    pub model: Option<String>,
    /// The model that replied, if the file records more than Gemini.
    pub origin: Option<Arc<Origin>>,
    pub calls: Vec<StoredCall>,
    /// Fields this program does not know.
    pub extra: JsonObject,
}

/// A notice for the user.
#[derive(Debug, Clone, PartialEq)]
pub struct NoticeMessage {
    pub id: MessageId,
    pub time: Option<Timestamp>,
    pub severity: Severity,
    pub text: String,
    /// Set when this line marks a compression.
    pub compression: Option<Compression>,
    /// Fields this program does not know.
    pub extra: JsonObject,
}

/// From here on, the snapshot replaces everything before `keep_from` for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    pub keep_from: Option<MessageId>,
    pub snapshot: String,
}

/// One call of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCall {
    pub id: CallId,
    pub name: String,
    pub args: JsonObject,
    pub seal: Option<Seal>,
    pub status: StoredStatus,
    /// Whether the call was refused before it ran; its status is then an error.
    pub denied: bool,
    /// The response sent to the model; empty without a result.
    pub result: Vec<Part>,
    /// `resultDisplay` as written; see [`StoredCall::display`].
    pub result_display: Value,
    pub time: Option<Timestamp>,
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub markdown: bool,
    /// Fields this program does not know.
    pub extra: JsonObject,
}

impl UserMessage {
    /// Where it comes from.
    pub fn source(&self) -> own::UserSource {
        own::source(&self.extra)
    }
}

impl StoredCall {
    /// The displayed result; nothing for unknown formats.
    pub fn display(&self) -> Display {
        decode::display_from_json(&self.result_display)
    }
}

/// How far a call got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredStatus {
    /// Requested, but never finished in the record.
    Pending,
    Ended(CallStatus),
}

impl StoredStatus {
    /// Reads the status words of all releases; unknown words count as errors, as in upstream.
    pub fn from_word(word: &str) -> Self {
        match word {
            "success" | "complete" | "completed" => Self::Ended(CallStatus::Success),
            "cancelled" | "canceled" => Self::Ended(CallStatus::Cancelled),
            "pending" | "approved" | "validating" | "scheduled" | "executing" | "awaiting_approval" => {
                Self::Pending
            }
            _ => Self::Ended(CallStatus::Error),
        }
    }
}

impl Message {
    /// The message's id.
    pub fn id(&self) -> &str {
        match self {
            Self::User(message) => &message.id,
            Self::Reply(message) => &message.id,
            Self::Notice(message) => &message.id,
            Self::Other { id, .. } => id,
        }
    }

    /// Whether this message alone makes a session worth resuming.
    pub fn is_resumable(&self) -> bool {
        match self {
            Self::User(message) => user_text_kind(&message.parts) == UserText::Prompt,
            Self::Reply(message) => {
                !message.calls.is_empty()
                    || !message.thoughts.is_empty()
                    || message.parts.iter().any(|part| match &part.body {
                        Body::Text(text) | Body::Reasoning { text, .. } => !text.trim().is_empty(),
                        _ => true,
                    })
            }
            Self::Notice(_) | Self::Other { .. } => false,
        }
    }
}

/// The kind of a user message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserText {
    Blank,
    /// Written by the program: environment or hook context.
    Context,
    /// Looks like a command to the program, not to the model.
    Command,
    Prompt,
}

pub(crate) fn user_text_kind(parts: &[Part]) -> UserText {
    for part in parts {
        let Some(text) = part.spoken_text() else { return UserText::Prompt };
        match text_kind(text) {
            UserText::Blank => {}
            kind => return kind,
        }
    }
    UserText::Blank
}

pub(crate) fn text_kind(text: &str) -> UserText {
    let text = text.trim_start();
    if text.is_empty() {
        return UserText::Blank;
    }
    if text.starts_with("<session_context>") || text.starts_with("<hook_context>") {
        return UserText::Context;
    }
    if looks_like_command(text) { UserText::Command } else { UserText::Prompt }
}

/// `?…` and `/word …`. Unlike upstream, `/etc/hosts …` is a prompt: its first word has a second slash.
fn looks_like_command(text: &str) -> bool {
    if text.starts_with('?') {
        return true;
    }
    let first_word = text.split_whitespace().next().unwrap_or_default();
    first_word.strip_prefix('/').is_some_and(|rest| !rest.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_context_are_told_from_prompts() {
        let kind = |text: &str| user_text_kind(&[Part::text(text)]);
        assert_eq!(kind("  "), UserText::Blank);
        assert_eq!(kind("/help me"), UserText::Command);
        assert_eq!(kind("? keys"), UserText::Command);
        assert_eq!(kind("/etc/hosts: what is it?"), UserText::Prompt);
        assert_eq!(kind("\n<session_context>x</session_context>"), UserText::Context);
        assert_eq!(kind("<hook_context>x"), UserText::Context);
        assert_eq!(kind("hello"), UserText::Prompt);
    }

    #[test]
    fn every_status_word_of_every_release_is_understood() {
        let cases = [
            ("success", StoredStatus::Ended(CallStatus::Success)),
            ("complete", StoredStatus::Ended(CallStatus::Success)),
            ("error", StoredStatus::Ended(CallStatus::Error)),
            ("failed", StoredStatus::Ended(CallStatus::Error)),
            ("denied", StoredStatus::Ended(CallStatus::Error)),
            ("cancelled", StoredStatus::Ended(CallStatus::Cancelled)),
            ("pending", StoredStatus::Pending),
            ("approved", StoredStatus::Pending),
            ("validating", StoredStatus::Pending),
            ("scheduled", StoredStatus::Pending),
            ("executing", StoredStatus::Pending),
            ("awaiting_approval", StoredStatus::Pending),
            ("from-the-future", StoredStatus::Ended(CallStatus::Error)),
        ];
        for (word, status) in cases {
            assert_eq!(StoredStatus::from_word(word), status, "{word}");
        }
    }
}
