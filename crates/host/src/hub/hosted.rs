//! One session of the hub: its events go out numbered, operations come in one by one.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use pollux_agent::{Handle, Operations};
use pollux_domain::BoxFuture;
use pollux_domain::approval::Answer;
use pollux_domain::event::{
    Asked, Event, FrontId, NoticeCode, Op, OpResult, Refusal, RefusalCode, RequestId, Severity, WaitingPrompt,
};
use pollux_domain::id::CallId;
use pollux_domain::sync::Locked as _;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::fold::Snapshot;
use super::log::Log;
use super::queue::{Bounds, Delivery, Overrun, Queue, Subscription};
use super::scopes::Scopes;

/// How much is kept, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub log_events: usize,
    pub log_bytes: usize,
    pub queue_events: usize,
    pub queue_bytes: usize,
    /// How long a front end that lost events may take nothing before it is cut off.
    pub patience: Duration,
    /// Prompts that may wait for the turn under way.
    pub prompts: usize,
    /// Operations that may wait for their acknowledgement.
    pub operations: usize,
    /// How long a question waits while nobody is there to answer it.
    pub question: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            log_events: 4_096,
            log_bytes: 4 * 1024 * 1024,
            queue_events: 1_024,
            queue_bytes: 1024 * 1024,
            patience: Duration::from_secs(30),
            prompts: 16,
            operations: 64,
            question: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// A session's two ends and its task.
pub struct Link {
    pub ops: Operations,
    pub events: mpsc::Receiver<Event>,
    pub task: JoinHandle<()>,
}

impl From<Handle> for Link {
    fn from(handle: Handle) -> Self {
        Self { ops: handle.ops, events: handle.events, task: handle.task }
    }
}

/// What goes on beside a session and belongs into its stream: warnings, titles, what a memory or a server has to say.
pub trait Companion: Send {
    /// Looks at an event on its way; what is to be told before it, and right after it.
    fn heed(&mut self, event: &Event) -> Around;

    /// Waits for the next thing that happens beside the session; never over if nothing does. Dropped early, nothing is
    /// lost.
    fn news(&mut self) -> BoxFuture<'_, Event>;

    /// The session is over: ends what goes on beside it. What is left to be told.
    fn close(self: Box<Self>) -> BoxFuture<'static, Vec<Event>>;
}

/// What is told around an event.
#[derive(Debug, Default)]
pub struct Around {
    pub before: Vec<Event>,
    pub after: Vec<Event>,
}

/// A session that has no company.
struct Alone;

impl Companion for Alone {
    fn heed(&mut self, _: &Event) -> Around {
        Around::default()
    }

    fn news(&mut self) -> BoxFuture<'_, Event> {
        Box::pin(std::future::pending())
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Vec<Event>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// How a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Alive,
    Ended,
    /// Its task panicked. What it had recorded is on disk.
    Crashed,
}

/// A session that front ends attach to.
pub struct Hosted {
    inner: Mutex<Inner>,
    /// To the session, in the order in which operations were taken. Longer than what may wait for an acknowledgement.
    inbox: mpsc::Sender<Asked>,
    state: watch::Sender<State>,
    limits: Limits,
    itself: Weak<Self>,
}

struct Inner {
    log: Log,
    now: Snapshot,
    queues: Vec<Arc<Queue>>,
    /// Prompts that wait for the turn under way.
    prompts: VecDeque<Asked>,
    /// Turns and commands of a person's own that the session has not ended yet.
    works: HashSet<(FrontId, RequestId)>,
    running: usize,
    /// Operations without an acknowledgement.
    open: HashSet<(FrontId, RequestId)>,
    /// Questions that were answered and not settled yet.
    answered: HashSet<CallId>,
    /// The names of all front ends that have come.
    names: HashSet<FrontId>,
    /// How many front ends can answer questions.
    approvers: usize,
    /// Since when somebody could have answered, by question.
    since: Option<Instant>,
}

impl Hosted {
    /// Takes a session over and drains its events from now on.
    pub fn start(link: Link, limits: Limits) -> Arc<Self> {
        Self::accompanied(link, limits, Box::new(Alone))
    }

    /// The same, with what goes on beside it.
    pub fn accompanied(link: Link, limits: Limits, companion: Box<dyn Companion>) -> Arc<Self> {
        let Link { ops, events, task } = link;
        let (inbox, mut outbox) = mpsc::channel::<Asked>(limits.operations + limits.prompts + 8);
        let inner = Inner {
            log: Log::new(limits.log_events, limits.log_bytes),
            now: Snapshot::default(),
            queues: Vec::new(),
            prompts: VecDeque::new(),
            works: HashSet::new(),
            running: 0,
            open: HashSet::new(),
            answered: HashSet::new(),
            names: HashSet::new(),
            approvers: 0,
            since: None,
        };
        let hosted = Arc::new_cyclic(|itself| Self {
            inner: Mutex::new(inner),
            inbox,
            state: watch::Sender::new(State::Alive),
            limits,
            itself: Weak::clone(itself),
        });
        tokio::spawn(async move {
            while let Some(asked) = outbox.recv().await {
                if ops.pass(asked).await.is_err() {
                    return;
                }
            }
        });
        let state = hosted.state.clone();
        tokio::spawn(drain(Arc::downgrade(&hosted), events, task, state, companion));
        hosted
    }

    /// Counts a front end that comes: its hold on the session, and a name that no other one has or had.
    pub(super) fn admit(&self, name: &str, scopes: Scopes) -> Option<(Arc<Self>, FrontId)> {
        let hosted = self.itself.upgrade()?;
        let mut inner = self.inner.locked();
        let mut id = FrontId::new(name);
        let mut number = 1;
        while !inner.names.insert(id.clone()) {
            number += 1;
            id = FrontId::new(format!("{name}-{number}"));
        }
        inner.approvers += usize::from(scopes.approve);
        if scopes.approve {
            inner.since = None;
        }
        drop(inner);
        Some((hosted, id))
    }

    pub(super) fn detach(&self, scopes: Scopes) {
        let mut inner = self.inner.locked();
        inner.approvers -= usize::from(scopes.approve);
    }

    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Waits until the session is over.
    pub async fn ended(&self) -> State {
        let mut state = self.state.subscribe();
        match state.wait_for(|state| *state != State::Alive).await {
            Ok(state) => *state,
            Err(_) => State::Ended,
        }
    }

    /// What the session is now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.locked().snapshot()
    }

    pub(super) fn subscribe(&self, after: Option<u64>, overrun: Overrun) -> Subscription {
        let mut inner = self.inner.locked();
        let missed = match after {
            None => Some(Vec::new()),
            Some(after) => inner.log.after(after),
        };
        let first = match missed {
            Some(events) => events.into_iter().map(Delivery::Event).collect(),
            None => vec![Delivery::Snapshot(inner.snapshot())],
        };
        let bounds = Bounds {
            events: self.limits.queue_events,
            bytes: self.limits.queue_bytes,
            patience: self.limits.patience,
        };
        let queue = Arc::new(Queue::new(bounds, overrun, first));
        if self.state() == State::Alive {
            inner.queues.push(Arc::clone(&queue));
        } else {
            queue.close();
        }
        Subscription { queue }
    }

    /// Tells everybody something that the session itself does not know.
    pub async fn tell(&self, event: Event) {
        self.tell_all(vec![event]).await;
    }

    /// Tells several things at once: whoever sees the first can have the others without waiting.
    async fn tell_all(&self, events: Vec<Event>) {
        let queues = {
            let mut inner = self.inner.locked();
            for event in events {
                inner.account(&event);
                inner.publish(event);
            }
            inner.queues.clone()
        };
        // The only reader of a process that ends with its session sees everything, so the session waits for it.
        for queue in queues.iter().filter(|queue| queue.overrun == Overrun::Waits) {
            while queue.is_full() {
                queue.room.notified().await;
            }
        }
        self.next_prompt();
    }

    /// Takes an operation of a front end that has the right to it.
    pub(super) fn take(&self, asked: Asked) -> Result<(), Refusal> {
        let refuse = |code, message: &str| Err(Refusal { code, message: message.to_owned() });
        if self.state() != State::Alive {
            return refuse(RefusalCode::Ended, "session has ended");
        }
        let mut inner = self.inner.locked();
        if inner.open.len() >= self.limits.operations {
            return refuse(RefusalCode::QueueFull, "too many pending operations");
        }
        match &asked.op {
            Op::Decide { call, answer } => {
                let waits = inner.now.question(call).filter(|_| !inner.answered.contains(call));
                let Some(question) = waits else {
                    return refuse(RefusalCode::NotWaiting, "no pending approval for this call");
                };
                if !question.offers(answer) {
                    return refuse(RefusalCode::NotOffered, "answer not among the offered choices");
                }
                // From now on it is answered: the first one wins.
                inner.answered.insert(call.clone());
            }
            Op::Withdraw { prompt } => {
                let at = inner.prompts.iter().position(|waiting| waiting.id == *prompt);
                let Some(dropped) = at.and_then(|at| inner.prompts.remove(at)) else {
                    return refuse(RefusalCode::NotFound, "no such prompt in the queue");
                };
                inner.drop_prompt(dropped, "removed from the queue");
                let (id, by, result) = (asked.id, asked.by, OpResult::Accepted);
                inner.publish(Event::Acknowledged { id, by, result });
                inner.tell_queue();
                return Ok(());
            }
            Op::Prompt { .. } if inner.running > 0 || !inner.prompts.is_empty() => {
                if inner.prompts.len() >= self.limits.prompts {
                    return refuse(RefusalCode::QueueFull, "too many queued prompts");
                }
                inner.prompts.push_back(asked);
                inner.tell_queue();
                return Ok(());
            }
            _ => {}
        }
        self.pass(&mut inner, asked)
    }

    fn pass(&self, inner: &mut Inner, asked: Asked) -> Result<(), Refusal> {
        let name = (asked.by.clone(), asked.id.clone());
        let is_work =
            matches!(asked.op, Op::Prompt { .. } | Op::Propose { .. } | Op::Compress | Op::Shell { .. });
        if self.inbox.try_send(asked).is_err() {
            let message = "session has ended".to_owned();
            return Err(Refusal { code: RefusalCode::Ended, message });
        }
        if is_work {
            inner.running += 1;
            inner.works.insert(name.clone());
        }
        inner.open.insert(name);
        Ok(())
    }

    /// Sends the next prompt if nothing runs.
    fn next_prompt(&self) {
        let mut inner = self.inner.locked();
        if inner.running > 0 {
            return;
        }
        let Some(asked) = inner.prompts.pop_front() else { return };
        inner.tell_queue();
        let _ = self.pass(&mut inner, asked);
    }

    /// Refuses questions that nobody was there to answer for too long; how long until it has to look again.
    fn expire_questions(&self) -> Duration {
        let mut inner = self.inner.locked();
        let open: Vec<CallId> = inner.now.questions.iter().map(|open| open.call.clone()).collect();
        if open.is_empty() || inner.approvers > 0 {
            inner.since = None;
            return self.limits.question;
        }
        let since = *inner.since.get_or_insert_with(Instant::now);
        let left = self.limits.question.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return left;
        }
        inner.since = None;
        for call in open {
            if !inner.answered.insert(call.clone()) {
                continue;
            }
            let answer = Answer::Refuse("No one answered in time.".to_owned());
            let id = RequestId::new(format!("unanswered-{call}"));
            let op = Op::Decide { call, answer };
            let _ = self.pass(&mut inner, Asked { id, by: FrontId::new("hub"), op });
        }
        self.limits.question
    }
}

impl Inner {
    /// Keeps track of what an event ends.
    fn account(&mut self, event: &Event) {
        match event {
            Event::Acknowledged { id, by, result } => {
                let name = (by.clone(), id.clone());
                self.open.remove(&name);
                // What began counts until it ends; what was refused never began.
                if self.works.remove(&name) && result.refusal().is_some() {
                    self.running = self.running.saturating_sub(1);
                }
            }
            Event::TurnEnded(_) | Event::ShellEnded(_) => {
                self.running = self.running.saturating_sub(1);
                self.answered.clear();
            }
            Event::ApprovalSettled { call, .. } => drop(self.answered.remove(call)),
            _ => {}
        }
    }

    /// Numbers an event and hands it to everybody.
    fn publish(&mut self, event: Event) {
        self.now.fold(&event);
        let numbered = self.log.push(event);
        self.queues.retain(|queue| queue.push(&numbered));
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(Snapshot { seq: self.log.last(), busy: self.running > 0, ..self.now.clone() })
    }

    fn tell_queue(&mut self) {
        let waiting = self.prompts.iter().filter_map(|asked| match &asked.op {
            Op::Prompt { typed, .. } => {
                Some(WaitingPrompt { id: asked.id.clone(), by: asked.by.clone(), typed: typed.clone() })
            }
            _ => None,
        });
        let waiting = waiting.collect();
        self.publish(Event::QueueChanged(waiting));
    }

    fn drop_prompt(&mut self, asked: Asked, why: &str) {
        let result = OpResult::refused(RefusalCode::Dropped, why);
        self.publish(Event::Acknowledged { id: asked.id, by: asked.by, result });
    }

    /// Nothing more comes: whoever still waits for something learns that.
    fn close(&mut self) {
        for asked in std::mem::take(&mut self.prompts) {
            self.drop_prompt(asked, "session has ended");
        }
        for (by, id) in std::mem::take(&mut self.open) {
            let result = OpResult::refused(RefusalCode::Ended, "session has ended");
            self.publish(Event::Acknowledged { id, by, result });
        }
        for queue in self.queues.drain(..) {
            queue.close();
        }
    }
}

/// Takes every event of a session as it comes, until the session is over. A session that panics is over, too; no other
/// one is touched by it.
async fn drain(
    hosted: Weak<Hosted>,
    mut events: mpsc::Receiver<Event>,
    task: JoinHandle<()>,
    state: watch::Sender<State>,
    mut companion: Box<dyn Companion>,
) {
    loop {
        let Some(hosted) = hosted.upgrade() else {
            // Nobody is left; the session must not wait for a reader while it ends.
            while events.recv().await.is_some() {}
            break;
        };
        let look_again = hosted.expire_questions();
        let held = Arc::downgrade(&hosted);
        drop(hosted);
        tokio::select! {
            biased;
            event = events.recv() => {
                let Some(event) = event else { break };
                let Around { before: mut told, after } = companion.heed(&event);
                told.push(event);
                told.extend(after);
                if let Some(hosted) = held.upgrade() {
                    hosted.tell_all(told).await;
                }
            }
            event = companion.news() => {
                if let Some(hosted) = held.upgrade() {
                    hosted.tell(event).await;
                }
            }
            () = tokio::time::sleep(look_again) => {}
        }
    }
    let ended = match task.await {
        Ok(()) => State::Ended,
        Err(error) if error.is_panic() => State::Crashed,
        Err(_) => State::Ended,
    };
    let mut last = Vec::new();
    if ended == State::Crashed {
        let message = "The session crashed. Everything recorded so far is saved.".to_owned();
        last.push(Event::Notice { severity: Severity::Error, code: NoticeCode::Crashed, message });
    }
    last.extend(companion.close().await);
    if let Some(hosted) = hosted.upgrade() {
        hosted.tell_all(last).await;
        state.send_replace(ended);
        hosted.inner.locked().close();
    }
    state.send_replace(ended);
}
