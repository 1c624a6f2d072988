//! Who decides whether a call may run: the rules, the safety checkers, and a person. `permission.rs` asks them.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, FrontId, NoticeCode, Severity};
use pollux_policy::checker::CheckerPort;

use crate::approval::{Approvals, ModeRefused};
use crate::desk::Desk;
use crate::stopwatch::Stopwatch;

/// How far a person's answers may reach in this session.
#[derive(Debug, Clone, Default)]
pub struct GrantReach {
    /// Whether "for this session" may be offered.
    pub session: bool,
    /// The file that keeps answers for later sessions; `None` where that may not be offered.
    pub file: Option<PathBuf>,
}

/// What decides on the calls of a session.
pub(crate) struct Authority {
    pub(crate) approvals: Arc<Approvals>,
    /// Where a person is asked.
    pub(crate) desk: Arc<Desk>,
    pub(crate) reach: GrantReach,
    /// Runs external safety checkers; without it, calls that need one are refused.
    pub(crate) checkers: Option<Arc<dyn CheckerPort>>,
}

impl Authority {
    /// The same rules, checkers and person for the calls of a sub-agent, whose time stands still while it asks.
    pub(crate) fn for_subagent(&self, name: &str, watch: &Arc<Stopwatch>) -> Self {
        Self {
            approvals: Arc::new(self.approvals.for_subagent(name)),
            desk: Arc::new(self.desk.for_subagent(name, Arc::clone(watch))),
            reach: self.reach.clone(),
            checkers: self.checkers.clone(),
        }
    }

    /// Changes the mode and tells the front ends; `by` is the one that wanted it.
    pub(crate) async fn enter_mode(
        &self,
        mode: ApprovalMode,
        by: Option<&FrontId>,
    ) -> Result<(), ModeRefused> {
        let result = self.approvals.set_mode(mode);
        match result {
            Ok(true) => self.desk.tell(Event::ModeChanged { mode, by: by.cloned() }).await,
            Ok(false) => {}
            Err(refused) => {
                let (severity, code) = (Severity::Warning, NoticeCode::Policy);
                self.desk.tell(Event::Notice { severity, code, message: refused.to_string() }).await;
            }
        }
        result.map(drop)
    }
}
