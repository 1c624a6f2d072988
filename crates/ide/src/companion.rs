//! The connection to a companion: made, kept, and made again when the editor comes back.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_config::groups::{Redaction, Secret};
use pollux_domain::editor::{EditorFiles, EditorStatus, EditorView};
use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_text::one_line;
use pollux_exec::background::Background;
use pollux_mcp::{
    Auth, Link, NotificationListener, Owners, Report, RequestError, ServerConfig, ServerEntry, Servers, Setup,
};
use pollux_net::client::ClientOptions;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::{Admits, open_files};
use crate::detect::detect;
use crate::diffs::{DiffAnswer, Diffs};
use crate::discovery::{EditorChoice, FoundCompanion, Surroundings, Unreachable, Way, choices, discover};

/// The name of the one server.
const NAME: &str = "ide";
const OPEN: &str = "openDiff";
const CLOSE: &str = "closeDiff";
/// How often a lost companion is looked for, with pauses that double.
const MAX_TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long a new companion may take to tell of its files.
const FIRST_FILES: Duration = Duration::from_secs(1);
/// A larger text is not sent to the editor.
const MAX_TEXT: usize = 4 << 20;

/// What a companion is reached and used with.
#[derive(Clone)]
pub struct CompanionSetup {
    pub around: Surroundings,
    /// Whether the session may know of a file.
    pub admits: Arc<Admits>,
    pub redaction: Redaction,
    /// Where a companion that is a program is started.
    pub directory: PathBuf,
    pub background: Arc<Background>,
    /// Our version.
    pub version: String,
    /// For connecting and for each request.
    pub limit: Duration,
}

/// The state of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompanionStatus {
    Off,
    Connecting,
    Connected {
        /// The editor, as people call it.
        editor: String,
        /// Whether it can show changes.
        shows_diffs: bool,
    },
    Failed(Unreachable),
}

/// The companion of a session.
pub struct Companion {
    setup: CompanionSetup,
    heard: Arc<Heard>,
    link: Mutex<Option<Arc<Servers>>>,
    /// Ends the task that keeps the connection.
    stop: Mutex<CancellationToken>,
    /// The port of the editor that the person chose.
    wanted: Mutex<Option<u16>>,
    /// The port of the editor that is connected.
    port: Mutex<Option<u16>>,
    status: watch::Sender<CompanionStatus>,
}

/// What the companion said.
struct Heard {
    admits: Arc<Admits>,
    files: watch::Sender<Option<Arc<EditorFiles>>>,
    diffs: Diffs,
}

impl NotificationListener for Heard {
    fn notified(&self, method: &str, params: Value) {
        match method {
            "ide/contextUpdate" => {
                let files = open_files(&params, &*self.admits);
                self.files.send_replace(Some(Arc::new(files)));
            }
            other => self.diffs.notified(other, &params),
        }
    }
}

impl Companion {
    /// A companion that is not looked for yet.
    pub fn new(setup: CompanionSetup) -> Arc<Self> {
        let admits = Arc::clone(&setup.admits);
        let heard = Heard { admits, files: watch::Sender::new(None), diffs: Diffs::default() };
        Arc::new(Self {
            setup,
            heard: Arc::new(heard),
            link: Mutex::default(),
            stop: Mutex::default(),
            wanted: Mutex::default(),
            port: Mutex::default(),
            status: watch::Sender::new(CompanionStatus::Off),
        })
    }

    /// Looks for the companion, connects and stays connected, in the background. Needs a runtime.
    pub fn connect(self: &Arc<Self>) {
        if matches!(self.status(), CompanionStatus::Connecting | CompanionStatus::Connected { .. }) {
            return;
        }
        let stop = CancellationToken::new();
        std::mem::replace(&mut *self.stop.locked(), stop.clone()).cancel();
        self.status.send_replace(CompanionStatus::Connecting);
        let companion = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = companion.keep() => {}
            }
        });
    }

    /// Ends the connection; [`Self::connect`] makes another.
    pub async fn disconnect(&self) {
        self.stop.locked().cancel();
        let link = self.link.locked().take();
        self.clear(CompanionStatus::Off);
        if let Some(servers) = link {
            servers.shutdown().await;
            // What it said last is forgotten as well.
            self.heard.files.send_replace(None);
        }
    }

    /// The editors that have the folder of the session open.
    pub async fn choices(&self) -> Vec<EditorChoice> {
        let around = self.setup.around.clone();
        tokio::task::spawn_blocking(move || choices(&around)).await.unwrap_or_default()
    }

    /// The port of the connected editor, if it has one.
    pub fn connected_port(&self) -> Option<u16> {
        self.editor().and(*self.port.locked())
    }

    /// Connects to the editor with this port instead.
    pub async fn switch(self: &Arc<Self>, port: u16) {
        *self.wanted.locked() = Some(port);
        self.disconnect().await;
        self.connect();
    }

    pub fn status(&self) -> CompanionStatus {
        self.status.borrow().clone()
    }

    /// Changes with [`Self::status`].
    pub fn statuses(&self) -> watch::Receiver<CompanionStatus> {
        self.status.subscribe()
    }

    /// Changes with the files that the editor reports.
    pub fn file_changes(&self) -> watch::Receiver<Option<Arc<EditorFiles>>> {
        self.heard.files.subscribe()
    }

    /// Whether the terminal is that of an editor.
    pub fn is_in_editor(&self) -> bool {
        detect(&self.setup.around.env).is_some()
    }

    /// Waits until it is connected or has failed.
    pub async fn settled(&self) -> CompanionStatus {
        let mut statuses = self.statuses();
        let settled = statuses.wait_for(|status| *status != CompanionStatus::Connecting).await;
        settled.map_or(CompanionStatus::Off, |status| status.clone())
    }

    /// The connected editor.
    pub fn editor(&self) -> Option<EditorStatus> {
        let CompanionStatus::Connected { editor: name, .. } = self.status() else { return None };
        let open_files = self.files().map_or(0, |files| files.paths().count() as u64);
        Some(EditorStatus { name, open_files })
    }

    /// Shows a change in the editor and waits for what the user does with it. `None` if the editor cannot show it or is
    /// gone.
    pub async fn open_diff(&self, path: &Path, text: &str) -> Option<DiffAnswer> {
        let path = path.to_str()?;
        if text.len() > MAX_TEXT {
            return None;
        }
        let answer = self.heard.diffs.expect(path);
        let may_be_open = match self.call(OPEN, json!({"filePath": path, "newContent": text})).await {
            Ok(answer) => !is_error(&answer),
            // A slow editor may still show it.
            Err(RequestError::TimedOut { .. }) => true,
            Err(_) => false,
        };
        if !may_be_open {
            self.heard.diffs.forget(path);
            return None;
        }
        answer.await.ok()
    }

    /// Closes a change in the editor; returns the text that it had there.
    pub async fn close_diff(&self, path: &Path) -> Option<String> {
        let path = path.to_str()?;
        self.heard.diffs.forget(path);
        let answer = self.call(CLOSE, json!({"filePath": path, "suppressNotification": true})).await.ok()?;
        if is_error(&answer) {
            return None;
        }
        let text = answer.pointer("/content/0/text").and_then(Value::as_str)?;
        let answer: Value = serde_json::from_str(text).ok()?;
        answer.get("content").and_then(Value::as_str).map(str::to_owned)
    }

    /// The answer of a tool.
    async fn call(&self, tool: &str, args: Value) -> Result<Value, RequestError> {
        let link = self.link.locked().clone();
        match (link, args) {
            (Some(link), Value::Object(args)) => link.call(NAME, tool, args, &CancellationToken::new()).await,
            _ => Err(RequestError::Cancelled),
        }
    }

    /// Connects, and connects again after the connection was lost.
    async fn keep(&self) {
        let mut lost: Option<String> = None;
        let mut tries = 0;
        loop {
            match self.connect_once().await {
                Ok((editor, servers)) => {
                    tries = 0;
                    servers.lost(NAME).await;
                    self.link.locked().take();
                    self.clear(CompanionStatus::Connecting);
                    servers.shutdown().await;
                    lost = Some(editor);
                }
                Err(why) => {
                    let Some(editor) = lost.clone() else { return self.clear(CompanionStatus::Failed(why)) };
                    if tries == MAX_TRIES {
                        return self.clear(CompanionStatus::Failed(Unreachable::Lost { editor }));
                    }
                }
            }
            tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(tries)).await;
            tries += 1;
        }
    }

    /// Forgets what a companion said that is gone.
    fn clear(&self, status: CompanionStatus) {
        self.heard.diffs.forget_all();
        self.heard.files.send_replace(None);
        self.status.send_replace(status);
    }

    async fn connect_once(&self) -> Result<(String, Arc<Servers>), Unreachable> {
        let (around, wanted) = (self.setup.around.clone(), *self.wanted.locked());
        let found = tokio::task::spawn_blocking(move || discover(&around, wanted)).await;
        let FoundCompanion { editor, ways } = found.unwrap_or(Err(Unreachable::NoCompanion))?;
        let mut why = String::new();
        for way in ways {
            let port = if let Way::Port { port, .. } = &way { Some(*port) } else { None };
            let servers = Arc::new(Servers::start(self.server(way)));
            match servers.settle_one(NAME, self.setup.limit).await {
                Some(report) if report.status.is_connected() => {
                    let shows_diffs = [OPEN, CLOSE].iter().all(|tool| offers(&report, tool));
                    *self.link.locked() = Some(Arc::clone(&servers));
                    *self.port.locked() = port;
                    // It tells of its files right away; the next prompt should know them.
                    let mut files = self.file_changes();
                    let _ = tokio::time::timeout(FIRST_FILES, files.wait_for(Option::is_some)).await;
                    let editor = editor.name;
                    let status = CompanionStatus::Connected { editor: editor.clone(), shows_diffs };
                    self.status.send_replace(status);
                    return Ok((editor, servers));
                }
                other => {
                    why = refusal(other);
                    servers.shutdown().await;
                }
            }
        }
        Err(Unreachable::NotConnected { editor: editor.name, why })
    }

    fn server(&self, way: Way) -> Setup {
        let setup = &self.setup;
        let link = match way {
            Way::Port { port, token } => {
                let token = token.map(|token| Secret::new(format!("Bearer {}", token.reveal())));
                let headers = token.map(|token| ("Authorization".to_owned(), token)).into_iter().collect();
                Link::Http { url: format!("http://127.0.0.1:{port}/mcp"), headers, or_sse: false }
            }
            Way::Program { command, arguments } => {
                Link::Stdio { command, args: arguments, env: Vec::new(), cwd: None }
            }
        };
        let config = ServerConfig {
            name: NAME.to_owned(),
            link,
            timeout: setup.limit,
            description: None,
            include_tools: None,
            exclude_tools: Vec::new(),
            auth: Auth::default(),
        };
        Setup {
            entries: vec![ServerEntry { config, access: None }],
            owners: Owners::default(),
            env: setup.around.env.clone(),
            redaction: setup.redaction.clone(),
            directory: setup.directory.clone(),
            roots: Vec::new(),
            background: Arc::clone(&setup.background),
            // Not through a proxy: it is this machine.
            http: ClientOptions::new(format!("pollux/{}", setup.version)),
            version: setup.version.clone(),
            interactive: false,
            name_tool: |_, tool| tool.to_owned(),
            listener: Some(Arc::clone(&self.heard) as Arc<dyn NotificationListener>),
            first_wait: Duration::ZERO,
            cache: None,
        }
    }
}

fn refusal(report: Option<Report>) -> String {
    match report {
        Some(report) if report.sign_in.is_some() => "the token was not accepted".to_owned(),
        Some(Report { problem: Some(problem), .. }) => one_line(&problem),
        Some(_) | None => "no response".to_owned(),
    }
}

fn is_error(answer: &Value) -> bool {
    answer.get("isError").and_then(Value::as_bool) == Some(true)
}

fn offers(report: &Report, tool: &str) -> bool {
    report.tools.iter().any(|known| known.name == tool)
}

impl EditorView for Companion {
    fn files(&self) -> Option<Arc<EditorFiles>> {
        let is_connected = matches!(*self.status.borrow(), CompanionStatus::Connected { .. });
        self.heard.files.borrow().clone().filter(|_| is_connected)
    }
}
