//! Parses sessions, messages and parts: the same JSON in files and in the database.

use std::borrow::Cow;
use std::path::PathBuf;

use pollux_domain::event::CallStatus;
use pollux_domain::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::arguments;
use crate::json::{self, Field};
use crate::session::{Args, Facts, RecordKind, RecordSink};

#[derive(Deserialize)]
struct Session<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    title: Field<'a>,
    #[serde(borrow)]
    directory: Field<'a>,
    #[serde(rename = "parentID", borrow)]
    parent: Field<'a>,
    #[serde(borrow)]
    time: Field<'a>,
    #[serde(borrow)]
    revert: Field<'a>,
}

#[derive(Deserialize)]
struct Times<'a> {
    #[serde(borrow)]
    created: Field<'a>,
    #[serde(borrow)]
    updated: Field<'a>,
}

#[derive(Deserialize)]
struct Revert<'a> {
    #[serde(rename = "messageID", borrow)]
    message: Field<'a>,
}

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    role: Field<'a>,
    #[serde(borrow)]
    time: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
    #[serde(borrow)]
    path: Field<'a>,
    #[serde(rename = "modelID", borrow)]
    model: Field<'a>,
    /// The first releases kept everything in the message.
    #[serde(borrow)]
    parts: Field<'a>,
    #[serde(borrow)]
    metadata: Field<'a>,
    // The newest form.
    #[serde(borrow)]
    text: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    command: Field<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    time: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
}

#[derive(Deserialize)]
struct Places<'a> {
    #[serde(borrow)]
    cwd: Field<'a>,
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow)]
    name: Field<'a>,
    #[serde(borrow)]
    message: Field<'a>,
    #[serde(borrow)]
    data: Field<'a>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(rename = "type", borrow)]
    kind: Field<'a>,
    #[serde(borrow)]
    text: Field<'a>,
    #[serde(borrow)]
    synthetic: Field<'a>,
    #[serde(borrow)]
    ignored: Field<'a>,
    #[serde(rename = "callID", borrow)]
    call: Field<'a>,
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    tool: Field<'a>,
    #[serde(borrow)]
    name: Field<'a>,
    #[serde(borrow)]
    state: Field<'a>,
    #[serde(rename = "toolInvocation", borrow)]
    invocation: Field<'a>,
}

#[derive(Deserialize)]
struct State<'a> {
    #[serde(borrow)]
    status: Field<'a>,
    #[serde(borrow)]
    input: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation<'a> {
    #[serde(borrow)]
    state: Field<'a>,
    #[serde(borrow)]
    tool_call_id: Field<'a>,
    #[serde(borrow)]
    tool_name: Field<'a>,
    #[serde(borrow)]
    args: Field<'a>,
}

/// The speaker of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Agent,
}

/// The facts in a session's JSON, and the message from which on the user took everything back.
pub(super) fn facts(text: &str) -> Option<(Facts, Option<String>)> {
    let session: Session<'_> = serde_json::from_str(text).ok()?;
    let times: Option<Times<'_>> = json::parse(session.time);
    let parent: Option<String> = json::text(session.parent).map(Into::into);
    let facts = Facts {
        id: json::text(session.id).map(Into::into),
        project: json::text(session.directory)
            .filter(|path| !path.is_empty())
            .map(|path| PathBuf::from(&*path)),
        title: json::text(session.title).map(Into::into),
        start: times.as_ref().and_then(|times| json::millis(times.created)),
        updated: times.as_ref().and_then(|times| json::millis(times.updated)),
        is_subagent: parent.is_some(),
        parent,
    };
    Some((facts, reverted_from(session.revert)))
}

/// The message named in the `revert` of a session.
pub(super) fn reverted_from(revert: Field<'_>) -> Option<String> {
    json::parse::<Revert<'_>>(revert).and_then(|revert| json::text(revert.message).map(Cow::into_owned))
}

impl<'a> Message<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn speaker(&self) -> Option<Speaker> {
        match json::text(self.role).as_deref() {
            Some("user") => Some(Speaker::User),
            Some("assistant") => Some(Speaker::Agent),
            _ => None,
        }
    }

    pub(super) fn time(&self) -> Option<Timestamp> {
        let created = |time| json::parse::<Times<'_>>(time).and_then(|times| json::millis(times.created));
        created(self.time).or_else(|| created(json::parse::<Metadata<'_>>(self.metadata)?.time))
    }

    /// The folder the message was written in.
    pub(super) fn project(&self) -> Option<PathBuf> {
        let places: Places<'_> = json::parse(self.path)?;
        json::text(places.cwd).filter(|cwd| !cwd.is_empty()).map(|cwd| PathBuf::from(&*cwd))
    }

    /// Reports the content of the message itself: its model, its error, and parts in the first releases.
    pub(super) fn record(&self, speaker: Speaker, sink: &mut RecordSink<'_>) {
        if let Some(model) = json::text(self.model) {
            sink.record(RecordKind::Model(&model));
        }
        for raw in json::items(self.parts) {
            record_part(raw.get(), speaker, sink);
        }
        let old_error = || json::parse::<Metadata<'_>>(self.metadata)?.error;
        if let Some(text) = self.error.or_else(old_error).and_then(|error| error_text(Some(error))) {
            sink.record(RecordKind::Error(&text));
        }
    }

    /// Reports a message in the newest format, whose kind is stored separately.
    pub(super) fn record_as(&self, kind: &str, sink: &mut RecordSink<'_>) {
        match kind {
            "user" => say(Speaker::User, &json::text(self.text).unwrap_or_default(), sink),
            "assistant" => {
                for raw in json::items(self.content) {
                    record_part(raw.get(), Speaker::Agent, sink);
                }
                if let Some(text) = error_text(self.error) {
                    sink.record(RecordKind::Error(&text));
                }
            }
            "shell" => {
                let command = json::text(self.command).unwrap_or_default();
                let call = sink.id.to_owned();
                sink.record(RecordKind::Call { call: &call, name: "shell", args: Args::Text(&command) });
                sink.record(RecordKind::CallEnded { call: &call, status: CallStatus::Success, error: None });
            }
            _ => {}
        }
    }
}

/// Reports one part of a message.
pub(super) fn record_part(text: &str, speaker: Speaker, sink: &mut RecordSink<'_>) {
    let Ok(part) = serde_json::from_str::<Part<'_>>(text) else { return };
    match json::text(part.kind).as_deref() {
        Some("text") if !json::is_true(part.synthetic) && !json::is_true(part.ignored) => {
            say(speaker, &json::text(part.text).unwrap_or_default(), sink);
        }
        Some("tool") => {
            let Some(state) = json::parse::<State<'_>>(part.state) else { return };
            let call = json::text(part.call).or_else(|| json::text(part.id)).unwrap_or_default();
            let name = json::text(part.tool).or_else(|| json::text(part.name)).unwrap_or_default();
            tell_call(sink, &call, &name, state.input);
            match json::text(state.status).as_deref() {
                Some("completed") => {
                    sink.record(RecordKind::CallEnded {
                        call: &call,
                        status: CallStatus::Success,
                        error: None,
                    });
                }
                Some("error") => {
                    let text = error_text(state.error).unwrap_or_default();
                    let is_aborted = text.to_ascii_lowercase().contains("aborted");
                    let status = if is_aborted { CallStatus::Cancelled } else { CallStatus::Error };
                    sink.record(RecordKind::CallEnded { call: &call, status, error: Some(text) });
                }
                _ => {}
            }
        }
        Some("tool-invocation") => {
            let Some(invocation) = json::parse::<Invocation<'_>>(part.invocation) else { return };
            let call = json::text(invocation.tool_call_id).unwrap_or_default();
            tell_call(sink, &call, &json::text(invocation.tool_name).unwrap_or_default(), invocation.args);
            if json::text(invocation.state).as_deref() == Some("result") {
                sink.record(RecordKind::CallEnded { call: &call, status: CallStatus::Success, error: None });
            }
        }
        _ => {}
    }
}

fn tell_call(sink: &mut RecordSink<'_>, call: &str, name: &str, input: Field<'_>) {
    match json::parse::<Map<String, Value>>(input) {
        Some(args) => sink.record(RecordKind::Call { call, name, args: Args::Object(&args) }),
        None => {
            let text = json::text(input).unwrap_or_default();
            sink.record(RecordKind::Call { call, name, args: Args::Text(&text) });
        }
    }
}

fn say(speaker: Speaker, text: &str, sink: &mut RecordSink<'_>) {
    let text = text.trim();
    match speaker {
        _ if text.is_empty() => {}
        Speaker::User => sink.record(RecordKind::User(text)),
        Speaker::Agent => sink.record(RecordKind::Agent(text)),
    }
}

/// An error is a text, or an object with a message somewhere, or at least a name.
fn error_text(error: Field<'_>) -> Option<String> {
    if let Some(text) = json::text(error) {
        return Some(arguments::first_chars(&text));
    }
    let failure: Failure<'_> = json::parse(error)?;
    let nested = || json::text(json::parse::<Failure<'_>>(failure.data)?.message);
    let text = json::text(failure.message).or_else(nested).or_else(|| json::text(failure.name))?;
    Some(arguments::first_chars(&text))
}
