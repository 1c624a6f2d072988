//! The listed facts of a foreign session, counted while its records are read.

use std::path::PathBuf;

use pollux_domain::event::CallStatus;
use pollux_domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::arguments;
use crate::entry::ForeignAgent;

/// Longer titles and first texts are cut.
const MAX_LINE_CHARS: usize = 1000;
/// Limit of models per session.
const MAX_MODELS: usize = 16;

/// One session of another agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignSession {
    pub agent: ForeignAgent,
    pub id: String,
    /// The file or database it is in.
    pub path: PathBuf,
    /// The folder it was held in.
    pub project: Option<PathBuf>,
    /// The title given by the agent or the user.
    pub title: Option<String>,
    /// One line; may be empty.
    pub first_user: String,
    pub last_user: String,
    pub start: Timestamp,
    pub updated: Timestamp,
    pub user_messages: u64,
    /// Texts of both sides and calls.
    pub messages: u64,
    pub tool_calls: u64,
    /// Failed calls and errors shown to the user.
    pub errors: u64,
    pub models: Vec<String>,
    /// The session that started this one, if a sub-agent held it.
    pub parent: Option<String>,
    pub is_subagent: bool,
}

/// The origin of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignTextKind {
    User,
    Agent,
    /// A call's name and telling arguments.
    Tool,
    Error,
}

/// One thing in a store, in the order of the store.
pub(crate) struct Record<'a> {
    pub(crate) id: &'a str,
    pub(crate) time: Option<Timestamp>,
    pub(crate) what: RecordKind<'a>,
}

/// Reports the items of one record.
pub(crate) struct RecordSink<'a> {
    pub(crate) id: &'a str,
    pub(crate) time: Option<Timestamp>,
    pub(crate) visit: &'a mut dyn FnMut(&Record<'_>),
}

impl RecordSink<'_> {
    pub(crate) fn record(&mut self, what: RecordKind<'_>) {
        (self.visit)(&Record { id: self.id, time: self.time, what });
    }
}

pub(crate) enum RecordKind<'a> {
    User(&'a str),
    Agent(&'a str),
    Call {
        call: &'a str,
        name: &'a str,
        args: Args<'a>,
    },
    CallEnded {
        call: &'a str,
        status: CallStatus,
        error: Option<String>,
    },
    Error(&'a str),
    Model(&'a str),
    /// The last turns were rolled back.
    TurnsDropped(usize),
}

pub(crate) enum Args<'a> {
    Object(&'a Map<String, Value>),
    Text(&'a str),
}

impl Args<'_> {
    pub(crate) fn summary(&self) -> String {
        match self {
            Self::Object(object) => arguments::summary(object),
            Self::Text(text) => arguments::short(text),
        }
    }
}

/// Facts that a store has about a session next tos its records.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) id: Option<String>,
    pub(crate) project: Option<PathBuf>,
    pub(crate) title: Option<String>,
    pub(crate) start: Option<Timestamp>,
    pub(crate) updated: Option<Timestamp>,
    pub(crate) parent: Option<String>,
    pub(crate) is_subagent: bool,
}

/// Counts the records of one session.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    first_user: String,
    last_user: String,
    first_time: Option<Timestamp>,
    last_time: Option<Timestamp>,
    user_messages: u64,
    messages: u64,
    tool_calls: u64,
    errors: u64,
    models: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        if let Some(time) = record.time {
            self.first_time.get_or_insert(time);
            self.last_time = self.last_time.max(Some(time));
        }
        match &record.what {
            RecordKind::User(text) => {
                self.messages += 1;
                self.user_messages += 1;
                let line = title_line(text);
                if self.first_user.is_empty() {
                    self.first_user.clone_from(&line);
                }
                self.last_user = line;
            }
            RecordKind::Agent(_) => self.messages += 1,
            RecordKind::Call { .. } => {
                self.messages += 1;
                self.tool_calls += 1;
            }
            RecordKind::CallEnded { status: CallStatus::Error, .. } | RecordKind::Error(_) => {
                self.errors += 1
            }
            RecordKind::CallEnded { .. } | RecordKind::TurnsDropped(_) => {}
            RecordKind::Model(model) => {
                if self.models.len() < MAX_MODELS && !self.models.iter().any(|known| known == model) {
                    self.models.push((*model).to_owned());
                }
            }
        }
    }

    /// Whether the session has no messages and calls.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    pub(crate) fn finish(
        self,
        agent: ForeignAgent,
        path: PathBuf,
        facts: Facts,
        modified: Timestamp,
    ) -> ForeignSession {
        let start = facts.start.or(self.first_time).unwrap_or(modified);
        let fallback_id = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        ForeignSession {
            agent,
            id: facts.id.or_else(fallback_id).unwrap_or_default(),
            project: facts.project,
            title: facts.title.as_deref().map(title_line).filter(|title| !title.is_empty()),
            first_user: self.first_user,
            last_user: self.last_user,
            start,
            updated: self.last_time.max(facts.updated).unwrap_or(modified).max(start),
            user_messages: self.user_messages,
            messages: self.messages,
            tool_calls: self.tool_calls,
            errors: self.errors,
            models: self.models,
            parent: facts.parent,
            is_subagent: facts.is_subagent,
            path,
        }
    }
}

/// The words of a text on one line, without control characters.
fn title_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MAX_LINE_CHARS {
            return line.chars().take(MAX_LINE_CHARS).collect();
        }
    }
    line
}
