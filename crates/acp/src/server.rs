//! One connection: takes the client's messages, runs requests side by side, and ends with the client.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_config::env::Env;
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::file_view::FileView;
use pollux_front::screen_provider::ScreenProvider;
use pollux_front::signals::Signals;
use pollux_front::{Subcommands, early_style, run_with};
use pollux_host::request::{ClientFiles, ClientLink, Request, SessionChoice};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::files::EditorFiles;
use crate::front_end::Editor;
use crate::methods;
use crate::prompt;
use crate::session::Session;
use crate::updates::Updates;
use pollux_front::rpc::Incoming;
use pollux_front::rpc::RpcError;

/// How long conversations may take to end when the client is gone.
const LEAVING: Duration = Duration::from_millis(1_700);
/// How long the last lines may take to be written.
const FLUSHING: Duration = Duration::from_millis(200);

/// What the program was started with.
pub(crate) struct Program {
    /// The defaults of new sessions.
    pub(crate) options: Request,
    pub(crate) env: Env,
    pub(crate) subcommands: &'static dyn Subcommands,
    pub(crate) screens: &'static dyn ScreenProvider,
}

/// The server of one client.
pub(crate) struct Server {
    pub(crate) program: Program,
    pub(crate) client: Client,
    pub(crate) sessions: RefCell<BTreeMap<String, Rc<Session>>>,
    /// Requests under way, by their ids as written.
    running: RefCell<HashMap<String, CancellationToken>>,
    /// The session that the command line asks to resume was resumed.
    pub(crate) resumed: Cell<bool>,
}

/// The result of a request, and what follows it.
pub(crate) struct Reply {
    pub(crate) result: Value,
    pub(crate) then: Option<Box<dyn FnOnce()>>,
}

impl From<Value> for Reply {
    fn from(result: Value) -> Self {
        Self { result, then: None }
    }
}

/// A prompt that runs, and its answer to come.
type Begun = (Rc<Session>, oneshot::Receiver<Result<Value, RpcError>>);

/// How a session is opened.
pub(crate) struct Opening {
    pub(crate) folder: PathBuf,
    pub(crate) choice: SessionChoice,
    pub(crate) directories: Vec<String>,
    /// MCP servers of the client.
    pub(crate) servers: Vec<(String, Value)>,
    /// Those of them inside of the client.
    pub(crate) links: Vec<(String, ClientLink)>,
    /// Instructions of the client.
    pub(crate) instructions: Option<String>,
    /// Whether earlier messages are sent.
    pub(crate) replay: bool,
}

impl Server {
    pub(crate) fn new(program: Program, client: Client) -> Rc<Self> {
        Rc::new(Self {
            program,
            client,
            sessions: RefCell::default(),
            running: RefCell::default(),
            resumed: Cell::new(false),
        })
    }

    /// Serves until the client leaves or a signal arrives.
    pub(crate) async fn serve(
        self: Rc<Self>,
        mut incoming: mpsc::Receiver<Incoming>,
        mut signals: Signals,
    ) -> ExitKind {
        let exit = loop {
            tokio::select! {
                biased;
                received = signals.next() => break Received::exit(received),
                () = self.client.outbox().client_gone() => break ExitKind::Success,
                message = incoming.recv() => match message {
                    Some(message) => self.take(message),
                    None => break ExitKind::Success,
                },
            }
        };
        self.leave().await;
        exit
    }

    /// Ends all sessions, within a time that a client waits.
    async fn leave(&self) {
        self.client.close();
        let end = Instant::now() + LEAVING;
        let sessions: Vec<Rc<Session>> = self.sessions.borrow().values().cloned().collect();
        sessions.iter().for_each(|session| session.abandon());
        for session in sessions {
            let _ = tokio::time::timeout_at(end.into(), session.over.cancelled()).await;
        }
        // Answers of requests that have just ended are written by tasks of their own.
        tokio::task::yield_now().await;
        let _ = self.client.outbox().flush(FLUSHING);
    }

    fn take(self: &Rc<Self>, message: Incoming) {
        match message {
            Incoming::Bad { id, error } => self.client.answer(&id, Err(error)),
            Incoming::Answer { id, result } => self.client.answered(id, result),
            Incoming::Notification { method, params } => self.notified(&method, &params),
            Incoming::Request { id, method, params } => self.request(id, method, params),
        }
    }

    fn notified(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                let session = params.get("sessionId").and_then(Value::as_str);
                if let Some(session) = session.and_then(|id| self.session(id).ok()) {
                    session.cancel();
                }
            }
            "$/cancel_request" => {
                let Some(id) = params.get("requestId") else { return };
                let is_it = |raw: &str| serde_json::from_str::<Value>(raw).is_ok_and(|raw| raw == *id);
                let running = self.running.borrow();
                running.iter().filter(|(raw, _)| is_it(raw)).for_each(|(_, token)| token.cancel());
            }
            // Unknown notifications are ignored, as the protocol asks.
            _ => {}
        }
    }

    fn request(self: &Rc<Self>, id: String, method: String, params: Value) {
        if method == "initialize" {
            return self.client.answer(&id, methods::initialize(self, &params));
        }
        if !self.client.is_known() {
            let error = RpcError::invalid_request("`initialize` must be the first request");
            return self.client.answer(&id, Err(error));
        }
        let cancelled = CancellationToken::new();
        self.running.borrow_mut().insert(id.clone(), cancelled.clone());
        if method == "session/prompt" {
            // Begun at once, so that a cancel that follows finds it.
            let begun = self.begin_prompt(&params);
            return self.spawn_prompt(id, begun, cancelled);
        }
        let server = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let reply = tokio::select! {
                biased;
                () = cancelled.cancelled() => Err(RpcError::cancelled()),
                reply = methods::call(&server, &method, &params) => reply,
            };
            server.running.borrow_mut().remove(&id);
            match reply {
                Ok(Reply { result, then }) => {
                    server.client.answer(&id, Ok(result));
                    if let Some(then) = then {
                        then();
                    }
                }
                Err(error) => server.client.answer(&id, Err(error)),
            }
        });
    }

    fn begin_prompt(&self, params: &Value) -> Result<Begun, RpcError> {
        let session = self.session(crate::params::text(params, "sessionId")?)?;
        let prompt = prompt::read(params.get("prompt").unwrap_or(&Value::Null))?;
        let answer = session.begin(prompt.typed)?;
        for address in prompt.unread {
            session.tell_unread(&address);
        }
        Ok((session, answer))
    }

    fn spawn_prompt(
        self: &Rc<Self>,
        id: String,
        begun: Result<Begun, RpcError>,
        cancelled: CancellationToken,
    ) {
        let (session, mut answer) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.running.borrow_mut().remove(&id);
                return self.client.answer(&id, Err(error));
            }
        };
        let server = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let gone = || Err(RpcError::internal("The session has ended"));
            let result = tokio::select! {
                biased;
                answer = &mut answer => answer.unwrap_or_else(|_| gone()),
                () = cancelled.cancelled() => {
                    session.cancel();
                    answer.await.unwrap_or_else(|_| gone())
                }
            };
            server.running.borrow_mut().remove(&id);
            server.client.answer(&id, result);
        });
    }

    /// An open session.
    pub(crate) fn session(&self, id: &str) -> Result<Rc<Session>, RpcError> {
        let session = self.sessions.borrow().get(id).filter(|session| !session.is_over()).cloned();
        session.ok_or_else(|| RpcError::no_such_session(id))
    }

    /// Opens a session and waits until it can take prompts.
    pub(crate) async fn open(&self, opening: Opening) -> Result<Rc<Session>, RpcError> {
        let Opening { folder, choice, directories, servers, links, instructions, replay } = opening;
        let mut options = self.program.options.clone();
        options.session = choice;
        options.prompt = None;
        options.include_directories.extend(directories);
        options.client_servers = servers;
        options.client_instructions = instructions;
        options.without_questions = !self.client.can().forms;
        let can = self.client.can();
        let files = Arc::new(EditorFiles::new(self.client.clone()));
        if can.reads_files || can.writes_files {
            options.client_files = Some(ClientFiles(Arc::clone(&files) as Arc<dyn FileView>));
        }
        options.client_links = links;
        let env = self.program.env.in_folder(folder);
        let (opened, ready) = oneshot::channel();
        let (sender, input) = mpsc::unbounded_channel();
        let session = Session::new(Updates::new(self.client.clone()), files, sender, opened, replay);
        let editor = Editor::new(Rc::clone(&session), input, early_style(&options, &env));
        let (subcommands, screens) = (self.program.subcommands, self.program.screens);
        let own = Rc::clone(&session);
        tokio::task::spawn_local(async move {
            // Also when the conversation panics.
            let _over = own.over.clone().drop_guard();
            run_with(&options, &env, Box::new(editor), subcommands, screens).await;
        });
        // A request that the client cancels leaves no session open.
        let unless_opened = Abandoned(Some(Rc::clone(&session)));
        let ready = ready.await;
        unless_opened.keep();
        match ready {
            Ok(Ok(())) => {
                self.sessions.borrow_mut().insert(session.id(), Rc::clone(&session));
                Ok(session)
            }
            Ok(Err(failure)) => Err(RpcError::from(&failure)),
            Err(_) => Err(RpcError::internal("The session could not be opened")),
        }
    }
}

/// Ends a session whose opening nobody waits for any more.
struct Abandoned(Option<Rc<Session>>);

impl Abandoned {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.abandon();
        }
    }
}
