//! Questions that wait for an answer from a front end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pollux_domain::BoxFuture;
use pollux_domain::approval::{
    ApprovalAnswer, ApprovalRequest, Offer, Outcome, Person, Question, Subject, Why,
};
use pollux_domain::event::{Event, FrontId, OpResult, RequestId};
use pollux_domain::id::CallId;
use pollux_domain::sandbox::RightQuestion;
use pollux_domain::sync::Locked;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::hooked::Hooked;
use crate::hooked::notification::notify;
use crate::stopwatch::Stopwatch;

/// Waiting callers, by call id.
type Open = HashMap<String, oneshot::Sender<(ApprovalAnswer, FrontId)>>;

/// The open questions of a session; sends them to the front ends and delivers the answers.
pub(crate) struct PendingQuestions {
    open: Arc<Mutex<Open>>,
    /// Weak, so that a holder does not keep the session's event stream open.
    events: mpsc::WeakSender<Event>,
    hooked: Arc<Hooked>,
    /// Counter for questions without a tool call.
    asides: Arc<AtomicU64>,
    /// The asking sub-agent, and its time limit, which pauses during questions.
    asker: Option<(String, Arc<Stopwatch>)>,
}

impl PendingQuestions {
    pub(crate) fn new(events: mpsc::WeakSender<Event>, hooked: Arc<Hooked>) -> Self {
        Self { open: Arc::default(), events, hooked, asides: Arc::default(), asker: None }
    }

    /// The same questions on behalf of a sub-agent.
    pub(crate) fn for_subagent(&self, name: &str, time: Arc<Stopwatch>) -> Self {
        Self {
            open: Arc::clone(&self.open),
            events: self.events.clone(),
            hooked: Arc::clone(&self.hooked),
            asides: Arc::clone(&self.asides),
            asker: Some((name.to_owned(), time)),
        }
    }

    /// Asks and waits. Cancelling the turn or disconnecting counts as no.
    pub(crate) async fn ask(&self, request: ApprovalRequest, cancel: &CancellationToken) -> ApprovalAnswer {
        self.ask_with_author(request, cancel).await.0
    }

    /// Asks and waits; returns the answer and the front end that gave it.
    pub(crate) async fn ask_with_author(
        &self,
        mut request: ApprovalRequest,
        cancel: &CancellationToken,
    ) -> (ApprovalAnswer, Option<FrontId>) {
        let _pause = self.asker.as_ref().map(|(_, time)| time.pause());
        if let Some((name, _)) = &self.asker {
            request.display_name = format!("{} (for {name})", request.display_name);
        }
        notify(&self.hooked, &request, cancel).await;
        let call = request.call.clone();
        let (sender, receiver) = oneshot::channel();
        self.with(|open| open.insert(call.as_str().to_owned(), sender));
        let request = Arc::new(request);
        self.tell(Event::ApprovalWanted(Arc::clone(&request))).await;
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            answer = receiver => answer.ok(),
        };
        let (answer, by) = answer.map_or((ApprovalAnswer::Cancel, None), |(answer, by)| (answer, Some(by)));
        self.with(|open| open.remove(call.as_str()));
        let answer = if request.offers(&answer) { answer } else { ApprovalAnswer::Cancel };
        self.tell(Event::ApprovalSettled { call, outcome: answer.outcome(), by: by.clone() }).await;
        (answer, by)
    }

    /// Delivers an answer; returns whether the question was open.
    pub(crate) fn answer(&self, call: &CallId, answer: ApprovalAnswer, by: &FrontId) -> bool {
        let waiting = self.with(|open| open.remove(call.as_str()));
        waiting.is_some_and(|waiting| waiting.send((answer, by.clone())).is_ok())
    }

    /// Acknowledges an operation to its sender.
    pub(crate) async fn acknowledge(&self, id: RequestId, by: FrontId, result: OpResult) {
        self.tell(Event::Acknowledged { id, by, result }).await;
    }

    /// Sends an event to the front ends.
    pub(crate) async fn tell(&self, event: Event) {
        if let Some(events) = self.events.upgrade() {
            let _ = events.send(event).await;
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Open) -> T) -> T {
        act(&mut self.open.locked())
    }
}

impl Person for PendingQuestions {
    fn ask<'a>(
        &'a self,
        who: &'a str,
        questions: Vec<Question>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        let number = self.asides.fetch_add(1, Ordering::Relaxed);
        let request = ApprovalRequest {
            call: CallId::new("question", &number.to_string()),
            tool: who.to_owned(),
            display_name: who.to_owned(),
            args: pollux_domain::JsonObject::new(),
            subject: Subject::Questions(questions),
            destroys: None,
            why: Why::default(),
            offers: vec![Offer { outcome: Outcome::Refuse, covers: String::new() }],
        };
        Box::pin(PendingQuestions::ask(self, request, cancel))
    }

    fn ask_right<'a>(
        &'a self,
        question: RightQuestion,
        danger: Option<String>,
        offers: Vec<Offer>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        let number = self.asides.fetch_add(1, Ordering::Relaxed);
        let request = ApprovalRequest {
            call: CallId::new("sandbox", &number.to_string()),
            tool: "sandbox".to_owned(),
            display_name: "Sandbox".to_owned(),
            args: pollux_domain::JsonObject::new(),
            why: Why { reason: format!("{}.", question.sentence()), ..Why::default() },
            subject: Subject::Sandbox(Box::new(question)),
            destroys: danger,
            offers,
        };
        Box::pin(PendingQuestions::ask(self, request, cancel))
    }
}
