//! The registry of the core's sessions. Every server of the process uses it: the socket, and whatever else shows sessions.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pollux_domain::approval::{ApprovalMode, ApprovalRequest};
use pollux_domain::content::Content;
use pollux_domain::event::{Op, Refusal, RefusalCode, RequestId};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::CallId;
use pollux_domain::time::{Clock as _, SystemClock, Timestamp};
use pollux_front::rpc::RpcError;
use pollux_host::SessionReport;
use pollux_host::hub::{Front, Hosted, Scopes, SessionState, Subscription};
use pollux_host::request::{Request, SharedServers};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::keeper::{Entering, Kept, keep};
use crate::log::Log;
use crate::open::{failed, name, request};
use crate::snapshot::{SHOWN, snapshot};
use crate::wire::{AttachParams, Attached, Choice, OpenParams, Opened, Report, SessionSummary};

/// How long a session may take to end before it is given up.
const ENDING: Duration = Duration::from_secs(5);
/// Between two looks at sessions that are being opened.
const LOOK: Duration = Duration::from_millis(20);
/// Sessions that may be open at the same time.
const MAX_SESSIONS: usize = 512;
/// The front end that the core itself is.
const CORE: &str = "core";

/// All sessions of the core.
pub struct Sessions {
    entries: RefCell<BTreeMap<String, Rc<SessionEntry>>>,
    /// Stored sessions that are being opened, so that two front ends do not open one twice.
    opening: RefCell<HashMap<String, CancellationToken>>,
    /// How many sessions are being opened.
    under_way: Cell<usize>,
    /// The core stops: no session is opened any more.
    is_closing: Cell<bool>,
    /// MCP servers that the sessions use together.
    servers: SharedServers,
    log: Rc<Log>,
}

/// A session of the core.
pub(crate) struct SessionEntry {
    hosted: Arc<Hosted>,
    report: SessionReport,
    /// What opens it again.
    params: OpenParams,
    modes: Option<mpsc::Sender<Entering>>,
    started: Timestamp,
    /// When it last had a front end or ran a turn.
    active: Cell<(Instant, Timestamp)>,
    /// Why it ends.
    ending: Cell<Option<&'static str>>,
}

/// A front end attached to a session. Dropping it detaches.
pub struct Attachment {
    entry: Rc<SessionEntry>,
    front: Front,
    scopes: Scopes,
}

impl SessionEntry {
    fn state(&self) -> &'static str {
        match self.hosted.state() {
            SessionState::Crashed => "crashed",
            SessionState::Ended => "ended",
            SessionState::Alive => {
                let now = self.hosted.snapshot();
                match (now.questions.is_empty(), now.busy) {
                    (false, _) => "waiting",
                    (true, true) => "busy",
                    (true, false) => "idle",
                }
            }
        }
    }

    fn is_alive(&self) -> bool {
        self.hosted.state() == SessionState::Alive
    }

    fn is_idle(&self) -> bool {
        self.state() == "idle" && self.hosted.snapshot().waiting.is_empty()
    }

    fn touch(&self) {
        self.active.set((Instant::now(), SystemClock.now()));
    }

    fn summary(&self) -> SessionSummary {
        let now = self.hosted.snapshot();
        SessionSummary {
            session: self.report.id.to_string(),
            cwd: self.report.folder.clone(),
            title: now.title.clone(),
            model: if now.model.is_empty() { self.report.model.clone() } else { now.model.clone() },
            mode: now.mode.unwrap_or(self.report.mode).to_string(),
            state: self.state().to_owned(),
            fronts: self.hosted.fronts().iter().map(ToString::to_string).collect(),
            queued: now.waiting.len(),
            seq: now.seq,
            started_at: self.started.to_iso(),
            active_at: self.active.get().1.to_iso(),
        }
    }

    /// The report with what has changed since it was opened.
    fn report(&self) -> Report {
        let mut report = Report::from(&self.report);
        let now = self.hosted.snapshot();
        if let Some(mode) = now.mode {
            report.mode = mode.to_string();
        }
        if !now.model.is_empty() {
            report.model.clone_from(&now.model);
        }
        report
    }
}

impl Sessions {
    pub(crate) fn new(log: Rc<Log>) -> Rc<Self> {
        Rc::new(Self {
            entries: RefCell::default(),
            opening: RefCell::default(),
            under_way: Cell::new(0),
            is_closing: Cell::new(false),
            servers: SharedServers::default(),
            log,
        })
    }

    /// An empty registry of its own, such as for tests of servers.
    pub fn logging_to(file: PathBuf) -> Rc<Self> {
        Self::new(Rc::new(Log::open(file)))
    }

    /// Adds a session that was assembled elsewhere.
    pub fn adopt(self: &Rc<Self>, hosted: Arc<Hosted>, report: SessionReport) {
        self.add(hosted, report, OpenParams::default(), None);
    }

    /// All sessions, in the order of their ids.
    pub fn list(&self) -> Vec<SessionSummary> {
        self.entries.borrow().values().map(|entry| entry.summary()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().values().filter(|entry| entry.is_alive()).count()
    }

    /// Sessions that run a turn or wait for an approval.
    pub(crate) fn busy(&self) -> usize {
        self.entries.borrow().values().filter(|entry| entry.is_alive() && !entry.is_idle()).count()
    }

    fn entry(&self, id: &str) -> Result<Rc<SessionEntry>, RpcError> {
        let id = name(id)?;
        self.entries.borrow().get(id.as_str()).cloned().ok_or_else(|| RpcError::no_such_session(id.as_str()))
    }

    /// The open session that a choice names by its full id.
    fn already_open(&self, params: &OpenParams) -> Option<Rc<SessionEntry>> {
        let Choice::Resume { which, fork: false, .. } = &params.choice else { return None };
        self.entries.borrow().get(which).filter(|entry| entry.is_alive()).cloned()
    }

    /// Opens a session, unless it is open already.
    pub async fn open(self: &Rc<Self>, params: OpenParams) -> Result<Opened, RpcError> {
        let (options, env) = request(&params)?;
        let options = Request { shared_servers: Some(self.servers.clone()), ..options };
        // Two front ends that ask for the same session at once get the same one.
        let which = match &params.choice {
            Choice::Resume { which, fork: false, .. } => which.clone(),
            Choice::NewWithId { id } => id.clone(),
            _ => String::new(),
        };
        loop {
            self.check_open()?;
            if let Choice::NewWithId { id } = &params.choice
                && self.entries.borrow().get(id).is_some_and(|entry| entry.is_alive())
            {
                return Err(RpcError::invalid_params("choice.id", format!("session {id} is already open")));
            }
            if let Some(entry) = self.already_open(&params) {
                return Ok(opened(&entry, Vec::new()));
            }
            let other = self.opening.borrow().get(&which).cloned();
            match other {
                Some(other) => other.cancelled().await,
                None => break,
            }
        }
        if self.len() >= MAX_SESSIONS {
            return Err(RpcError::invalid_request(format!("the core already has {MAX_SESSIONS} sessions")));
        }
        let guard =
            Opening { sessions: Rc::clone(self), which: which.clone(), done: CancellationToken::new() };
        self.under_way.set(self.under_way.get() + 1);
        if !which.is_empty() {
            self.opening.borrow_mut().insert(which, guard.done.clone());
        }
        let begin: Vec<Content> = params.begin.iter().map(Content::from_json).collect();
        let (sender, receiver) = oneshot::channel();
        let task = tokio::task::spawn_local(keep(options, env, begin, sender));
        let kept = match receiver.await {
            Ok(Ok(kept)) => kept,
            Ok(Err(failure)) => return Err(failed(&failure)),
            Err(_) => {
                let _ = task.await;
                let text = "the session could not be opened";
                return Err(failed(&Failure::new(ExitKind::Failure, text)));
            }
        };
        let Kept { hosted, report, notes, modes } = kept;
        self.log.line(&format!("opened session {} in {}", report.id, report.folder.display()));
        let entry = self.add(hosted, report, params, Some(modes));
        // The core began to stop meanwhile, and waits for this one.
        if let Err(error) = self.check_open() {
            self.end(&entry, "shutdown").await;
            return Err(error);
        }
        drop(guard);
        Ok(opened(&entry, notes))
    }

    fn check_open(&self) -> Result<(), RpcError> {
        match self.is_closing.get() {
            true => Err(RpcError::invalid_request("the core is stopping")),
            false => Ok(()),
        }
    }

    /// Adds a session that runs.
    pub(crate) fn add(
        self: &Rc<Self>,
        hosted: Arc<Hosted>,
        report: SessionReport,
        params: OpenParams,
        modes: Option<mpsc::Sender<Entering>>,
    ) -> Rc<SessionEntry> {
        let id = report.id.to_string();
        let now = SystemClock.now();
        let entry = Rc::new(SessionEntry {
            hosted,
            report,
            params,
            modes,
            started: now,
            active: Cell::new((Instant::now(), now)),
            ending: Cell::new(None),
        });
        self.entries.borrow_mut().insert(id.clone(), Rc::clone(&entry));
        let (sessions, own) = (Rc::downgrade(self), Rc::clone(&entry));
        tokio::task::spawn_local(async move {
            let state = own.hosted.ended().await;
            let Some(sessions) = sessions.upgrade() else { return };
            sessions.log.line(&format!("session {id} {}", own.ended_because()));
            // One that crashed stays visible until it is closed or opened again.
            if state != SessionState::Crashed {
                let is_it = |listed: &Rc<SessionEntry>| Rc::ptr_eq(listed, &own);
                let mut entries = sessions.entries.borrow_mut();
                if entries.get(&id).is_some_and(is_it) {
                    entries.remove(&id);
                }
            }
        });
        entry
    }

    /// Attaches a front end. Its events follow from the number that the answer names.
    pub fn attach(
        &self,
        params: &AttachParams,
        name: &str,
        scopes: Scopes,
    ) -> Result<(Attachment, Attached, Subscription), RpcError> {
        let entry = self.entry(&params.session)?;
        if !entry.is_alive() {
            return Err(RpcError::no_such_session(&params.session));
        }
        let refused = |refusal: Refusal| refused(&refusal);
        let front = entry.hosted.attach(name, scopes);
        let front = front.ok_or_else(|| RpcError::no_such_session(&params.session))?;
        let (joined, mut events) = front.join().map_err(refused)?;
        let mut seq = joined.after;
        let busy = joined.now.busy;
        let mut shown = None;
        match params.after.filter(|after| *after <= joined.now.seq && entry.hosted.has_after(*after)) {
            Some(after) => {
                events = front.subscribe(Some(after)).map_err(refused)?;
                seq = after;
            }
            None => {
                let most = params.history.unwrap_or(SHOWN);
                shown = Some(snapshot(&joined, entry.report.file.as_deref(), most));
            }
        }
        entry.touch();
        let attached = Attached {
            session: params.session.clone(),
            front: front.id().to_string(),
            report: entry.report(),
            seq,
            busy,
            snapshot: shown,
        };
        Ok((Attachment { entry, front, scopes }, attached, events))
    }

    /// Opens a copy of a session.
    pub async fn fork(self: &Rc<Self>, id: &str) -> Result<Opened, RpcError> {
        let entry = self.entry(id)?;
        let choice = Choice::Resume { which: id.to_owned(), all_projects: false, fork: true, or_new: false };
        self.open(OpenParams { choice, begin: Vec::new(), ..entry.present_params() }).await
    }

    /// Ends a session and waits until it has freed everything.
    pub async fn close(&self, id: &str, reason: &'static str) -> Result<(), RpcError> {
        let entry = self.entry(id)?;
        self.end(&entry, reason).await;
        // One that does not end stays visible; closing it again may succeed.
        if entry.is_alive() {
            return Err(RpcError::internal(format!("session {id} did not end in time")));
        }
        let mut entries = self.entries.borrow_mut();
        if entries.get(id).is_some_and(|listed| Rc::ptr_eq(listed, &entry)) {
            entries.remove(id);
        }
        Ok(())
    }

    async fn end(&self, entry: &Rc<SessionEntry>, reason: &'static str) {
        entry.ending.set(Some(reason));
        let scopes = Scopes { watch: true, drive: true, approve: false, admin: true };
        if let Some(front) = entry.hosted.attach(CORE, scopes) {
            let _ = front.ask(Op::Cancel);
            let _ = front.ask(Op::End { cleared: false });
        }
        if tokio::time::timeout(ENDING, entry.hosted.ended()).await.is_err() {
            self.log.line(&format!("session {} did not end in time", entry.report.id));
        }
    }

    /// Ends all sessions, also those that are being opened; returns what opens them again.
    pub(crate) async fn close_all(&self, reason: &'static str) -> Vec<OpenParams> {
        self.is_closing.set(true);
        let entries: Vec<Rc<SessionEntry>> = self.entries.borrow().values().cloned().collect();
        let alive: Vec<Rc<SessionEntry>> = entries.into_iter().filter(|entry| entry.is_alive()).collect();
        let params = alive.iter().filter_map(|entry| entry.reopening()).collect();
        join_all(alive.iter().map(|entry| self.end(entry, reason))).await;
        let opened = async {
            while self.under_way.get() > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(ENDING, opened).await.is_err() {
            self.log.line("a session was still being opened");
        }
        self.entries.borrow_mut().clear();
        params
    }

    /// Closes sessions that nobody uses: their files are complete, and attaching opens them again.
    pub(crate) async fn unload(&self, after: Duration) {
        let entries: Vec<Rc<SessionEntry>> = self.entries.borrow().values().cloned().collect();
        for entry in entries {
            if !entry.is_alive() {
                continue;
            }
            if !entry.is_idle() || !entry.hosted.fronts().is_empty() {
                entry.touch();
            } else if entry.active.get().0.elapsed() >= after {
                self.end(&entry, "unloaded").await;
            }
        }
    }
}

impl SessionEntry {
    /// What opens this session again; `None` if nothing of it is stored.
    fn reopening(&self) -> Option<OpenParams> {
        self.report.file.as_ref().filter(|file| file.exists())?;
        let which = self.report.id.to_string();
        let choice = Choice::Resume { which, all_projects: false, fork: false, or_new: false };
        Some(OpenParams { choice, begin: Vec::new(), ..self.present_params() })
    }

    /// What opened it, with the mode that it is in now: one that the user has left must not come back.
    fn present_params(&self) -> OpenParams {
        let mut params = self.params.clone();
        params.options.approval = Some(self.mode().to_string());
        params
    }

    fn mode(&self) -> ApprovalMode {
        self.hosted.snapshot().mode.unwrap_or(self.report.mode)
    }

    pub(crate) fn ended_because(&self) -> &'static str {
        match self.hosted.state() {
            SessionState::Crashed => "crashed",
            SessionState::Alive | SessionState::Ended => self.ending.get().unwrap_or("closed"),
        }
    }
}

fn opened(entry: &Rc<SessionEntry>, notes: Vec<String>) -> Opened {
    Opened { session: entry.report.id.to_string(), report: entry.report(), notes }
}

/// Lets others go on when an opening has ended, well or not.
struct Opening {
    sessions: Rc<Sessions>,
    which: String,
    done: CancellationToken,
}

impl Drop for Opening {
    fn drop(&mut self) {
        if !self.which.is_empty() {
            self.sessions.opening.borrow_mut().remove(&self.which);
        }
        self.sessions.under_way.set(self.sessions.under_way.get().saturating_sub(1));
        self.done.cancel();
    }
}

impl Attachment {
    /// The name of the front end.
    pub fn front(&self) -> &Front {
        &self.front
    }

    /// The open question about a call.
    pub fn question(&self, call: &CallId) -> Option<Arc<ApprovalRequest>> {
        self.entry.hosted.snapshot().questions.iter().find(|question| question.call == *call).cloned()
    }

    /// Why no more events come.
    pub fn ended_because(&self) -> &'static str {
        self.entry.ended_because()
    }

    /// Sends an operation. A mode is entered only when its sandbox is in force.
    pub async fn ask(&self, id: Option<RequestId>, op: Op) -> Result<RequestId, RpcError> {
        let mode = match &op {
            // The front end is told why it may not, without any effect.
            Op::SetMode(mode) if self.scopes.allow(&op) => Some(*mode),
            _ => None,
        };
        let before = self.entry.mode();
        if let Some(mode) = mode {
            self.enter(mode).await?;
        }
        self.entry.touch();
        let asked = match id {
            Some(id) => self.front.ask_as(id.clone(), op).map(|()| id),
            None => self.front.ask(op),
        };
        if asked.is_err() && mode.is_some() {
            // The session stays in its mode, and so does its sandbox.
            self.enter(before).await?;
        }
        asked.map_err(|refusal| refused(&refusal))
    }

    async fn enter(&self, mode: ApprovalMode) -> Result<(), RpcError> {
        let Some(modes) = self.entry.modes.as_ref().filter(|_| self.scopes.drive) else { return Ok(()) };
        let (answer, entered) = oneshot::channel();
        let _ = modes.send(Entering { mode, answer }).await;
        match entered.await {
            Ok(Err(message)) => Err(refused(&Refusal { code: RefusalCode::NotAllowed, message })),
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.entry.touch();
    }
}

/// A refusal as an error answer.
fn refused(refusal: &Refusal) -> RpcError {
    let data = serde_json::json!({"code": refusal.code.as_str()});
    RpcError::new(crate::wire::code::REFUSED, refusal.message.clone(), Some(data))
}
