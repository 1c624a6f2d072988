//! The editor as a front end for approvals: shows changes in its diff view and passes on what the user does there.
//!
//! The terminal asks as well, and the first answer counts. If the editor is gone, only the terminal asks.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Weak};

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, Subject};
use pollux_domain::event::{Event, NoticeCode, Op, Severity};
use pollux_domain::id::CallId;
use pollux_domain::tool::FileDiff;
use pollux_ide::{Companion, CompanionStatus, DiffAnswer};
use tokio::task::JoinHandle;

use crate::hub::{Delivery, Front, Hosted, Scopes, SessionState};

/// The name among the front ends of a session.
const NAME: &str = "editor";
const SCOPES: Scopes = Scopes { watch: true, drive: false, approve: true, admin: false };

/// Serves a session until it ends.
pub(crate) async fn serve(companion: Arc<Companion>, hosted: Weak<Hosted>) {
    let Some(mut states) = hosted.upgrade().map(|hosted| hosted.states()) else { return };
    let mut statuses = companion.statuses();
    loop {
        let shows =
            |status: &CompanionStatus| matches!(status, CompanionStatus::Connected { shows_diffs: true, .. });
        // An editor may never connect, and what waits for one keeps everything that belongs to the session.
        tokio::select! {
            biased;
            () = async { drop(states.wait_for(|state| *state != SessionState::Alive).await) } => return,
            () = async { drop(statuses.wait_for(shows).await) } => {}
        }
        let Some(front) = hosted.upgrade().and_then(|hosted| hosted.attach(NAME, SCOPES)) else { return };
        let Ok(mut events) = front.subscribe(None) else { return };
        let mut approvals = Approvals {
            companion: Arc::clone(&companion),
            hosted: Weak::clone(&hosted),
            front,
            shown: None,
            waiting: VecDeque::new(),
            edited: None,
        };
        loop {
            tokio::select! {
                biased;
                delivery = events.next() => match delivery {
                    Some(Delivery::Event(event)) => approvals.take(&event.event).await,
                    // Something may be settled that is still shown.
                    Some(Delivery::Snapshot(_) | Delivery::Lagged { .. }) => approvals.close_all().await,
                    None => return approvals.close_all().await,
                },
                answer = approvals.answer() => approvals.answered(answer),
                () = async { drop(statuses.wait_for(|status| !shows(status)).await) } => break,
            }
        }
        approvals.abandon();
    }
}

struct Approvals {
    companion: Arc<Companion>,
    hosted: Weak<Hosted>,
    front: Front,
    /// The editor shows one change at a time.
    shown: Option<Shown>,
    waiting: VecDeque<Arc<ApprovalRequest>>,
    /// The question that the user answered with other arguments, so that they need no other approval.
    edited: Option<(Arc<ApprovalRequest>, JsonObject)>,
}

/// A change that the editor shows.
struct Shown {
    request: Arc<ApprovalRequest>,
    answer: JoinHandle<Option<DiffAnswer>>,
}

/// The change that a question is about.
fn change(request: &ApprovalRequest) -> Option<(&Path, &FileDiff)> {
    match &request.subject {
        Subject::Edit { path, diff: Some(diff) } => Some((path, diff)),
        _ => None,
    }
}

impl Approvals {
    async fn take(&mut self, event: &Event) {
        match event {
            Event::ApprovalWanted(request) => {
                let given = self.edited.take_if(|(first, _)| first.call == request.call);
                if given.is_some_and(|(first, args)| request.is_settled_by(&first, &args)) {
                    self.decide(&request.call, ApprovalAnswer::Once);
                } else if change(request).is_some() {
                    self.waiting.push_back(Arc::clone(request));
                    self.show_next();
                }
            }
            Event::ApprovalSettled { call, by, .. } => {
                self.waiting.retain(|request| request.call != *call);
                if self.shown.as_ref().is_some_and(|shown| shown.request.call == *call) {
                    self.close(by.as_ref() != Some(self.front.id())).await;
                    self.show_next();
                }
            }
            Event::TurnEnded(_) => self.close_all().await,
            _ => {}
        }
    }

    /// Waits for what the user does in the editor; never over while nothing is shown.
    async fn answer(&mut self) -> Option<DiffAnswer> {
        match &mut self.shown {
            Some(shown) => (&mut shown.answer).await.ok().flatten(),
            None => std::future::pending().await,
        }
    }

    fn answered(&mut self, answer: Option<DiffAnswer>) {
        let Some(Shown { request, .. }) = self.shown.take() else { return };
        let call = request.call.clone();
        let answer = match (answer, change(&request)) {
            (Some(DiffAnswer::Accepted(text)), Some((_, diff))) if text == diff.after => ApprovalAnswer::Once,
            (Some(DiffAnswer::Accepted(text)), Some(_)) => match request.with_text(&text) {
                Some(args) => ApprovalAnswer::Edited(args),
                None => return self.show_next(),
            },
            // As upstream has it, this ends the turn.
            (Some(DiffAnswer::Rejected), _) => ApprovalAnswer::Cancel,
            // The terminal still asks.
            (None, _) | (_, None) => return self.show_next(),
        };
        let edited = match &answer {
            ApprovalAnswer::Edited(args) => Some((request, args.clone())),
            _ => None,
        };
        if self.decide(&call, answer) {
            self.edited = edited;
        }
        self.show_next();
    }

    /// Whether the answer counts; if not, another one came first.
    fn decide(&self, call: &CallId, answer: ApprovalAnswer) -> bool {
        self.front.ask(Op::Decide { call: call.clone(), answer }).is_ok()
    }

    fn show_next(&mut self) {
        if self.shown.is_some() {
            return;
        }
        let Some(request) = self.waiting.pop_front() else { return };
        let Some((path, diff)) = change(&request) else { return };
        let (companion, path, text) = (Arc::clone(&self.companion), path.to_owned(), diff.after.clone());
        let answer = tokio::spawn(async move { companion.open_diff(&path, &text).await });
        self.shown = Some(Shown { request, answer });
    }

    /// Closes the change that is shown. What the user typed there does not count if the answer came from elsewhere.
    async fn close(&mut self, by_another: bool) {
        let Some(Shown { request, answer }) = self.shown.take() else { return };
        answer.abort();
        let Some((path, diff)) = change(&request) else { return };
        let typed = self.companion.close_diff(path).await.filter(|text| *text != diff.after);
        if let (true, Some(_), Some(hosted)) = (by_another, typed, self.hosted.upgrade()) {
            let message = format!("The edits to {} in the editor's diff view were not used.", diff.file_name);
            let (severity, code) = (Severity::Info, NoticeCode::Server);
            hosted.tell(Event::Notice { severity, code, message }).await;
        }
    }

    async fn close_all(&mut self) {
        self.waiting.clear();
        self.edited = None;
        self.close(false).await;
    }

    /// The editor is gone, and nothing can be closed there.
    fn abandon(&mut self) {
        if let Some(shown) = self.shown.take() {
            shown.answer.abort();
        }
    }
}

#[cfg(test)]
mod tests;
