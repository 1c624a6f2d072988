//! Sends the events of a session as one stream.

use std::sync::Arc;

use pollux_domain::event::{Event, NoticeCode, Severity};
use tokio::sync::mpsc;

use crate::subagent::run::SubagentRun;

/// Sends the events of a session. For a sub-agent, front ends see its actions, not its text.
pub(crate) struct Emitter {
    pub(crate) events: mpsc::Sender<Event>,
    /// The sub-agent run, if this is a sub-agent's session.
    pub(crate) subagent: Option<Arc<SubagentRun>>,
}

impl Emitter {
    /// Sends an event to the front ends; a missing receiver is ignored.
    pub(crate) async fn emit(&self, event: Event) {
        let Some(run) = &self.subagent else {
            let _ = self.events.send(event).await;
            return;
        };
        for event in run.outward(event) {
            let _ = self.events.send(event).await;
        }
    }

    pub(crate) async fn notice(&self, severity: Severity, code: NoticeCode, message: impl Into<String>) {
        self.emit(Event::Notice { severity, code, message: message.into() }).await;
    }

    /// Shows a piece of a reply.
    pub(crate) async fn show(&self, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.emit(Event::Text(text.to_owned())).await;
        }
    }
}
