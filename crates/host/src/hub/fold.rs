//! A snapshot of a session, folded from its events, for front ends that attach late.

use std::sync::Arc;

use pollux_domain::approval::{ApprovalMode, ApprovalRequest};
use pollux_domain::content::Content;
use pollux_domain::event::{CallRequest, Event, OpResult, WaitingPrompt};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::model::RequestRole;

/// Id prefix of questions that do not belong to a tool call.
const ASIDE: &str = "question__";

/// The state of a session after event `seq`.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub seq: u64,
    pub session: Option<SessionId>,
    pub model: String,
    /// `None` while it is the initial one.
    pub mode: Option<ApprovalMode>,
    pub title: Option<String>,
    /// The conversation as last sent to the model.
    pub contents: Vec<Arc<Content>>,
    /// The streamed answer that is not in `contents` yet.
    pub answer: String,
    /// Whether a turn is running.
    pub busy: bool,
    /// Pending tool calls.
    pub calls: Vec<Arc<CallRequest>>,
    /// Unanswered questions.
    pub questions: Vec<Arc<ApprovalRequest>>,
    /// Queued prompts.
    pub waiting: Vec<WaitingPrompt>,
}

impl Snapshot {
    pub(super) fn fold(&mut self, event: &Event) {
        match event {
            Event::SessionReady { session, model, .. } => {
                self.session = Some(session.clone());
                self.model.clone_from(model);
            }
            Event::ModelChanged(model) => self.model.clone_from(model),
            Event::ModelFallback(fallback) => self.model.clone_from(&fallback.to),
            Event::ModeChanged { mode, .. } => self.mode = Some(*mode),
            Event::Titled(title) => self.title = Some(title.clone()),
            Event::QueueChanged(waiting) => self.waiting.clone_from(waiting),
            Event::RequestSent(sent) if sent.role == RequestRole::Main => {
                self.contents.clone_from(&sent.contents);
                self.answer.clear();
            }
            Event::Acknowledged { result: OpResult::Conversation(view), .. } => {
                self.contents.clone_from(&view.contents);
                self.answer.clear();
            }
            Event::Text(text) => self.answer.push_str(text),
            Event::AttemptDiscarded(_) => self.answer.clear(),
            Event::CallRequested(request) => self.calls.push(Arc::clone(request)),
            Event::CallFinished(report) => self.calls.retain(|open| open.call != report.call),
            Event::ApprovalWanted(request) => self.questions.push(Arc::clone(request)),
            Event::ApprovalSettled { call, .. } => self.questions.retain(|open| open.call != *call),
            Event::TurnEnded(_) => {
                self.calls.clear();
                // Questions of MCP servers do not belong to a turn.
                self.questions.retain(|open| open.call.as_str().starts_with(ASIDE));
            }
            _ => {}
        }
    }

    pub(super) fn question(&self, call: &CallId) -> Option<&Arc<ApprovalRequest>> {
        self.questions.iter().find(|open| open.call == *call)
    }
}
