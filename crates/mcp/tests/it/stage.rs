//! A set of servers for a test, and short ways to use them.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::Redaction;
use pollux_domain::JsonObject;
use pollux_domain::content::Body;
use pollux_domain::id::CallId;
use pollux_domain::tool::{Tool, ToolContext, ToolOutcome, ToolSource};
use pollux_exec::background::Background;
use pollux_mcp::{Access, Owners, Report, ServerConfig, ServerEntry, Servers, Setup};
use pollux_net::client::ClientOptions;
use pollux_test_support::mcp::server_entry;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) struct Stage {
    pub(crate) servers: Servers,
    pub(crate) folder: TempDir,
}

pub(crate) fn name_tool(server: &str, tool: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "_.:-".contains(c) { c } else { '_' };
    format!("mcp_{server}_{tool}").chars().map(keep).collect()
}

impl Stage {
    /// Servers that are this test binary, by name and manner.
    pub(crate) fn with(manners: &[(&str, &str)]) -> Self {
        let entries = manners.iter().map(|(name, manner)| (*name, server_entry(manner)));
        Self::of(entries.collect(), None)
    }

    pub(crate) fn of(entries: Vec<(&str, Value)>, access: Option<Arc<dyn Access>>) -> Self {
        Self::set(entries, access, false)
    }

    pub(crate) fn owned(entries: Vec<(&str, Value)>, owners: Owners) -> Self {
        Self::started(entries, None, false, owners)
    }

    pub(crate) fn set(
        entries: Vec<(&str, Value)>,
        access: Option<Arc<dyn Access>>,
        interactive: bool,
    ) -> Self {
        Self::started(entries, access, interactive, Owners::default())
    }

    fn started(
        entries: Vec<(&str, Value)>,
        access: Option<Arc<dyn Access>>,
        interactive: bool,
        owners: Owners,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vars = [("PATH", "/usr/bin:/bin"), ("GEMINI_API_KEY", "k"), ("MY_SECRET", "s"), ("EDITOR", "vi")];
        let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value.to_owned())), "/".into());
        let entries = entries.into_iter().map(|(name, entry)| ServerEntry {
            config: ServerConfig::parse(name, &entry).unwrap(),
            access: access.clone(),
        });
        let servers = Servers::start(Setup {
            entries: entries.collect(),
            owners,
            env,
            redaction: Redaction::default(),
            directory: folder.path().to_owned(),
            roots: vec![folder.path().to_owned()],
            background: Arc::new(Background::new(folder.path().join("background"))),
            http: ClientOptions::new("test"),
            version: "0.0.0".to_owned(),
            interactive,
            name_tool,
            listener: None,
            first_wait: Duration::from_secs(30),
            cache: None,
        });
        Self { servers, folder }
    }

    /// One server with cached declarations; it is started on first use.
    pub(crate) fn prepared(name: &str, entry: &Value, first_wait: Duration, cache: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::new([("PATH".to_owned(), "/usr/bin:/bin".to_owned())], "/".into());
        let servers = Servers::prepare(Setup {
            entries: vec![ServerEntry { config: ServerConfig::parse(name, entry).unwrap(), access: None }],
            owners: Owners::default(),
            env,
            redaction: Redaction::default(),
            directory: "/".into(),
            roots: Vec::new(),
            background: Arc::new(Background::new(folder.path().join("background"))),
            http: ClientOptions::new("test"),
            version: "0.0.0".to_owned(),
            interactive: false,
            name_tool,
            listener: None,
            first_wait,
            cache: Some(cache.to_owned()),
        });
        Self { servers, folder }
    }

    /// Waits until every server is there or has failed.
    pub(crate) async fn settled(self) -> Self {
        self.servers.settled(&CancellationToken::new()).await;
        self
    }

    pub(crate) fn report(&self, name: &str) -> Report {
        self.servers.reports().into_iter().find(|report| report.name == name).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.servers.tools().iter().map(|tool| tool.spec().name.clone()).collect()
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let tools = self.servers.tools();
        tools
            .into_iter()
            .find(|tool| tool.spec().name == name)
            .unwrap_or_else(|| panic!("{name} in {:?}", self.names()))
    }

    /// Calls a tool; what it said, and what it printed while it ran.
    pub(crate) async fn call(&self, name: &str, args: Value) -> (String, Vec<String>) {
        self.call_with(name, args, &CancellationToken::new()).await
    }

    pub(crate) async fn call_with(
        &self,
        name: &str,
        args: Value,
        cancel: &CancellationToken,
    ) -> (String, Vec<String>) {
        let live = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&live);
        let context = ToolContext {
            call: CallId::new(name, "1"),
            cancel: cancel.clone(),
            must_ask: false,
            live: Arc::new(move |text: &str| heard.lock().unwrap().push(text.to_owned())),
            terminal: None,
        };
        let Value::Object(args) = args else { panic!("arguments are an object") };
        let said = said(run(&*self.tool(name), &args, &context).await);
        let live = live.lock().unwrap().clone();
        (said, live)
    }

    /// Calls a tool that was taken earlier.
    pub(crate) async fn call_of(&self, tool: &dyn Tool, args: Value) -> String {
        let context = ToolContext {
            call: CallId::new("t", "1"),
            cancel: CancellationToken::new(),
            must_ask: false,
            live: Arc::new(|_: &str| ()),
            terminal: None,
        };
        let Value::Object(args) = args else { panic!("arguments are an object") };
        said(run(tool, &args, &context).await)
    }

    /// Waits until something is true of the servers.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..3000 {
            if is_so(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never came true: {what}; {:?}", self.servers.reports());
    }
}

pub(crate) async fn run(tool: &dyn Tool, args: &JsonObject, context: &ToolContext) -> ToolOutcome {
    tool.prepare(args).unwrap().run(context).await
}

pub(crate) fn said(outcome: ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Done(output) => {
            let texts = output.parts.iter().map(|part| match &part.body {
                Body::Text(text) => text.clone(),
                other => format!("{other:?}"),
            });
            let text = texts.collect::<Vec<_>>().join("|");
            text.replace("<untrusted_context>\n", "<").replace("\n</untrusted_context>", ">")
        }
        ToolOutcome::Failed(failure) => format!("{}: {}", failure.kind.as_str(), failure.message),
        ToolOutcome::Cancelled { .. } => "cancelled".to_owned(),
        ToolOutcome::Refused(message) => format!("refused: {message}"),
    }
}
