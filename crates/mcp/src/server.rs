//! The shared state of one server, and what it offers.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_config::trust::scripts::NamedScripts;
use pollux_domain::sync::Locked as _;
use rmcp::model::ProgressToken;
use rmcp::service::{Peer, RoleClient};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::cache::{Cache, Declarations};
use crate::config::ServerConfig;
use crate::listener::NotificationListener;
use crate::log::Log;
use crate::offer::{INSTRUCTIONS, Offer, bounded};
use crate::setup::Owners;
use crate::tool::{self, DeclaredTool};
use crate::users::{User, Users};

/// Lines of progress that are kept for calls which do not listen yet.
const EARLY: usize = 32;
/// How long after its start a call still waits for a server that has not answered.
const START_WAIT: Duration = Duration::from_secs(30);

/// The connection status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Connecting,
    Connected,
    Disconnected,
}

impl Status {
    pub fn is_connected(self) -> bool {
        self == Self::Connected
    }

    pub fn is_disconnected(self) -> bool {
        self == Self::Disconnected
    }
}

/// A status report of a server.
#[derive(Debug, Clone)]
pub struct Report {
    pub name: String,
    pub status: Status,
    /// Why it is not connected.
    pub problem: Option<String>,
    /// The challenge, if sign-in is required.
    pub sign_in: Option<String>,
    pub version: Option<String>,
    /// Names on the wire with descriptions and declared names.
    pub tools: Vec<ToolReport>,
    pub prompts: Vec<String>,
    pub resources: usize,
    /// What it last printed to stderr, and logged.
    pub log: Vec<String>,
}

/// A tool in a status report.
#[derive(Debug, Clone)]
pub struct ToolReport {
    pub name: String,
    pub declared: String,
    pub description: String,
}

/// What all servers share.
pub(crate) struct SharedContext {
    pub(crate) owners: Owners,
    /// Where programs are started.
    pub(crate) directory: PathBuf,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) interactive: bool,
    /// Ours.
    pub(crate) version: String,
    pub(crate) name_tool: fn(&str, &str) -> String,
    pub(crate) listener: Option<Arc<dyn NotificationListener>>,
}

/// A server.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    /// The files of the project that it runs.
    pub(crate) scripts: NamedScripts,
    pub(crate) access: Option<Arc<dyn Access>>,
    pub(crate) common: Arc<SharedContext>,
    pub(crate) log: Arc<Log>,
    /// Something in its lists changed.
    pub(crate) relist: Notify,
    /// The sessions that use it.
    pub(crate) users: Users,
    /// Counts what changed.
    changes: AtomicU64,
    progress: Mutex<Listeners>,
    state: watch::Sender<ServerState>,
    /// Where its declarations are kept for the next run.
    cache: Option<Cache>,
    /// A wait for it timed out since its last start.
    waited: AtomicBool,
    /// That was said.
    told: AtomicBool,
}

/// A server as one session uses it.
#[derive(Clone)]
pub(crate) struct ServerUse {
    pub(crate) server: Arc<Server>,
    pub(crate) user: Arc<User>,
}

impl Deref for ServerUse {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// Calls that want to hear of progress.
#[derive(Default)]
struct Listeners {
    calls: HashMap<ProgressToken, Arc<Progress>>,
    /// What came before its call could say that it listens.
    early: VecDeque<(ProgressToken, String)>,
}

/// Who hears of a call's progress.
pub(crate) struct Progress {
    pub(crate) tell: Arc<dyn Fn(&str) + Send + Sync>,
    /// Progress puts the time limit off.
    pub(crate) made: Notify,
}

/// What is known now.
#[derive(Clone)]
pub(crate) struct ServerState {
    pub(crate) status: Status,
    /// When it was started, or started again.
    pub(crate) since: Instant,
    /// What it offers is known from an earlier run only; it has not said so itself yet.
    pub(crate) recalled: bool,
    pub(crate) peer: Option<Peer<RoleClient>>,
    pub(crate) problem: Option<String>,
    pub(crate) sign_in: Option<String>,
    pub(crate) offer: Arc<Offer>,
    pub(crate) tools: Arc<[Arc<DeclaredTool>]>,
    pub(crate) instructions: Option<String>,
    pub(crate) implementation: Option<String>,
}

impl Server {
    /// A server that is about to be started. What it offered last counts until it answers.
    pub(crate) fn new(
        config: ServerConfig,
        access: Option<Arc<dyn Access>>,
        common: Arc<SharedContext>,
        cache: Option<Cache>,
        scripts: NamedScripts,
    ) -> Arc<Self> {
        let log = Arc::new(Log::hiding(config.secrets()));
        let state = ServerState {
            status: Status::Connecting,
            since: Instant::now(),
            recalled: false,
            peer: None,
            problem: None,
            sign_in: None,
            offer: Arc::default(),
            tools: Arc::new([]),
            instructions: None,
            implementation: None,
        };
        let (state, _) = watch::channel(state);
        let kept = cache.as_ref().and_then(Cache::read);
        let server = Arc::new(Self {
            config,
            scripts,
            access,
            common,
            log,
            relist: Notify::new(),
            users: Users::default(),
            changes: AtomicU64::new(0),
            progress: Mutex::default(),
            state,
            cache,
            waited: AtomicBool::new(false),
            told: AtomicBool::new(false),
        });
        if let Some(Declarations { offer, instructions }) = kept {
            let (tools, _) = tool::tools(&server, &offer);
            server.publish(|state| {
                state.recalled = true;
                state.offer = Arc::new(offer);
                state.tools = tools.into();
                state.instructions = instructions;
            });
        }
        server
    }

    /// How often something changed that others are to notice.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    pub(crate) fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    /// A change that others are to notice.
    fn publish(&self, change: impl FnOnce(&mut ServerState)) {
        self.state.send_modify(|state| {
            change(state);
            // Publish the change before its version number.
            self.changes.fetch_add(1, Ordering::Release);
        });
    }

    /// It is started now; from here on waits are counted.
    pub(crate) fn starts(&self) {
        self.waited.store(false, Ordering::Release);
        self.state.send_modify(|state| state.since = Instant::now());
    }

    pub(crate) fn connecting(&self) {
        self.starts();
        self.publish(|state| {
            state.status = Status::Connecting;
            state.peer = None;
        });
    }

    /// It is there, and this is what it offers.
    pub(crate) fn connected(self: &Arc<Self>, peer: &Peer<RoleClient>, offer: Offer) {
        let (tools, left_out) = tool::tools(self, &offer);
        left_out.iter().for_each(|line| self.log.push(line));
        let info = peer.peer_info();
        let instructions = info.as_ref().and_then(|info| info.instructions.as_deref());
        let instructions = instructions.map(str::trim).filter(|text| !text.is_empty());
        let instructions = instructions.map(|text| bounded(text, INSTRUCTIONS));
        let implementation = info.as_ref().and_then(|info| info.server_info.as_ref());
        let known = Declarations { offer, instructions };
        if let Some(cache) = &self.cache {
            cache.write(&known);
        }
        let Declarations { offer, instructions } = known;
        self.publish(|state| {
            state.status = Status::Connected;
            state.recalled = false;
            state.peer = Some(peer.clone());
            state.problem = None;
            state.sign_in = None;
            state.offer = Arc::new(offer);
            state.tools = tools.into();
            state.instructions = instructions;
            state.implementation = implementation.map(|server| format!("{} {}", server.name, server.version));
        });
    }

    /// It is not there, and will not be.
    pub(crate) fn gone(&self, problem: String, sign_in: Option<String>) {
        let problem = self.log.hidden(&problem);
        if let Some(cache) = &self.cache {
            // Do not cache a server that fails.
            cache.forget();
        }
        self.publish(|state| {
            state.status = Status::Disconnected;
            state.recalled = false;
            state.peer = None;
            state.problem = Some(problem);
            state.sign_in = sign_in;
            state.offer = Arc::default();
            state.tools = Arc::new([]);
            state.instructions = None;
        });
    }

    /// Waits until it is connected or has failed, up to this time after its start. There is no second wait
    /// for a server that timed out.
    pub(crate) async fn settled(&self, most: Duration, cancel: &CancellationToken) -> ServerState {
        if self.state.borrow().status != Status::Connecting || self.waited.load(Ordering::Acquire) {
            return self.state();
        }
        let until = self.state.borrow().since + most;
        let mut watch = self.state.subscribe();
        let settled = watch.wait_for(|state| state.status != Status::Connecting);
        tokio::select! {
            biased;
            _ = settled => {}
            () = cancel.cancelled() => {}
            () = sleep_until(until) => self.waited.store(true, Ordering::Release),
        }
        self.state()
    }

    /// Waits until it has failed.
    pub(crate) async fn disconnected(&self) {
        let mut watch = self.state.subscribe();
        if watch.wait_for(|state| state.status == Status::Disconnected).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until it is no longer connected.
    pub(crate) async fn not_connected(&self) {
        let mut watch = self.state.subscribe();
        let _ = watch.wait_for(|state| state.status != Status::Connected).await;
    }

    /// Waits until it can be asked for something; at most as long as a start may take.
    pub(crate) async fn ready(&self, cancel: &CancellationToken) -> ServerState {
        self.settled(START_WAIT.min(self.config.timeout), cancel).await
    }

    /// Whether it is still starting and nobody knows what it offers.
    pub(crate) fn is_unknown(&self) -> bool {
        let state = self.state.borrow();
        state.status == Status::Connecting && state.offer.is_empty()
    }

    /// Whether it was waited for in vain and nobody was told yet.
    pub(crate) fn takes_note(&self) -> bool {
        self.waited.load(Ordering::Acquire) && !self.told.swap(true, Ordering::AcqRel)
    }

    /// Why none of its tools can be called; `None` while it is connected, or was before it ended.
    pub(crate) fn absence(&self) -> Option<String> {
        let state = self.state.borrow();
        let name = self.name();
        match state.status {
            Status::Connected => None,
            Status::Connecting if !state.recalled && !state.offer.is_empty() => None,
            Status::Connecting => Some(format!(
                "MCP server '{name}' is still starting (for {} s so far). Its tools can be called as soon as \
                 it is ready. Continue without them, or try again later.",
                state.since.elapsed().as_secs()
            )),
            Status::Disconnected => {
                let why = state.problem.as_deref().unwrap_or("it exited");
                Some(format!("MCP server '{name}' is not connected: {why}"))
            }
        }
    }

    pub(crate) fn watch(&self, token: ProgressToken, progress: Arc<Progress>) {
        let early: Vec<String> = self.with_listeners(|listeners| {
            listeners.calls.insert(token.clone(), Arc::clone(&progress));
            let (own, others) = listeners.early.drain(..).partition(|(other, _)| *other == token);
            listeners.early = others;
            let own: VecDeque<(ProgressToken, String)> = own;
            own.into_iter().map(|(_, text)| text).collect()
        });
        early.iter().for_each(|text| (progress.tell)(text));
    }

    pub(crate) fn unwatch(&self, token: &ProgressToken) {
        self.with_listeners(|listeners| listeners.calls.remove(token));
    }

    /// Passes on that a call got further.
    pub(crate) fn progressed(&self, token: ProgressToken, text: String) {
        let mut left_out = None;
        let call = self.with_listeners(|listeners| match listeners.calls.get(&token) {
            Some(call) => Some((Arc::clone(call), text)),
            None => {
                if listeners.early.len() == EARLY {
                    left_out = listeners.early.pop_back();
                }
                listeners.early.push_back((token, text));
                None
            }
        });
        if let Some((_, text)) = left_out {
            self.log.push(&format!("dropped, because no call is listening yet: {text}"));
        }
        if let Some((call, text)) = call {
            call.made.notify_one();
            (call.tell)(&text);
        }
    }

    fn with_listeners<T>(&self, act: impl FnOnce(&mut Listeners) -> T) -> T {
        act(&mut self.progress.locked())
    }

    pub(crate) fn report(&self) -> Report {
        let state = self.state();
        let tools = state.tools.iter().zip(tool::kept(&self.config, &self.common, &state.offer));
        Report {
            name: self.name().to_owned(),
            status: state.status,
            problem: state.problem,
            sign_in: state.sign_in,
            version: state.implementation,
            tools: tools
                .map(|(tool, offer)| ToolReport {
                    name: offer.name.clone(),
                    declared: tool.spec.name.clone(),
                    description: offer.description.clone(),
                })
                .collect(),
            prompts: state.offer.prompts.iter().map(|prompt| prompt.name.clone()).collect(),
            resources: state.offer.resources.len(),
            log: self.log.last(20),
        }
    }
}
