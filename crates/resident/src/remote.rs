//! A conversation's connection to a session of the core. It survives a restart of the core.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_config::env::Env;
use pollux_domain::BoxFuture;
use pollux_domain::approval::Outcome;
use pollux_domain::event::{
    Event, FrontId, NoticeCode, Op, OpResult, Refusal, RefusalCode, RequestId, Severity, TurnEnd,
};
use pollux_domain::failure::Failure;
use pollux_domain::id::CallId;
use pollux_front::remote::RemoteSession;
use pollux_front::rpc::{Incoming, RpcError};
use pollux_host::{HistoryItem, SessionLink, SessionReport};
use tokio::sync::mpsc;

use crate::client::Client;
use crate::daemon::connect;
use crate::open::failure;
use crate::wire::{
    AttachParams, Attached, Choice, EndedParams, EventParams, OpParams, OpenParams, Opened, SessionParams,
};

/// Events that wait for the conversation; the core keeps the rest.
const WAITING: usize = 256;
/// How long a core that is gone may take to come back, and one that is restarted.
const GONE: Duration = Duration::from_secs(3);
const RESTART: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(50);
/// The code of a session that is not open.
const NOT_FOUND: i32 = -32002;

/// Opens the session, or finds it open; `params` also opens it again after a restart of the core.
pub async fn open(
    mut client: Client,
    params: OpenParams,
    env: &Env,
    kind: &str,
) -> Result<RemoteSession, Failure> {
    let opened: Opened = client.call("session/open", &params).await.map_err(|error| failure(&error))?;
    let mut session = attach(client, &opened.session, params, env, kind).await?;
    session.notes = opened.notes;
    Ok(session)
}

/// Attaches to a session that is open.
pub async fn attach(
    mut client: Client,
    session: &str,
    params: OpenParams,
    env: &Env,
    kind: &str,
) -> Result<RemoteSession, Failure> {
    let asked = AttachParams { session: session.to_owned(), ..AttachParams::default() };
    let attached: Attached = client.call("session/attach", &asked).await.map_err(|error| failure(&error))?;
    let report = SessionReport::from(&attached.report);
    let id = FrontId::new(attached.front.as_str());
    let snapshot = attached.snapshot.clone().unwrap_or_default();
    let (ops, asked) = mpsc::unbounded_channel();
    let (sender, events) = mpsc::channel(WAITING);
    let choice =
        Choice::Resume { which: session.to_owned(), all_projects: false, fork: false, or_new: false };
    let mut reopen = OpenParams { choice, begin: Vec::new(), cwd: report.folder.clone(), ..params };
    reopen.options.approval = Some(attached.report.mode.clone());
    let driver = Driver {
        instance: client.welcome.instance.clone(),
        session: session.to_owned(),
        front: id.clone(),
        seq: attached.seq,
        busy: attached.busy,
        questions: HashSet::new(),
        waiting: HashMap::new(),
        unacknowledged: Vec::new(),
        ends: false,
        reopen,
        env: env.clone(),
        kind: kind.to_owned(),
        events: sender,
    };
    let first = snapshot.state.into_iter().filter_map(|event| Event::from_json(event).ok()).collect();
    tokio::spawn(driver.run(client, first, asked));
    Ok(RemoteSession {
        link: Box::new(Remote { id, events, ops }),
        report,
        history: snapshot.history.into_iter().map(HistoryItem::from).collect(),
        above: snapshot.above,
        busy: attached.busy,
        notes: Vec::new(),
    })
}

/// The conversation's end.
struct Remote {
    id: FrontId,
    events: mpsc::Receiver<Arc<Event>>,
    ops: mpsc::UnboundedSender<(RequestId, Op)>,
}

impl SessionLink for Remote {
    fn id(&self) -> &FrontId {
        &self.id
    }

    fn next(&mut self) -> BoxFuture<'_, Option<Arc<Event>>> {
        Box::pin(self.events.recv())
    }

    fn try_next(&mut self) -> Option<Arc<Event>> {
        self.events.try_recv().ok()
    }

    fn ask_as(&self, id: RequestId, op: Op) -> Result<(), Refusal> {
        self.ops.send((id, op)).map_err(|_| ended())
    }
}

fn ended() -> Refusal {
    Refusal { code: RefusalCode::Ended, message: "session has ended".to_owned() }
}

/// Passes events and operations between a connection and a conversation.
struct Driver {
    instance: String,
    session: String,
    front: FrontId,
    /// The number of the last event.
    seq: u64,
    busy: bool,
    /// Questions that the conversation shows.
    questions: HashSet<CallId>,
    /// Operations whose requests are not answered yet.
    waiting: HashMap<u64, RequestId>,
    /// Operations that the conversation waits for.
    unacknowledged: Vec<(RequestId, Awaited)>,
    /// The conversation has asked the session to end.
    ends: bool,
    reopen: OpenParams,
    env: Env,
    kind: String,
    events: mpsc::Sender<Arc<Event>>,
}

/// What the conversation waits for after an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// The end of a turn, which may have to wait for another one.
    QueuedTurn,
    /// The end of a turn or command that begins at once.
    Turn,
    /// The acknowledgement alone.
    Answer,
}

impl Awaited {
    fn after(op: &Op) -> Option<Self> {
        match op {
            Op::Prompt { .. } => Some(Self::QueuedTurn),
            Op::Compress | Op::RunTool { .. } | Op::Propose { .. } | Op::Shell { .. } => Some(Self::Turn),
            Op::SetModel(_)
            | Op::Budget(_)
            | Op::Describe
            | Op::Rewind { .. }
            | Op::SetTitle(_)
            | Op::Explain { .. } => Some(Self::Answer),
            Op::Steer { .. }
            | Op::Withdraw { .. }
            | Op::Cancel
            | Op::Decide { .. }
            | Op::SetMode(_)
            | Op::ShellRan { .. }
            | Op::SetTerminal(_)
            | Op::Type { .. }
            | Op::MoveToBackground { .. }
            | Op::End { .. } => None,
        }
    }
}

/// Why events stop.
enum End {
    /// The conversation has left.
    Left,
    /// The session has ended, for this reason.
    Over(String),
    /// Events were lost.
    Lagged,
    /// The connection is closed.
    Lost,
}

type Ops = mpsc::UnboundedReceiver<(RequestId, Op)>;

impl Driver {
    async fn run(mut self, mut client: Client, first: Vec<Event>, mut ops: Ops) {
        for event in first {
            self.tell(event).await;
        }
        loop {
            let patience = match self.follow(&mut client, &mut ops).await {
                End::Left => {
                    let session = SessionParams { session: self.session };
                    let _ = client.send("session/detach", &session).await;
                    return;
                }
                End::Over(reason) if reason == "restart" => RESTART,
                End::Over(_) if self.ends => return,
                End::Over(reason) => return self.say_goodbye(&reason).await,
                End::Lagged => {
                    let after = Some(self.seq);
                    match self.attach(&mut client, after).await {
                        Ok(()) => continue,
                        Err(_) => GONE,
                    }
                }
                End::Lost => GONE,
            };
            match self.reconnect(patience).await {
                Some(again) => client = again,
                None => return self.say_goodbye("lost").await,
            }
        }
    }

    /// Passes on what comes until it stops.
    async fn follow(&mut self, client: &mut Client, ops: &mut Ops) -> End {
        loop {
            tokio::select! {
                message = client.next() => match message {
                    None => return End::Lost,
                    Some(message) => if let Some(end) = self.take(message).await {
                        return end;
                    },
                },
                asked = ops.recv() => {
                    let Some((id, op)) = asked else { return End::Left };
                    self.ends |= matches!(op, Op::End { .. });
                    if let Some(awaited) = Awaited::after(&op) {
                        self.unacknowledged.push((id.clone(), awaited));
                    }
                    let params =
                        OpParams { session: self.session.clone(), id: Some(id.to_string()), op: op.to_json() };
                    match client.send("op", &params).await {
                        Ok(number) => drop(self.waiting.insert(number, id)),
                        Err(_) => {
                            self.refuse(id, ended()).await;
                            return End::Lost;
                        }
                    }
                }
            }
        }
    }

    async fn take(&mut self, message: Incoming) -> Option<End> {
        match message {
            Incoming::Notification { method, params } => match method.as_str() {
                "event" => {
                    let EventParams { session, seq, event } = serde_json::from_value(params).ok()?;
                    if session == self.session {
                        self.seq = seq;
                        // A newer core may have events that this program does not know.
                        if let Ok(event) = Event::from_json(event) {
                            return (!self.tell(event).await).then_some(End::Left);
                        }
                    }
                }
                "lagged" => return Some(End::Lagged),
                "ended" => {
                    let EndedParams { session, reason } = serde_json::from_value(params).ok()?;
                    return (session == self.session).then_some(End::Over(reason));
                }
                _ => {}
            },
            Incoming::Answer { id, result } => {
                if let (Some(asked), Err(error)) = (self.waiting.remove(&id), result) {
                    self.refuse(asked, refusal(&RpcError::from_json(&error))).await;
                }
            }
            Incoming::Request { .. } | Incoming::Bad { .. } => {}
        }
        None
    }

    /// Passes on an event; false if the conversation has left.
    async fn tell(&mut self, event: Event) -> bool {
        match &event {
            Event::Acknowledged { id, .. } => self.unacknowledged.retain(|(asked, _)| asked != id),
            Event::PromptAccepted { .. }
            | Event::StepBegan { .. }
            | Event::ShellStarted { .. }
            | Event::Compressing { .. } => self.busy = true,
            Event::TurnEnded(_) | Event::ShellEnded(_) => self.busy = false,
            // A restarted core must not return to a mode that was left.
            Event::ModeChanged { mode, .. } => self.reopen.options.approval = Some(mode.to_string()),
            Event::ApprovalWanted(request) => drop(self.questions.insert(request.call.clone())),
            Event::ApprovalSettled { call, .. } => drop(self.questions.remove(call)),
            _ => {}
        }
        self.events.send(Arc::new(event)).await.is_ok()
    }

    async fn refuse(&mut self, id: RequestId, refusal: Refusal) {
        let (by, result) = (self.front.clone(), OpResult::Refused(refusal));
        self.tell(Event::Acknowledged { id, by, result }).await;
    }

    async fn notice(&mut self, severity: Severity, message: String) {
        self.tell(Event::Notice { severity, code: NoticeCode::Server, message }).await;
    }

    /// Attaches again and tells the conversation what it has missed.
    async fn attach(&mut self, client: &mut Client, after: Option<u64>) -> Result<(), RpcError> {
        let params = AttachParams { session: self.session.clone(), after, history: Some(0) };
        let attached: Attached = client.call("session/attach", &params).await?;
        for message in client.take_stash() {
            match &message {
                // What came before the answer belongs to the earlier attachment; it comes again or is in the snapshot.
                Incoming::Notification { method, .. } if method != "ended" => {}
                Incoming::Notification { .. } => client.put_back(message),
                _ => drop(self.take(message).await),
            }
        }
        self.catch_up(attached).await;
        Ok(())
    }

    /// Tells the conversation what it has missed.
    async fn catch_up(&mut self, attached: Attached) {
        self.seq = attached.seq;
        self.front = FrontId::new(attached.front.as_str());
        let Some(snapshot) = attached.snapshot else { return };
        let state: Vec<Event> =
            snapshot.state.into_iter().filter_map(|event| Event::from_json(event).ok()).collect();
        // What the conversation shows of the earlier turn is over.
        for call in std::mem::take(&mut self.questions) {
            self.tell(Event::ApprovalSettled { call, outcome: Outcome::Refuse, by: None }).await;
        }
        if self.busy && (!attached.busy || snapshot.complete) {
            self.tell(Event::TurnEnded(TurnEnd::Cancelled)).await;
        }
        self.settle_lost(&state, attached.busy).await;
        for event in state {
            self.tell(event).await;
        }
        self.busy = attached.busy;
    }

    /// Acknowledges operations whose acknowledgements were among the lost events, so that nobody waits for them.
    async fn settle_lost(&mut self, state: &[Event], is_busy: bool) {
        let is_queued = |id: &RequestId| {
            state.iter().any(|event| match event {
                Event::QueueChanged(waiting) => waiting.iter().any(|prompt| prompt.id == *id),
                _ => false,
            })
        };
        let mut has_lost_turn = false;
        for (id, awaited) in self.unacknowledged.clone() {
            match awaited {
                Awaited::QueuedTurn if is_queued(&id) => {}
                Awaited::QueuedTurn | Awaited::Turn => {
                    has_lost_turn = true;
                    let (by, result) = (self.front.clone(), OpResult::Accepted);
                    self.tell(Event::Acknowledged { id, by, result }).await;
                }
                Awaited::Answer => {
                    let message = "the answer was lost because this front end fell behind".to_owned();
                    self.refuse(id, Refusal { code: RefusalCode::Dropped, message }).await;
                }
            }
        }
        if has_lost_turn && !is_busy {
            let text = "The turn has ended, but its events were lost because this front end fell behind.";
            self.notice(Severity::Warning, text.to_owned()).await;
            self.tell(Event::TurnEnded(TurnEnd::Cancelled)).await;
        }
    }

    /// Waits for the core to come back, and opens the session in it.
    async fn reconnect(&mut self, patience: Duration) -> Option<Client> {
        let began = Instant::now();
        let mut asked: HashSet<RequestId> = std::mem::take(&mut self.waiting).into_values().collect();
        asked.extend(std::mem::take(&mut self.unacknowledged).into_iter().map(|(id, _)| id));
        for id in asked {
            self.refuse(id, ended()).await;
        }
        while began.elapsed() < patience && !self.events.is_closed() {
            if let Ok(Some(mut client)) = connect(&self.env, &self.kind).await
                && self.enter(&mut client).await.is_ok()
            {
                self.notice(Severity::Info, "Reconnected to the core.".to_owned()).await;
                return Some(client);
            }
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    async fn enter(&mut self, client: &mut Client) -> Result<(), RpcError> {
        let is_same = client.welcome.instance == self.instance;
        let after = is_same.then_some(self.seq);
        self.instance.clone_from(&client.welcome.instance);
        match self.attach(client, after).await {
            Err(error) if error.code == NOT_FOUND => {
                let _: Opened = client.call("session/open", &self.reopen).await?;
                self.attach(client, None).await
            }
            done => done,
        }
    }

    async fn say_goodbye(mut self, reason: &str) {
        for call in std::mem::take(&mut self.questions) {
            self.tell(Event::ApprovalSettled { call, outcome: Outcome::Refuse, by: None }).await;
        }
        let (severity, why) = match reason {
            "crashed" => (Severity::Error, "The session crashed"),
            "unloaded" => (Severity::Info, "The core closed the idle session"),
            "shutdown" => (Severity::Warning, "The core was stopped"),
            "lost" => (Severity::Error, "The core is no longer running"),
            _ => (Severity::Info, "Another front end closed the session"),
        };
        let text =
            format!("{why}. The session is saved. To resume it, run `pollux attach {}`.", self.session);
        self.notice(severity, text).await;
        if self.busy {
            self.tell(Event::TurnEnded(TurnEnd::Cancelled)).await;
        }
    }
}

/// A refused operation, as sessions of this process report it.
fn refusal(error: &RpcError) -> Refusal {
    let word = error.data.as_ref().and_then(|data| data.get("code")?.as_str());
    let all = [
        RefusalCode::NotWaiting,
        RefusalCode::NotOffered,
        RefusalCode::NotAllowed,
        RefusalCode::QueueFull,
        RefusalCode::Dropped,
        RefusalCode::Untrusted,
        RefusalCode::NotFound,
        RefusalCode::Unsupported,
        RefusalCode::Ended,
    ];
    let code = all.into_iter().find(|code| Some(code.as_str()) == word).unwrap_or(RefusalCode::Failed);
    Refusal { code, message: error.message.clone() }
}

#[cfg(test)]
mod tests {
    use pollux_domain::event::WaitingPrompt;

    use super::*;
    use crate::wire::{Report, Snapshot};

    fn driver() -> (Driver, mpsc::Receiver<Arc<Event>>) {
        let (events, told) = mpsc::channel(WAITING);
        let driver = Driver {
            instance: "i".to_owned(),
            session: "s".to_owned(),
            front: FrontId::new("tui"),
            seq: 4,
            busy: false,
            questions: HashSet::new(),
            waiting: HashMap::new(),
            unacknowledged: Vec::new(),
            ends: false,
            reopen: OpenParams::default(),
            env: Env::new(Vec::<(String, String)>::new(), "/".into()),
            kind: "tui".to_owned(),
            events,
        };
        (driver, told)
    }

    fn attached(busy: bool, state: &[Event]) -> Attached {
        let report = Report {
            session: "s".to_owned(),
            cwd: "/".into(),
            file: None,
            provider: "gemini".to_owned(),
            model: "m".to_owned(),
            auth: None,
            mode: "default".to_owned(),
            sandbox: String::new(),
        };
        let state = state.iter().map(Event::to_json).collect();
        let snapshot = Some(Snapshot { state, complete: true, ..Snapshot::default() });
        Attached { session: "s".to_owned(), front: "tui".to_owned(), report, seq: 9_000, busy, snapshot }
    }

    fn drained(told: &mut mpsc::Receiver<Arc<Event>>) -> Vec<String> {
        let mut seen = Vec::new();
        while let Ok(event) = told.try_recv() {
            match &*event {
                Event::Acknowledged { id, result: OpResult::Accepted, .. } => {
                    seen.push(format!("{id} accepted"))
                }
                Event::Acknowledged { id, .. } => seen.push(format!("{id} refused")),
                Event::TurnEnded(_) => seen.push("turn ended".to_owned()),
                _ => {}
            }
        }
        seen
    }

    fn id(name: &str) -> RequestId {
        RequestId::new(name)
    }

    #[tokio::test]
    async fn nobody_waits_for_an_acknowledgement_that_was_lost() {
        for (awaited, busy, expected) in [
            (Awaited::QueuedTurn, false, &["x accepted", "turn ended"][..]),
            (Awaited::QueuedTurn, true, &["x accepted"]),
            (Awaited::Turn, false, &["x accepted", "turn ended"]),
            (Awaited::Answer, false, &["x refused"]),
            (Awaited::Answer, true, &["x refused"]),
        ] {
            let (mut driver, mut told) = driver();
            driver.unacknowledged.push((id("x"), awaited));
            driver.catch_up(attached(busy, &[])).await;
            assert_eq!(drained(&mut told), expected, "{awaited:?}");
            assert_eq!((driver.seq, driver.busy, driver.unacknowledged.len()), (9_000, busy, 0));
        }
    }

    #[tokio::test]
    async fn prompts_that_still_wait_and_operations_that_were_acknowledged_are_left_alone() {
        let (mut driver, mut told) = driver();
        driver.unacknowledged = vec![(id("queued"), Awaited::QueuedTurn), (id("done"), Awaited::Answer)];
        let (by, result) = (driver.front.clone(), OpResult::Accepted);
        driver.tell(Event::Acknowledged { id: id("done"), by: by.clone(), result }).await;
        assert_eq!(drained(&mut told), ["done accepted"]);
        let waiting = WaitingPrompt { id: id("queued"), by, typed: "later".to_owned() };
        driver.catch_up(attached(true, &[Event::QueueChanged(vec![waiting])])).await;
        assert_eq!(drained(&mut told), [""; 0]);
        assert_eq!(driver.unacknowledged, [(id("queued"), Awaited::QueuedTurn)]);
        // Without a snapshot every event comes again.
        let (mut driver, mut told) = self::driver();
        driver.unacknowledged.push((id("x"), Awaited::QueuedTurn));
        driver.catch_up(Attached { snapshot: None, ..attached(false, &[]) }).await;
        assert_eq!((drained(&mut told).len(), driver.unacknowledged.len()), (0, 1));
    }
}
