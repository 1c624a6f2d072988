//! The way out of a session: whatever happens, as one stream of events.

use std::sync::Arc;

use pollux_domain::event::{Event, NoticeCode, Severity};
use tokio::sync::mpsc;

use crate::subagent::run::SubagentRun;

/// Sends the events of a session. Of a sub-agent's, front ends learn what it does, not what it says.
pub(crate) struct Emitter {
    pub(crate) events: mpsc::Sender<Event>,
    /// The task of the session, when it is a sub-agent's.
    pub(crate) subagent: Option<Arc<SubagentRun>>,
}

impl Emitter {
    /// Tells the front ends; one that is gone is no reason to stop.
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
