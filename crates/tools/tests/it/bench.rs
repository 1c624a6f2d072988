//! A project in a temporary folder with all tools on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pollux_config::groups::{FileFiltering, Tools};
use pollux_domain::content::{Body, Part};
use pollux_domain::id::CallId;
use pollux_domain::time::SystemClock;
use pollux_domain::tool::{
    ArgError, Display, Invocation, Tool, ToolContext, ToolErrorKind, ToolOutcome, ToolOutput,
};
use pollux_exec::background::Background;
use pollux_tools::{ToolSetup, Workspace, WorkspaceSetup, builtin, read_many_files};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) struct Bench {
    folder: TempDir,
    pub(crate) setup: ToolSetup,
    pub(crate) cancel: CancellationToken,
    pub(crate) live: Arc<Mutex<String>>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// `project`, `home` and `outside` side by side; `change` may alter the workspace's setup.
    pub(crate) fn with(change: impl FnOnce(&mut WorkspaceSetup)) -> Self {
        let folder = TempDir::new().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        for name in ["project", "home/.gemini/tmp/p", "outside"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        let mut setup = WorkspaceSetup {
            root: base.join("project"),
            include_directories: Vec::new(),
            project_temp: base.join("home/.gemini/tmp/p"),
            gemini_dir: base.join("home/.gemini"),
            user_home: base.join("home"),
        };
        change(&mut setup);
        let filtering = FileFiltering {
            respect_git_ignore: true,
            respect_gemini_ignore: true,
            ..FileFiltering::default()
        };
        let setup = ToolSetup {
            workspace: Arc::new(Workspace::open(&setup).unwrap()),
            filtering,
            tools: Tools { shell_inactivity_seconds: 300, ..Tools::default() },
            child_env: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
            background: Arc::new(Background::new(base.join("home/.gemini/tmp/background-processes"))),
            sandbox: Default::default(),
            clock: Arc::new(SystemClock),
            client_terminals: None,
        };
        Self { folder, setup, cancel: CancellationToken::new(), live: Arc::default() }
    }

    pub(crate) fn base(&self) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base().join("project").join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        put(&path, content);
        path
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools = builtin(self.setup.clone());
        tools.push(read_many_files(&self.setup));
        tools
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        self.tools().into_iter().find(|tool| tool.spec().name == name).unwrap()
    }

    pub(crate) fn prepare(&self, name: &str, args: Value) -> Result<Box<dyn Invocation>, ArgError> {
        let (tool, args) = (self.tool(name), args.as_object().unwrap());
        tool.prepare(tool.modernised(args).as_ref().unwrap_or(args))
    }

    pub(crate) fn refusal(&self, name: &str, args: Value) -> String {
        match self.prepare(name, args) {
            Err(error) => error.to_string(),
            Ok(call) => panic!("accepted: {}", call.describe()),
        }
    }

    pub(crate) async fn run(&self, call: Box<dyn Invocation>) -> ToolOutcome {
        let live = Arc::clone(&self.live);
        let context = ToolContext {
            call: CallId::new("test", "1"),
            must_ask: false,
            cancel: self.cancel.clone(),
            live: Arc::new(move |text: &str| live.lock().unwrap().push_str(text)),
            terminal: None,
        };
        call.run(&context).await
    }

    pub(crate) async fn call(&self, name: &str, args: Value) -> ToolOutcome {
        let call = self.prepare(name, args).unwrap();
        self.run(call).await
    }

    /// The result of a call that must work.
    pub(crate) async fn done(&self, name: &str, args: Value) -> ToolOutput {
        match self.call(name, args).await {
            ToolOutcome::Done(output) => output,
            other => panic!("not done: {other:?}"),
        }
    }

    /// The text the model gets from a call that must work.
    pub(crate) async fn text(&self, name: &str, args: Value) -> String {
        text_of(&self.done(name, args).await.parts)
    }

    /// Kind and message of a call that must fail.
    pub(crate) async fn failure(&self, name: &str, args: Value) -> (ToolErrorKind, String) {
        match self.call(name, args).await {
            ToolOutcome::Failed(failure) => (failure.kind, failure.message),
            other => panic!("did not fail: {other:?}"),
        }
    }
}

pub(crate) fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::spoken_text).collect::<Vec<_>>().join("\n")
}

pub(crate) fn mime_of(part: &Part) -> &str {
    match &part.body {
        Body::InlineData(blob) => &blob.mime_type,
        other => panic!("no data: {other:?}"),
    }
}

pub(crate) fn shown(display: &Display) -> &str {
    match display {
        Display::Text(text) => text,
        other => panic!("not a text: {other:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "a test may write plainly")]
pub(crate) fn put(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
