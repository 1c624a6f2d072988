//! The conversation of a foreign session, and its conversion to a session that can be continued here.

use std::collections::HashMap;

use pollux_domain::JsonObject;
use pollux_domain::content::Part;
use pollux_domain::event::CallStatus;
use pollux_domain::time::Timestamp;
use pollux_session::{Message, ReplyMessage, StoredStatus, UserMessage};

use crate::session::{Record, RecordKind};

/// One message or tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignMessage {
    pub id: String,
    pub time: Option<Timestamp>,
    pub body: ForeignBody,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ForeignBody {
    User(String),
    Agent(String),
    Call(ForeignCall),
    Error(String),
}

/// A tool call without its output.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignCall {
    pub name: String,
    /// The telling arguments on one line.
    pub args: String,
    pub status: StoredStatus,
    /// Why it failed, cut.
    pub error: Option<String>,
}

/// Joins the ends of calls with their starts.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    messages: Vec<ForeignMessage>,
    calls: HashMap<String, usize>,
}

impl Conversation {
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        let body = match &record.what {
            RecordKind::User(text) => ForeignBody::User((*text).to_owned()),
            RecordKind::Agent(text) => ForeignBody::Agent((*text).to_owned()),
            RecordKind::Error(text) => ForeignBody::Error((*text).to_owned()),
            RecordKind::Call { call, name, args } => {
                self.calls.insert((*call).to_owned(), self.messages.len());
                let args = args.summary();
                let status = StoredStatus::Pending;
                ForeignBody::Call(ForeignCall { name: (*name).to_owned(), args, status, error: None })
            }
            RecordKind::CallEnded { call, status, error } => {
                self.end_call(call, *status, error.as_deref());
                return;
            }
            RecordKind::TurnsDropped(turns) => {
                self.drop_turns(*turns);
                return;
            }
            RecordKind::Model(_) => return,
        };
        self.messages.push(ForeignMessage { id: record.id.to_owned(), time: record.time, body });
    }

    pub(crate) fn finish(self) -> Vec<ForeignMessage> {
        self.messages
    }

    fn end_call(&mut self, call: &str, status: CallStatus, error: Option<&str>) {
        let Some(message) = self.calls.get(call).and_then(|place| self.messages.get_mut(*place)) else {
            return;
        };
        if let ForeignBody::Call(call) = &mut message.body {
            call.status = StoredStatus::Ended(status);
            call.error = error.map(str::to_owned);
        }
    }

    fn drop_turns(&mut self, turns: usize) {
        for _ in 0..turns {
            let is_user = |message: &ForeignMessage| matches!(message.body, ForeignBody::User(_));
            let Some(place) = self.messages.iter().rposition(is_user) else { break };
            self.messages.truncate(place);
        }
        let length = self.messages.len();
        self.calls.retain(|_, place| *place < length);
    }
}

/// The conversation as messages of our own session format. Calls become text notes of the model: their
/// outputs, signatures and tools belong to another agent and cannot be reused.
pub fn to_messages(conversation: &[ForeignMessage]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for message in conversation {
        match &message.body {
            ForeignBody::User(text) => messages.push(Message::User(UserMessage {
                id: message.id.clone(),
                time: message.time,
                parts: vec![Part::text(text)],
                typed: None,
                extra: JsonObject::new(),
            })),
            ForeignBody::Agent(text) => add_to_reply(&mut messages, message, text.clone()),
            ForeignBody::Call(call) => add_to_reply(&mut messages, message, note(call)),
            // Whatever went wrong there does not concern the model here.
            ForeignBody::Error(_) => {}
        }
    }
    distinct_ids(&mut messages);
    messages
}

/// `[tool Bash: cargo test; failed: …]`
fn note(call: &ForeignCall) -> String {
    let args = if call.args.is_empty() { String::new() } else { format!(": {}", call.args) };
    let end = match (call.status, call.error.as_deref()) {
        (StoredStatus::Ended(CallStatus::Success), _) => String::new(),
        (StoredStatus::Ended(CallStatus::Error), Some(error)) => format!("; failed: {error}"),
        (StoredStatus::Ended(CallStatus::Error), None) => "; failed".to_owned(),
        (StoredStatus::Ended(CallStatus::Cancelled), _) => "; cancelled".to_owned(),
        (StoredStatus::Pending, _) => "; unfinished".to_owned(),
    };
    format!("[tool {}{args}{end}]", call.name)
}

/// Everything between two prompts is one reply, so that roles alternate.
fn add_to_reply(messages: &mut Vec<Message>, from: &ForeignMessage, text: String) {
    if let Some(Message::Reply(reply)) = messages.last_mut() {
        reply.parts.push(Part::text(format!("\n\n{text}")));
        return;
    }
    messages.push(Message::Reply(ReplyMessage {
        id: from.id.clone(),
        time: from.time,
        parts: vec![Part::text(text)],
        thoughts: Vec::new(),
        usage: None,
        model: None,
        origin: None,
        calls: Vec::new(),
        extra: JsonObject::new(),
    }));
}

/// In our sessions, a repeated id replaces the message.
fn distinct_ids(messages: &mut [Message]) {
    let mut seen = std::collections::HashSet::new();
    for (index, message) in messages.iter_mut().enumerate() {
        let (Message::User(UserMessage { id, .. }) | Message::Reply(ReplyMessage { id, .. })) = message
        else {
            continue;
        };
        if id.is_empty() || !seen.insert(id.clone()) {
            *id = format!("{id}-{index}");
            seen.insert(id.clone());
        }
    }
}
