//! One session of the hub: numbers its events for subscribers and serialises operations.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use pollux_agent::{Handle, Operations};
use pollux_domain::BoxFuture;
use pollux_domain::approval::{ApprovalAnswer, ApprovalMode};
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
use crate::unused_memory::note_turn_end;

/// Size and time limits.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub log_events: usize,
    pub log_bytes: usize,
    pub queue_events: usize,
    pub queue_bytes: usize,
    /// How long a front end that lost events may stay idle before it is disconnected.
    pub patience: Duration,
    /// Maximum number of queued prompts.
    pub prompts: usize,
    /// Maximum number of unacknowledged operations.
    pub operations: usize,
    /// How long a question waits while no front end can answer it.
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

/// The channels of a session and its task.
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

/// Background work whose events join a session's stream: warnings, titles, memory and server messages.
pub trait Companion: Send {
    /// Observes an event; returns events to insert before and after it.
    fn observe(&mut self, event: &Event) -> ExtraEvents;

    /// Waits for the next thing that happens outside the session; never over if nothing does. Dropped early, nothing is
    /// lost.
    fn next_event(&mut self) -> BoxFuture<'_, Event>;

    /// Ends the background work after the session; returns the remaining events.
    fn close(self: Box<Self>) -> BoxFuture<'static, Vec<Event>>;
}

/// Events inserted around another one.
#[derive(Debug, Default)]
pub struct ExtraEvents {
    pub before: Vec<Event>,
    pub after: Vec<Event>,
}

/// For sessions without background work.
struct NoCompanion;

impl Companion for NoCompanion {
    fn observe(&mut self, _: &Event) -> ExtraEvents {
        ExtraEvents::default()
    }

    fn next_event(&mut self) -> BoxFuture<'_, Event> {
        Box::pin(std::future::pending())
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Vec<Event>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    Alive,
    Ended,
    /// Its task panicked. Everything recorded is on disk.
    Crashed,
}

/// Where a front end joins a session: its state now, and which events follow.
#[derive(Debug)]
pub struct Joined {
    pub now: Arc<Snapshot>,
    /// The number of the last event before those that follow.
    pub after: u64,
    /// The record of the running turn's prompt. It and what comes after it follow as events.
    pub prompt: Option<String>,
    /// Whether all events of the running turn follow; otherwise the log has lost its beginning.
    pub is_complete: bool,
    pub fronts: Vec<FrontId>,
}

/// A session that front ends can attach to.
pub struct Hosted {
    inner: Mutex<Inner>,
    /// Operations to the session, in order. Has more room than unacknowledged operations are allowed.
    inbox: mpsc::Sender<Asked>,
    state: watch::Sender<SessionState>,
    modes: watch::Sender<Option<ApprovalMode>>,
    limits: Limits,
    itself: Weak<Self>,
}

struct Inner {
    log: Log,
    now: Snapshot,
    queues: Vec<Arc<Queue>>,
    /// Queued prompts.
    prompts: VecDeque<Asked>,
    /// Turns and user commands still running.
    works: HashSet<(FrontId, RequestId)>,
    running: usize,
    /// Unacknowledged operations.
    open: HashSet<(FrontId, RequestId)>,
    /// Questions that are answered but not settled yet.
    answered: HashSet<CallId>,
    /// The names of all front ends so far.
    names: HashSet<FrontId>,
    /// Those that are attached now, in the order they came.
    attached: Vec<FrontId>,
    /// The number of the last event before the running turn or command.
    before_turn: Option<u64>,
    /// The record of the running turn's prompt.
    prompt: Option<String>,
    /// Number of front ends that can answer questions.
    approvers: usize,
    /// Start of the waiting time of each question.
    since: Option<Instant>,
}

impl Hosted {
    /// Takes over a session and starts to drain its events.
    pub fn start(link: Link, limits: Limits) -> Arc<Self> {
        Self::accompanied(link, limits, Box::new(NoCompanion))
    }

    /// The same, with background work.
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
            attached: Vec::new(),
            before_turn: None,
            prompt: None,
            approvers: 0,
            since: None,
        };
        let hosted = Arc::new_cyclic(|itself| Self {
            inner: Mutex::new(inner),
            inbox,
            state: watch::Sender::new(SessionState::Alive),
            modes: watch::Sender::new(None),
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

    /// Registers a new front end and gives it a unique name.
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
        inner.attached.push(id.clone());
        if inner.attached.len() > 1 {
            inner.tell_fronts();
        }
        drop(inner);
        Some((hosted, id))
    }

    pub(super) fn detach(&self, id: &FrontId, scopes: Scopes) {
        let mut inner = self.inner.locked();
        inner.approvers -= usize::from(scopes.approve);
        inner.attached.retain(|attached| attached != id);
        if !inner.attached.is_empty() {
            inner.tell_fronts();
        }
    }

    /// The front ends that are attached now.
    pub fn fronts(&self) -> Vec<FrontId> {
        self.inner.locked().attached.clone()
    }

    pub fn state(&self) -> SessionState {
        *self.state.borrow()
    }

    /// Tells when the session ends, without keeping it.
    pub(crate) fn states(&self) -> watch::Receiver<SessionState> {
        self.state.subscribe()
    }

    /// Whether the log still has all events after this number.
    pub fn has_after(&self, seq: u64) -> bool {
        self.inner.locked().log.after(seq).is_some()
    }

    /// The mode that was entered last.
    pub fn modes(&self) -> watch::Receiver<Option<ApprovalMode>> {
        self.modes.subscribe()
    }

    /// Waits until the session has ended.
    pub async fn ended(&self) -> SessionState {
        let mut state = self.states();
        match state.wait_for(|state| *state != SessionState::Alive).await {
            Ok(state) => *state,
            Err(_) => SessionState::Ended,
        }
    }

    /// The current snapshot.
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
        if self.state() == SessionState::Alive {
            inner.queues.push(Arc::clone(&queue));
        } else {
            queue.close();
        }
        Subscription { queue }
    }

    /// Subscribes from the beginning of the running turn, or from now on if none runs. What came before the turn is in
    /// the session's file.
    pub(super) fn join(&self) -> (Joined, Subscription) {
        let (after, joined) = {
            let inner = self.inner.locked();
            let last = inner.log.last();
            let begun = inner.before_turn.filter(|begun| inner.log.after(*begun).is_some());
            let joined = Joined {
                now: inner.snapshot(),
                after: begun.unwrap_or(last),
                prompt: inner.prompt.clone().filter(|_| inner.before_turn.is_some()),
                is_complete: inner.before_turn.is_none() || begun.is_some(),
                fronts: inner.attached.clone(),
            };
            (joined.after, joined)
        };
        // What is published in between is replayed from the log.
        (joined, self.subscribe(Some(after), Overrun::Loses))
    }

    /// Publishes an event that does not come from the session.
    pub async fn tell(&self, event: Event) {
        self.tell_all(vec![event]).await;
    }

    /// Publishes several events at once, so that subscribers get them together.
    async fn tell_all(&self, events: Vec<Event>) {
        let queues = {
            let mut inner = self.inner.locked();
            for event in events {
                if let Event::ModeChanged { mode, .. } = event {
                    self.modes.send_replace(Some(mode));
                }
                inner.account(&event);
                inner.publish(event);
            }
            inner.queues.clone()
        };
        // The session waits for an exclusive reader, so that it sees every event.
        for queue in queues.iter().filter(|queue| queue.overrun == Overrun::Waits) {
            while queue.is_full() {
                queue.room.notified().await;
            }
        }
        self.next_prompt();
    }

    /// Accepts an operation from a front end that is permitted to send it.
    pub(super) fn take(&self, asked: Asked) -> Result<(), Refusal> {
        let refuse = |code, message: &str| Err(Refusal { code, message: message.to_owned() });
        if self.state() != SessionState::Alive {
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
                // The first answer wins.
                inner.answered.insert(call.clone());
            }
            // The session has what was said to its turn.
            Op::Withdraw { prompt } if inner.open.contains(&(asked.by.clone(), prompt.clone())) => {}
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
        let is_work = matches!(
            asked.op,
            Op::Prompt { .. } | Op::Propose { .. } | Op::Compress | Op::RunTool { .. } | Op::Shell { .. }
        );
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

    /// Sends the next prompt if the session is idle.
    fn next_prompt(&self) {
        let mut inner = self.inner.locked();
        if inner.running > 0 {
            return;
        }
        let Some(asked) = inner.prompts.pop_front() else { return };
        inner.tell_queue();
        let _ = self.pass(&mut inner, asked);
    }

    /// Declines questions that waited too long without a front end; returns the time until the next check.
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
            let answer = ApprovalAnswer::Refuse("No one answered in time.".to_owned());
            let id = RequestId::new(format!("unanswered-{call}"));
            let op = Op::Decide { call, answer };
            let _ = self.pass(&mut inner, Asked { id, by: FrontId::new("hub"), op });
        }
        self.limits.question
    }
}

impl Inner {
    /// Updates the bookkeeping for an event.
    fn account(&mut self, event: &Event) {
        match event {
            Event::Acknowledged { id, by, result } => {
                let name = (by.clone(), id.clone());
                self.open.remove(&name);
                // Started operations count until they end; refused ones never started.
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

    /// Tells all front ends who is attached.
    fn tell_fronts(&mut self) {
        let all = self.attached.clone();
        self.publish(Event::FrontsChanged(all));
    }

    /// Numbers an event and sends it to all subscribers.
    fn publish(&mut self, event: Event) {
        self.note_turn(&event);
        self.now.fold(&event);
        let numbered = self.log.push(event);
        self.queues.retain(|queue| queue.push(&numbered));
    }

    /// Keeps where the running turn began.
    fn note_turn(&mut self, event: &Event) {
        match event {
            Event::PromptAccepted { message, .. } => {
                self.before_turn.get_or_insert(self.log.last());
                self.prompt.clone_from(message);
            }
            Event::ShellStarted { .. } | Event::StepBegan { .. } | Event::Compressing { .. } => {
                self.before_turn.get_or_insert(self.log.last());
            }
            Event::TurnEnded(_) | Event::ShellEnded(_) => (self.before_turn, self.prompt) = (None, None),
            _ => {}
        }
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

    /// Ends the session for everyone still waiting.
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

/// Drains the events of a session until it ends. A panic ends only this session; no other
/// one is touched by it.
async fn drain(
    hosted: Weak<Hosted>,
    mut events: mpsc::Receiver<Event>,
    task: JoinHandle<()>,
    state: watch::Sender<SessionState>,
    mut companion: Box<dyn Companion>,
) {
    loop {
        let Some(hosted) = hosted.upgrade() else {
            // No front end is left, so the session must not wait for a reader while it ends.
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
                if matches!(event, Event::TurnEnded(_)) {
                    note_turn_end();
                }
                let ExtraEvents { before: mut told, after } = companion.observe(&event);
                told.push(event);
                told.extend(after);
                if let Some(hosted) = held.upgrade() {
                    hosted.tell_all(told).await;
                }
            }
            event = companion.next_event() => {
                if let Some(hosted) = held.upgrade() {
                    hosted.tell(event).await;
                }
            }
            () = tokio::time::sleep(look_again) => {}
        }
    }
    let ended = match task.await {
        Ok(()) => SessionState::Ended,
        Err(error) if error.is_panic() => SessionState::Crashed,
        Err(_) => SessionState::Ended,
    };
    let mut last = Vec::new();
    if ended == SessionState::Crashed {
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
