//! What decides whether a call may run: rules, safety checkers and the user. Used by `permission.rs`.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, FrontId, NoticeCode, Severity};
use pollux_policy::checker::CheckerPort;

use crate::approval::{Approvals, ModeRefused};
use crate::pending_questions::PendingQuestions;
use crate::stopwatch::Stopwatch;

/// How far approvals may reach in this session.
#[derive(Debug, Clone, Default)]
pub struct GrantReach {
    /// Whether "for this session" may be offered.
    pub session: bool,
    /// The file for saved approvals; `None` if saving is not offered.
    pub file: Option<PathBuf>,
}

/// The deciders for the calls of a session.
pub(crate) struct Authority {
    pub(crate) approvals: Arc<Approvals>,
    /// Asks the user.
    pub(crate) questions: Arc<PendingQuestions>,
    pub(crate) reach: GrantReach,
    /// Runs external safety checkers; without it, calls that need one are refused.
    pub(crate) checkers: Option<Arc<dyn CheckerPort>>,
}

impl Authority {
    /// The same rules, checkers and user for a sub-agent, whose time limit pauses during questions.
    pub(crate) fn for_subagent(&self, name: &str, watch: &Arc<Stopwatch>) -> Self {
        Self {
            approvals: Arc::new(self.approvals.for_subagent(name)),
            questions: Arc::new(self.questions.for_subagent(name, Arc::clone(watch))),
            reach: self.reach.clone(),
            checkers: self.checkers.clone(),
        }
    }

    /// Changes the mode and notifies the front ends; `by` is the front end that requested it.
    pub(crate) async fn enter_mode(
        &self,
        mode: ApprovalMode,
        by: Option<&FrontId>,
    ) -> Result<(), ModeRefused> {
        let result = self.approvals.set_mode(mode);
        match result {
            Ok(true) => self.questions.tell(Event::ModeChanged { mode, by: by.cloned() }).await,
            Ok(false) => {}
            Err(refused) => {
                let (severity, code) = (Severity::Warning, NoticeCode::Policy);
                self.questions.tell(Event::Notice { severity, code, message: refused.to_string() }).await;
            }
        }
        result.map(drop)
    }
}
