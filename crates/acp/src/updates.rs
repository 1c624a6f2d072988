//! Sends `session/update` notifications of one session.
//!
//! Pieces of text that arrive together are joined, and the live output of a call is sent as a whole a few times per
//! second, so that a fast model or command does not flood the client.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use pollux_domain::id::CallId;
use serde_json::{Value, json};

use crate::client::Client;
use crate::tool_call;

/// Text that arrives within this time is sent together.
const JOIN_TEXT: Duration = Duration::from_millis(16);
/// The time between two updates with live output.
const LIVE_PACE: Duration = Duration::from_millis(200);
/// The longest text of one chunk, in bytes.
const MAX_CHUNK: usize = 16 * 1024;
/// The live output that is shown, in bytes.
pub(crate) const MAX_LIVE: usize = 64 * 1024;

/// The updates of one session.
pub(crate) struct Updates {
    pub(crate) client: Client,
    session: RefCell<String>,
    /// Updates that wait until the client knows the session.
    held: RefCell<Option<Vec<Value>>>,
    text: RefCell<Option<Text>>,
    live: RefCell<HashMap<CallId, Live>>,
    /// Numbers notes, which are messages of their own.
    notes: Cell<u64>,
    itself: Weak<Self>,
}

/// Text that is not sent yet.
struct Text {
    kind: &'static str,
    message: String,
    text: String,
}

/// The output of a running call.
#[derive(Default)]
struct Live {
    text: String,
    /// The beginning is gone.
    cut: bool,
    /// A timer will send it.
    scheduled: bool,
}

impl Updates {
    pub(crate) fn new(client: Client) -> Rc<Self> {
        Rc::new_cyclic(|itself| Self {
            client,
            session: RefCell::default(),
            held: RefCell::new(Some(Vec::new())),
            text: RefCell::default(),
            live: RefCell::default(),
            notes: Cell::default(),
            itself: Weak::clone(itself),
        })
    }

    pub(crate) fn name_session(&self, id: &str) {
        id.clone_into(&mut self.session.borrow_mut());
    }

    pub(crate) fn session(&self) -> String {
        self.session.borrow().clone()
    }

    /// The client knows the session now: sends what was held back.
    pub(crate) fn release(&self) {
        self.flush();
        let held = self.held.borrow_mut().take();
        held.into_iter().flatten().for_each(|update| self.emit(update));
    }

    /// Sends an update.
    pub(crate) fn send(&self, update: Value) {
        self.flush();
        self.emit(update);
    }

    /// Sends an update even before [`Updates::release`].
    pub(crate) fn send_at_once(&self, update: Value) {
        self.client.notify("session/update", self.params(update));
    }

    fn emit(&self, update: Value) {
        if let Some(held) = self.held.borrow_mut().as_mut() {
            held.push(update);
            return;
        }
        self.client.notify("session/update", self.params(update));
    }

    fn params(&self, update: Value) -> Value {
        json!({"sessionId": *self.session.borrow(), "update": update})
    }

    /// A piece of a message; `kind` is `agent_message_chunk` or `agent_thought_chunk`.
    pub(crate) fn text(&self, kind: &'static str, message: &str, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let same =
            self.text.borrow().as_ref().is_some_and(|text| {
                text.kind == kind && text.message == message && text.text.len() < MAX_CHUNK
            });
        if !same {
            self.flush();
            *self.text.borrow_mut() = Some(Text { kind, message: message.to_owned(), text: String::new() });
            let itself = Weak::clone(&self.itself);
            tokio::task::spawn_local(async move {
                tokio::time::sleep(JOIN_TEXT).await;
                if let Some(updates) = itself.upgrade() {
                    updates.flush();
                }
            });
        }
        if let Some(text) = self.text.borrow_mut().as_mut() {
            text.text.push_str(piece);
        }
    }

    /// Sends the text that waits.
    pub(crate) fn flush(&self) {
        let Some(Text { kind, message, text }) = self.text.borrow_mut().take() else { return };
        pieces(&text, MAX_CHUNK).for_each(|piece| self.emit(chunk(kind, &message, piece)));
    }

    /// A message of the program, such as the output of a command.
    pub(crate) fn say(&self, text: &str) {
        self.notes.set(self.notes.get() + 1);
        let message = format!("note-{}", self.notes.get());
        self.text("agent_message_chunk", &message, &format!("{}\n", text.trim_end_matches('\n')));
        self.flush();
    }

    /// Live output of a call.
    pub(crate) fn live(&self, call: &CallId, piece: &str) {
        let mut live = self.live.borrow_mut();
        let live = live.entry(call.clone()).or_default();
        live.text.push_str(piece);
        if live.text.len() > 2 * MAX_LIVE {
            live.text = last(&live.text, MAX_LIVE).to_owned();
            live.cut = true;
        }
        if live.scheduled {
            return;
        }
        live.scheduled = true;
        let (itself, call) = (Weak::clone(&self.itself), call.clone());
        tokio::task::spawn_local(async move {
            tokio::time::sleep(LIVE_PACE).await;
            if let Some(updates) = itself.upgrade() {
                updates.send_live(&call);
            }
        });
    }

    fn send_live(&self, call: &CallId) {
        let mut live = self.live.borrow_mut();
        let Some(live) = live.get_mut(call) else { return };
        live.scheduled = false;
        if self.held.borrow().is_some() {
            return;
        }
        let shown = last(&live.text, MAX_LIVE);
        let text = tool_call::tail(shown, live.cut || shown.len() < live.text.len());
        let update = json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": call.as_str(),
            "content": [tool_call::text(&text)],
        });
        self.flush();
        self.client.notify_state(&self.state_name(call), "session/update", self.params(update));
    }

    /// No more live output of this call is sent.
    pub(crate) fn end_live(&self, call: &CallId) {
        if self.live.borrow_mut().remove(call).is_some() {
            self.client.outbox().drop_state(&self.state_name(call));
        }
    }

    fn state_name(&self, call: &CallId) -> String {
        format!("{}/{call}", self.session.borrow())
    }
}

/// A chunk of a message.
pub(crate) fn chunk(kind: &str, message: &str, text: &str) -> Value {
    json!({
        "sessionUpdate": kind,
        "content": {"type": "text", "text": text},
        "messageId": message,
    })
}

/// A text in pieces of at most `most` bytes.
pub(crate) fn pieces(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.floor_char_boundary(most.max(4));
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// The last `most` bytes of a text, from the beginning of a character on.
pub(crate) fn last(text: &str, most: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(most));
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "äöü".repeat(5);
        let cut: Vec<&str> = pieces(&text, 7).collect();
        assert!(cut.iter().all(|piece| piece.len() <= 7));
        assert_eq!(cut.concat(), text);
        assert_eq!(last("aäö", 3), "ö");
        assert_eq!(last("abc", 9), "abc");
    }
}
