//! Where calls wait for a person.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pollux_domain::approval::{Answer, ApprovalRequest, Subject};
use pollux_domain::event::Event;
use pollux_domain::id::CallId;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The questions that are open, and the way to the front ends.
pub(crate) struct Desk {
    open: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    events: mpsc::Sender<Event>,
}

impl Desk {
    pub(crate) fn new(events: mpsc::Sender<Event>) -> Self {
        Self { open: Mutex::default(), events }
    }

    /// Asks and waits. Whoever cancels the turn, or goes away, has said no.
    pub(crate) async fn ask(&self, request: ApprovalRequest, cancel: &CancellationToken) -> Answer {
        let call = request.call.clone();
        let (sender, receiver) = oneshot::channel();
        self.with(|open| open.insert(call.as_str().to_owned(), sender));
        let request = Arc::new(request);
        let _ = self.events.send(Event::ApprovalWanted(Arc::clone(&request))).await;
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => Answer::Cancel,
            answer = receiver => answer.unwrap_or(Answer::Cancel),
        };
        self.with(|open| open.remove(call.as_str()));
        let answer = if was_offered(&request, &answer) { answer } else { Answer::Cancel };
        self.tell(Event::ApprovalSettled { call, outcome: answer.outcome() }).await;
        answer
    }

    /// Passes an answer on; one that nobody waits for is dropped.
    pub(crate) fn answer(&self, call: &CallId, answer: Answer) {
        if let Some(waiting) = self.with(|open| open.remove(call.as_str())) {
            let _ = waiting.send(answer);
        }
    }

    /// Tells the front ends.
    pub(crate) async fn tell(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<String, oneshot::Sender<Answer>>) -> T) -> T {
        act(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// No front end can take more than it was offered.
fn was_offered(request: &ApprovalRequest, answer: &Answer) -> bool {
    match (answer, &request.subject) {
        (Answer::Refuse(_) | Answer::Cancel, _) => true,
        (Answer::Replies(replies), Subject::Questions(questions)) => replies.len() == questions.len(),
        (Answer::Replies(_), _) => false,
        (other, _) => request.offers.iter().any(|offer| offer.outcome == other.outcome()),
    }
}
