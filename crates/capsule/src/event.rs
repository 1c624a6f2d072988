//! The events of a session, as its file tells them.

use pollux_domain::JsonObject;
use pollux_domain::content::{Body, FunctionResponse, Part};
use pollux_domain::event::{CallStatus, Severity, Thought};
use pollux_domain::model::Usage;
use pollux_domain::time::Timestamp;
use pollux_domain::tool::DECLINED;
use pollux_domain::untrusted::sealed_result;
use pollux_session::{
    Message, ReplyMessage, StoredCall, StoredSession, StoredStatus, UserMessage, UserSource,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::concealment::Concealment;

/// The model of a reply that does not say.
const UNKNOWN_MODEL: &str = "unknown";

/// An event of a recorded session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// Counted from 1, through all sessions of a capsule.
    pub number: usize,
    /// Milliseconds since the session began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<i64>,
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// The user began a turn.
    Prompt { text: String },
    /// The user, or a hook, said something to a running turn.
    Steer { text: String },
    /// The program told the model something.
    Note { text: String },
    /// The model replied. Its calls follow.
    Reply {
        model: String,
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        thoughts: Vec<RecordedThought>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<Tokens>,
    },
    /// A call of the last reply.
    Call { tool: String, args: JsonObject, result: CallEnd },
    /// The user was told something.
    Notice { severity: String, compressed: bool, text: String },
    /// A message of a kind that this version does not know.
    Other,
}

/// A piece of the model's reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedThought {
    pub subject: String,
    pub description: String,
}

/// How a call ended, with what the model was told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnd {
    pub status: RecordedStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why a person declined it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
}

/// How far a call got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedStatus {
    Success,
    Error,
    Cancelled,
    /// The record ends before the call did.
    #[default]
    Pending,
}

/// The tokens of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    pub thoughts: u64,
    pub tool: u64,
    pub total: u64,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cached: usage.cached,
            thoughts: usage.reasoning,
            tool: usage.tool_input,
            total: usage.total,
        }
    }
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input: tokens.input,
            output: tokens.output,
            cached: tokens.cached,
            reasoning: tokens.thoughts,
            tool_input: tokens.tool,
            total: tokens.total,
            ..Self::default()
        }
    }
}

impl RecordedThought {
    fn of(thought: &Thought, concealment: &Concealment) -> Self {
        // Stars mark the subject where both are one text.
        let subject = concealment.text(&thought.subject).replace('*', "");
        let description = concealment.text(&thought.description).replace("**", "");
        Self { subject: subject.trim().to_owned(), description: description.trim().to_owned() }
    }

    /// The text that a model sends, which reads back as the same thought.
    pub(crate) fn sent(&self) -> String {
        match self.subject.as_str() {
            "" => self.description.clone(),
            subject => format!("**{subject}** {}", self.description),
        }
    }
}

/// The events of a session; `first` is the number of the first one.
pub fn events_of(session: &StoredSession, concealment: &Concealment, first: usize) -> Vec<RecordedEvent> {
    let mut events = Vec::new();
    for message in &session.messages {
        let (kinds, time) = match message {
            Message::User(user) => (vec![said(user, concealment)], user.time),
            Message::Reply(reply) => (replied(reply, concealment), reply.time),
            Message::Notice(notice) => {
                let severity = match notice.severity {
                    Severity::Info => "info",
                    Severity::Warning => "warning",
                    Severity::Error => "error",
                };
                let text = concealment.text(&notice.text);
                let compressed = notice.compression.is_some();
                (vec![EventKind::Notice { severity: severity.to_owned(), compressed, text }], notice.time)
            }
            Message::Other { .. } => (vec![EventKind::Other], None),
        };
        let after_ms = time.map(|time: Timestamp| time.millis().saturating_sub(session.start.millis()));
        for kind in kinds {
            events.push(RecordedEvent { number: first.saturating_add(events.len()), after_ms, kind });
        }
    }
    events
}

fn said(user: &UserMessage, concealment: &Concealment) -> EventKind {
    let text = concealment.text(&flat(&user.parts));
    match user.source() {
        UserSource::Prompt => EventKind::Prompt { text },
        UserSource::DuringTurn => EventKind::Steer { text },
        UserSource::Program => EventKind::Note { text },
    }
}

fn replied(reply: &ReplyMessage, concealment: &Concealment) -> Vec<EventKind> {
    let thoughts = reply.thoughts.iter().map(|(thought, _)| RecordedThought::of(thought, concealment));
    let mut kinds = vec![EventKind::Reply {
        model: concealment.name(reply.model.as_deref().unwrap_or(UNKNOWN_MODEL)),
        text: concealment.text(&flat(&reply.parts)),
        thoughts: thoughts.filter(|thought| !thought.sent().is_empty()).collect(),
        tokens: reply.usage.as_deref().copied().map(Tokens::from),
    }];
    kinds.extend(reply.calls.iter().map(|call| EventKind::Call {
        tool: concealment.name(&call.name),
        args: concealment.arguments(&call.args),
        result: ended(call, concealment),
    }));
    if reply.calls.is_empty() {
        // Some releases list calls only among the parts.
        kinds.extend(reply.parts.iter().filter_map(Part::as_call).map(|call| EventKind::Call {
            tool: concealment.name(&call.name),
            args: concealment.arguments(&call.args),
            result: CallEnd::default(),
        }));
    }
    kinds
}

fn ended(call: &StoredCall, concealment: &Concealment) -> CallEnd {
    let status = match call.status {
        StoredStatus::Pending => return CallEnd::default(),
        StoredStatus::Ended(status) => status,
    };
    let told = Told::by(&call.result);
    let hidden = |text: String| concealment.text(&text);
    match status {
        CallStatus::Success => {
            let output = told.output.or(told.error).unwrap_or_default();
            CallEnd { status: RecordedStatus::Success, output: Some(hidden(output)), ..CallEnd::default() }
        }
        CallStatus::Error => match (told.error, told.output) {
            (None, Some(output)) => {
                CallEnd { status: RecordedStatus::Error, output: Some(hidden(output)), ..CallEnd::default() }
            }
            (error, _) => {
                let error = Some(hidden(error.unwrap_or_default()));
                CallEnd { status: RecordedStatus::Error, error, ..CallEnd::default() }
            }
        },
        CallStatus::Cancelled => {
            let declined = told.error.as_deref().and_then(|error| error.strip_prefix(DECLINED));
            let declined = declined.map(|reason| concealment.text(reason));
            // What was declined did not run.
            let output = told.output.filter(|_| declined.is_none()).map(hidden);
            CallEnd { status: RecordedStatus::Cancelled, output, error: None, declined }
        }
    }
}

/// What the model was told about a call.
#[derive(Debug, Default)]
struct Told {
    output: Option<String>,
    error: Option<String>,
}

impl Told {
    fn by(result: &[Part]) -> Self {
        let mut told = Self::default();
        let mut media = String::new();
        for part in result {
            match &part.body {
                Body::Response(response) => {
                    told.add(response);
                    media.push_str(&flat(&response.parts));
                }
                _ => media.push_str(&flat(std::slice::from_ref(part))),
            }
        }
        if !media.is_empty() {
            told.output.get_or_insert_default().push_str(&media);
        }
        if let Some(output) = &mut told.output {
            *output = sealed_result(output).into_owned();
        }
        told
    }

    fn add(&mut self, response: &FunctionResponse) {
        let fields = &response.response;
        self.output = fields.get("output").map(shown);
        self.error = fields.get("error").map(shown);
        if self.output.is_none() && self.error.is_none() && !fields.is_empty() {
            self.output = Some(Value::Object(JsonObject::clone(fields)).to_string());
        }
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Texts as they are, media as their type and size.
fn flat(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        match &part.body {
            Body::Text(said) => text.push_str(said),
            Body::InlineData(blob) => {
                text.push_str(&format!("[{}, {} bytes]", blob.mime_type, blob.data_base64.len() / 4 * 3));
            }
            Body::FileData { mime_type, .. } => text.push_str(&format!("[{mime_type}]")),
            Body::Other(_) => text.push_str("[unknown]"),
            Body::Reasoning { .. } | Body::Call(_) | Body::Response(_) => {}
        }
    }
    text
}
