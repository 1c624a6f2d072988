//! The session's budget: telling what was spent, ending the turn at a limit, changing limits.
//!
//! Counting itself is done by the model client around every request; nothing here can spend.

use std::sync::Arc;

use pollux_domain::budget::{BudgetChange, BudgetStatus, Spent};
use pollux_domain::event::{Event, NoticeCode, OpResult, RefusalCode, Severity};
use pollux_domain::model::ModelError;
use tokio::sync::mpsc;

use crate::services::Services;
use crate::session::Session;

/// The answer to calls that were still to come when a limit was reached.
pub(crate) const INTERRUPTED: &str = "interrupted: budget";

/// A turn begins.
pub(crate) fn begin_turn(session: &mut Session) {
    if let Some(budget) = &session.services.budget {
        budget.begin_turn();
        if budget.is_limited() {
            session.recorder.note_spent(budget.status().session);
        }
    }
}

/// The turn is over; its end was not told yet.
pub(crate) async fn end_turn(session: &mut Session) {
    let Some(budget) = session.services.budget.clone() else { return };
    budget.end_turn();
    tell(session).await;
    if !budget.is_limited() {
        let status = budget.status();
        if status.wasted != Spent::default() {
            session.emit(Event::Budget(Arc::new(status))).await;
        }
    }
}

/// Tells what was spent so far, and what people should know about it.
pub(crate) async fn tell(session: &mut Session) {
    let Some(budget) = session.services.budget.clone() else { return };
    for message in budget.take_notices() {
        // Of the session as a whole, also where a sub-agent made the request.
        let notice = Event::Notice { severity: Severity::Warning, code: NoticeCode::Budget, message };
        let _ = session.emitter.events.send(notice).await;
    }
    if budget.is_limited() {
        let status = budget.status();
        if session.emitter.subagent.is_none() {
            session.recorder.note_spent(status.session);
        }
        session.emit(Event::Budget(Arc::new(status))).await;
    }
}

/// The limit that ends the turn, if one is reached.
pub(crate) fn exceeded(services: &Services) -> Option<ModelError> {
    services.budget.as_ref()?.exceeded().map(ModelError::over_budget)
}

/// Changes a limit, or only tells them.
pub(crate) async fn change(
    services: &Services,
    events: &mpsc::Sender<Event>,
    change: BudgetChange,
) -> OpResult {
    let Some(budget) = &services.budget else {
        return OpResult::refused(RefusalCode::Unsupported, "this session has no budget");
    };
    if let Err(reason) = budget.change(change) {
        return OpResult::refused(RefusalCode::Failed, reason);
    }
    let status: Arc<BudgetStatus> = Arc::new(budget.status());
    if change != BudgetChange::Show {
        let _ = events.send(Event::Budget(Arc::clone(&status))).await;
    }
    OpResult::Budget(status)
}
