//! What a session is at this moment, folded from its events, for front ends that come late.

use std::sync::Arc;

use pollux_domain::approval::{ApprovalMode, ApprovalRequest};
use pollux_domain::content::Content;
use pollux_domain::event::{CallRequest, Event, OpResult, WaitingPrompt};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::model::RequestRole;

/// How the ids of questions begin that belong to no call of the model's.
const ASIDE: &str = "question__";

/// A session at one moment: everything up to event `seq` is in it.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub seq: u64,
    pub session: Option<SessionId>,
    pub model: String,
    /// `None` as long as it is the one that the session began with.
    pub mode: Option<ApprovalMode>,
    pub title: Option<String>,
    /// The conversation as the model last got it.
    pub contents: Vec<Arc<Content>>,
    /// The text of the answer that is not in `contents` yet.
    pub answer: String,
    /// Whether a turn runs.
    pub busy: bool,
    /// Calls that were asked for and have not ended.
    pub calls: Vec<Arc<CallRequest>>,
    /// Questions that wait for a person.
    pub questions: Vec<Arc<ApprovalRequest>>,
    /// Prompts that wait for the turn under way.
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
                // Those of servers belong to no turn.
                self.questions.retain(|open| open.call.as_str().starts_with(ASIDE));
            }
            _ => {}
        }
    }

    pub(super) fn question(&self, call: &CallId) -> Option<&Arc<ApprovalRequest>> {
        self.questions.iter().find(|open| open.call == *call)
    }
}
