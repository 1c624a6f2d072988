//! The earlier messages of a session, for display.

use pollux_domain::content::Part;
use pollux_domain::event::{CallStatus, Severity};
use pollux_session::{Message, StoredCall, StoredStatus};
use serde_json::Value;

use super::Chosen;

/// A message or a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryItem {
    Prompt(String),
    Answer(String),
    /// A tool call: tool, subject and success.
    Call {
        name: String,
        about: String,
        went_well: bool,
    },
    Note(Severity, String),
}

impl Chosen {
    /// The last messages and calls, at most `most`, and the number of earlier ones. Available until the session
    /// is resumed.
    pub fn said(&self, most: usize) -> (Vec<HistoryItem>, usize) {
        let Some(stored) = self.stored.take() else { return (Vec::new(), 0) };
        let mut said: Vec<HistoryItem> = stored.messages.iter().flat_map(shown).collect();
        self.stored.set(Some(stored));
        let above = said.len().saturating_sub(most);
        (said.split_off(above), above)
    }
}

fn shown(message: &Message) -> Vec<HistoryItem> {
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
            answer.into_iter().chain(reply.calls.iter().map(call)).collect()
        }
        Message::Notice(notice) => vec![HistoryItem::Note(notice.severity, notice.text.clone())],
        Message::Other { .. } => Vec::new(),
    }
}

fn text(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::spoken_text).collect()
}

fn call(call: &StoredCall) -> HistoryItem {
    let first = || call.args.values().find_map(Value::as_str).unwrap_or_default().to_owned();
    HistoryItem::Call {
        name: call.display_name.clone().unwrap_or_else(|| call.name.clone()),
        about: call.description.clone().filter(|about| !about.is_empty()).unwrap_or_else(first),
        went_well: call.status == StoredStatus::Ended(CallStatus::Success),
    }
}
