//! The earlier messages of a session, for display.

use std::path::Path;

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, Part};
use pollux_domain::event::{CallStatus, Severity, Thought};
use pollux_domain::id::CallId;
use pollux_domain::tool::Display;
use pollux_session::{Message, StoredCall, StoredStatus, load};
use serde_json::Value;

use super::Chosen;

/// A message or a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryItem {
    Prompt(String),
    Answer(String),
    /// A tool call: tool, subject and success. If its result was never recorded, a note says so.
    Call {
        name: String,
        about: String,
        went_well: bool,
        interrupted: bool,
    },
    Note(Severity, String),
}

/// A message of an earlier run with everything that was recorded about it. `message` is its record.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordedItem {
    Prompt { message: String, text: String },
    Thought { message: String, thought: Thought },
    Answer { message: String, text: String },
    Call(Box<RecordedCall>),
    Notice(Severity, String),
}

/// A tool call of an earlier run.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCall {
    pub call: CallId,
    pub name: String,
    pub args: JsonObject,
    pub display_name: Option<String>,
    /// What it was about, for people.
    pub description: Option<String>,
    /// `None` if it never finished.
    pub status: Option<CallStatus>,
    pub display: Display,
    /// What the model read as the result.
    pub answer: String,
}

impl Chosen {
    /// Every recorded message and call, oldest first. Available until the session is resumed.
    pub fn recorded(&self) -> Vec<RecordedItem> {
        let Some(stored) = self.stored.take() else { return Vec::new() };
        let items = recorded_items(&stored.messages);
        self.stored.set(Some(stored));
        items
    }

    /// The last messages and calls, at most `most`, and the number of earlier ones. Available until the session
    /// is resumed.
    pub fn said(&self, most: usize) -> (Vec<HistoryItem>, usize) {
        let Some(stored) = self.stored.take() else { return (Vec::new(), 0) };
        let said = last_of(&stored.messages, most);
        self.stored.set(Some(stored));
        said
    }
}

/// The same of the session in a file; nothing if it cannot be read.
pub fn said_in(file: &Path, most: usize) -> (Vec<HistoryItem>, usize) {
    load(file).map(|stored| last_of(&stored.messages, most)).unwrap_or_default()
}

pub(crate) fn last_of(messages: &[Message], most: usize) -> (Vec<HistoryItem>, usize) {
    let next = messages.iter().skip(1).map(Some).chain([None]);
    let mut said: Vec<HistoryItem> =
        messages.iter().zip(next).flat_map(|(message, next)| shown(message, next)).collect();
    let above = said.len().saturating_sub(most);
    (said.split_off(above), above)
}

/// What is shown of a message. gemini-cli records the results of calls in the `next` one as well.
fn shown(message: &Message, next: Option<&Message>) -> Vec<HistoryItem> {
    match message {
        Message::User(user) => {
            let text = user.typed.clone().unwrap_or_else(|| text(&user.parts));
            // Text added by the program is not a prompt.
            let own = text.starts_with("<session_context>") || text.trim().is_empty();
            if own { Vec::new() } else { vec![HistoryItem::Prompt(text)] }
        }
        Message::Reply(reply) => {
            let text = text(&reply.parts);
            let answer = (!text.trim().is_empty()).then_some(HistoryItem::Answer(text));
            let interrupted = |call: &&StoredCall| is_interrupted(call, next);
            let note = interruption(reply.calls.iter().filter(interrupted).count());
            let calls = reply.calls.iter().map(|stored| call(stored, is_interrupted(stored, next)));
            answer.into_iter().chain(calls).chain(note).collect()
        }
        Message::Notice(notice) => vec![HistoryItem::Note(notice.severity, notice.text.clone())],
        Message::Other { .. } => Vec::new(),
    }
}

/// Every message and call, oldest first.
pub(crate) fn recorded_items(messages: &[Message]) -> Vec<RecordedItem> {
    messages.iter().flat_map(recorded).collect()
}

fn recorded(message: &Message) -> Vec<RecordedItem> {
    match message {
        Message::User(user) => {
            let prompts = shown(message, None).into_iter().filter_map(|item| match item {
                HistoryItem::Prompt(text) => Some(text),
                _ => None,
            });
            prompts.map(|text| RecordedItem::Prompt { message: user.id.clone(), text }).collect()
        }
        Message::Reply(reply) => {
            let message = reply.id.clone();
            let thoughts = reply.thoughts.iter().map(|(thought, _)| RecordedItem::Thought {
                message: message.clone(),
                thought: thought.clone(),
            });
            let text = text(&reply.parts);
            let answer =
                (!text.trim().is_empty()).then(|| RecordedItem::Answer { message: message.clone(), text });
            let calls = reply.calls.iter().map(|call| RecordedItem::Call(Box::new(recorded_call(call))));
            thoughts.chain(answer).chain(calls).collect()
        }
        Message::Notice(notice) => vec![RecordedItem::Notice(notice.severity, notice.text.clone())],
        Message::Other { .. } => Vec::new(),
    }
}

fn recorded_call(call: &StoredCall) -> RecordedCall {
    let answers = call.result.iter().filter_map(|part| match &part.body {
        Body::Response(response) => {
            ["output", "error"].iter().find_map(|key| response.response.get(*key)?.as_str())
        }
        _ => None,
    });
    RecordedCall {
        call: call.id.clone(),
        name: call.name.clone(),
        args: call.args.clone(),
        display_name: call.display_name.clone(),
        description: call.description.clone().filter(|about| !about.is_empty()),
        status: match call.status {
            StoredStatus::Ended(status) => Some(status),
            StoredStatus::Pending => None,
        },
        display: call.display(),
        answer: answers.collect(),
    }
}

fn text(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::spoken_text).collect()
}

/// Whether the program ended before the result of a call was recorded.
fn is_interrupted(call: &StoredCall, next: Option<&Message>) -> bool {
    let answers = |part: &Part| match &part.body {
        Body::Response(response) => response.id.as_deref().is_none_or(|id| id == call.id.as_str()),
        _ => false,
    };
    let is_answered = match next {
        Some(Message::User(user)) => user.parts.iter().any(answers),
        _ => false,
    };
    call.status == StoredStatus::Pending && call.result.is_empty() && !is_answered
}

/// The note about calls without a recorded result. The model is told the same when the session is resumed.
fn interruption(calls: usize) -> Option<HistoryItem> {
    let text = match calls {
        0 => return None,
        1 => "A tool call was interrupted before its result was recorded. It may or may not have taken effect. \
              The model will be told with your next prompt."
            .to_owned(),
        _ => format!(
            "{calls} tool calls were interrupted before their results were recorded. They may or may not have \
             taken effect. The model will be told with your next prompt."
        ),
    };
    Some(HistoryItem::Note(Severity::Warning, text))
}

fn call(call: &StoredCall, interrupted: bool) -> HistoryItem {
    let first = || call.args.values().find_map(Value::as_str).unwrap_or_default().to_owned();
    HistoryItem::Call {
        name: call.display_name.clone().unwrap_or_else(|| call.name.clone()),
        about: call.description.clone().filter(|about| !about.is_empty()).unwrap_or_else(first),
        went_well: call.status == StoredStatus::Ended(CallStatus::Success),
        interrupted,
    }
}
