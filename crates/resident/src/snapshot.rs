//! What a front end gets before the first event.

use std::path::Path;

use pollux_domain::event::{Event, Severity};
use pollux_host::hub::{Joined, Snapshot as State};
use pollux_host::{HistoryItem, stored_history};
use serde_json::Value;

use crate::wire::{HistoryEntry, Snapshot};

/// Earlier messages that are shown unless a front end asks for another number.
pub(crate) const SHOWN: usize = 50;

/// The snapshot for a front end that joins.
pub(crate) fn snapshot(joined: &Joined, file: Option<&Path>, most: usize) -> Snapshot {
    // A file that cannot be read now costs the front end its history, not the session.
    let stored = file.map(|file| stored_history(file, joined.prompt.as_deref(), most));
    let (history, above) = stored.and_then(Result::ok).unwrap_or_default();
    let mut state = standing(&joined.now);
    if joined.fronts.len() > 1 {
        state.push(Event::FrontsChanged(joined.fronts.clone()));
    }
    if !joined.is_complete {
        state.extend(running(&joined.now));
    }
    Snapshot {
        history: history.into_iter().map(HistoryEntry::from).collect(),
        above,
        state: state.iter().map(Event::to_json).collect(),
        complete: joined.is_complete,
    }
}

/// The state of the session apart from its running turn.
fn standing(now: &State) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(mode) = now.mode {
        events.push(Event::ModeChanged { mode, by: None });
    }
    if !now.model.is_empty() {
        events.push(Event::ModelChanged(now.model.clone()));
    }
    events.extend(now.title.clone().map(Event::Titled));
    if !now.waiting.is_empty() {
        events.push(Event::QueueChanged(now.waiting.clone()));
    }
    events
}

/// The turn that runs, as far as it is known without its first events.
fn running(now: &State) -> Vec<Event> {
    let mut events: Vec<Event> = now.calls.iter().cloned().map(Event::CallRequested).collect();
    if !now.answer.is_empty() {
        events.push(Event::Text(now.answer.clone()));
    }
    events.extend(now.questions.iter().cloned().map(Event::ApprovalWanted));
    events
}

/// An event for the wire. What was sent to the model is left out: it is the whole conversation, each time.
pub(crate) fn to_wire(event: &Event) -> Value {
    let mut json = event.to_json();
    if let Event::RequestSent(_) = event
        && let Some(contents) = json.pointer_mut("/value/contents")
    {
        *contents = Value::Array(Vec::new());
    }
    json
}

impl From<HistoryItem> for HistoryEntry {
    fn from(item: HistoryItem) -> Self {
        match item {
            HistoryItem::Prompt(text) => Self::Prompt { text },
            HistoryItem::Answer(text) => Self::Answer { text },
            HistoryItem::Call { name, about, went_well, interrupted } => {
                Self::Call { name, about, went_well, interrupted }
            }
            HistoryItem::Note(severity, text) => {
                let severity = match severity {
                    Severity::Info => "info",
                    Severity::Warning => "warning",
                    Severity::Error => "error",
                };
                Self::Note { severity: severity.to_owned(), text }
            }
        }
    }
}

impl From<HistoryEntry> for HistoryItem {
    fn from(entry: HistoryEntry) -> Self {
        match entry {
            HistoryEntry::Prompt { text } => Self::Prompt(text),
            HistoryEntry::Answer { text } => Self::Answer(text),
            HistoryEntry::Call { name, about, went_well, interrupted } => {
                Self::Call { name, about, went_well, interrupted }
            }
            HistoryEntry::Note { severity, text } => {
                let severity = match severity.as_str() {
                    "error" => Severity::Error,
                    "warning" => Severity::Warning,
                    _ => Severity::Info,
                };
                Self::Note(severity, text)
            }
        }
    }
}
