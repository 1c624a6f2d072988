//! What a connection serves: the sessions of its client, and how they are opened.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_domain::file_view::FileView;
use pollux_domain::terminals;
use pollux_front::{Ports, early_style, run_with};
use pollux_host::RecordedItem;
use pollux_host::request::{ClientFiles, ClientLink, ClientTerminals, Request, SessionChoice};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::files::EditorFiles;
use crate::front_end::Editor;
use crate::session::Session;
use crate::terminals::EditorTerminals;
use crate::updates::Updates;
use pollux_front::rpc::RpcError;

/// What the program was started with.
pub(crate) struct Program {
    /// The defaults of new sessions.
    pub(crate) options: Request,
    pub(crate) env: Env,
    pub(crate) ports: Ports<'static>,
}

/// The server of one client.
pub(crate) struct Server {
    pub(crate) program: Program,
    pub(crate) client: Client,
    pub(crate) sessions: RefCell<BTreeMap<String, Rc<Session>>>,
    /// Requests under way, by their ids as written.
    pub(crate) running: RefCell<HashMap<String, CancellationToken>>,
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
    /// The session runs in another process; its messages so far.
    pub(crate) attached: Option<Vec<RecordedItem>>,
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

    /// An open session.
    pub(crate) fn session(&self, id: &str) -> Result<Rc<Session>, RpcError> {
        let session = self.sessions.borrow().get(id).filter(|session| !session.is_over()).cloned();
        session.ok_or_else(|| RpcError::no_such_session(id))
    }

    /// Opens a session and waits until it can take prompts.
    pub(crate) async fn open(&self, opening: Opening) -> Result<Rc<Session>, RpcError> {
        let Opening { folder, choice, directories, servers, links, instructions, replay, attached } = opening;
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
        let terminals = Arc::new(EditorTerminals::new(self.client.clone()));
        if can.terminals {
            let terminals = Arc::clone(&terminals) as Arc<dyn terminals::ClientTerminals>;
            options.client_terminals = Some(ClientTerminals(terminals));
        }
        options.client_links = links;
        options.attach = attached.is_some();
        let env = self.program.env.in_folder(folder);
        let (opened, ready) = oneshot::channel();
        let (sender, input) = mpsc::unbounded_channel();
        let updates = Updates::new(self.client.clone());
        let session = Session::new(updates, files, terminals, sender, opened, replay);
        session.state.borrow_mut().history = attached.unwrap_or_default();
        let editor = Editor::new(Rc::clone(&session), input, early_style(&options, &env));
        let ports = self.program.ports;
        let own = Rc::clone(&session);
        tokio::task::spawn_local(async move {
            // Also when the conversation panics.
            let _over = own.over.clone().drop_guard();
            run_with(&options, &env, Box::new(editor), ports).await;
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
