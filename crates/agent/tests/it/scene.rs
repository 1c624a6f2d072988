//! A session with a scripted model, so that each test states what the model says and what must follow.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pollux_agent::prompt::PromptInputs;
use pollux_agent::{Handle, Ports, SessionSpec, open};
use pollux_config::groups::{Context, Model, SessionFormat, Tools};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::{Content, FunctionCall, Part};
use pollux_domain::event::{Event, Op, OpResult, TurnEnd};
use pollux_domain::id::SessionId;
use pollux_domain::model::{
    Dialect, Effort, Finish, FinishReason, ModelClient, ModelError, ModelInfo, ModelRequest, ProviderId,
    ReplyChunk, ReplyEvent, ReplyStream, Usage,
};
use pollux_domain::time::SystemClock;
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolKind, ToolOutcome, ToolSource, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_extend::context::{ContextFiles, ContextFolders};
use pollux_policy::load::{Sources, load};
use pollux_session::{NewSession, Recorder, SessionKind};
use serde_json::{Value, json};

pub(crate) type Line = Vec<Result<ReplyEvent, ModelError>>;

/// Says what it was told to say, and keeps what it was asked.
#[derive(Default)]
pub(crate) struct ScriptedModel {
    lines: Mutex<VecDeque<Line>>,
    pub(crate) requests: Mutex<Vec<ModelRequest>>,
    pub(crate) unary: Mutex<VecDeque<Result<String, ModelError>>>,
    pub(crate) window: u64,
    /// The model's reasoning is bound to what comes before it.
    pub(crate) sealed: bool,
    /// Requests beside the conversation are never answered.
    pub(crate) unary_hangs: AtomicBool,
}

struct Scripted(VecDeque<Result<ReplyEvent, ModelError>>);

impl ReplyStream for Scripted {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.0.pop_front()
        })
    }
}

/// Never says anything.
struct Silent;

impl ReplyStream for Silent {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(std::future::pending())
    }
}

impl ModelClient for ScriptedModel {
    fn resolve(&self, name: &str) -> ModelInfo {
        let provider = name.split_once('/').map_or("scripted", |(provider, _)| provider);
        let mut info = ModelInfo::unknown(name, ProviderId::new(provider), Dialect::new("scripted"));
        info.context_window = if name.ends_with("tiny") { 1 } else { self.window };
        // A small window is for small conversations, not for few tools.
        info.compact = Some(false);
        info.local = provider == "local";
        info.caps.efforts = vec![Effort::Low, Effort::High];
        info.caps.sealed_prefix = self.sealed;
        info
    }

    fn stream(&self, request: ModelRequest) -> Box<dyn ReplyStream> {
        self.requests.lock().unwrap().push(request);
        match self.lines.lock().unwrap().pop_front() {
            Some(line) => Box::new(Scripted(line.into())),
            None => Box::new(Silent),
        }
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        self.requests.lock().unwrap().push(request);
        if self.unary_hangs.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        let line = self.unary.lock().unwrap().pop_front().expect("an unscripted unary request");
        Box::pin(async move {
            line.map(|text| ReplyChunk { parts: vec![Part::text(text)], ..Default::default() })
        })
    }

    fn count_tokens(&self, _request: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        if self.unary_hangs.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        Box::pin(async { Ok(1) })
    }
}

fn chunk(parts: Vec<Part>, finish: Option<FinishReason>) -> Result<ReplyEvent, ModelError> {
    Ok(ReplyEvent::Chunk(ReplyChunk {
        parts,
        finish: finish.map(|reason| Finish { reason, message: None }),
        usage: Some(Usage { input: 100, output: 10, total: 110, ..Default::default() }),
        ..Default::default()
    }))
}

/// A reply of text, in two chunks.
pub(crate) fn says(text: &str) -> Line {
    vec![chunk(vec![Part::text(text)], None), chunk(vec![], Some(FinishReason::Stop))]
}

/// A reply that calls tools.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Line {
    vec![chunk(calls.iter().map(|(name, args)| call_part(name, args)).collect(), Some(FinishReason::Stop))]
}

/// A reply that stops in the middle.
pub(crate) fn stops_after(parts: Vec<Part>) -> Line {
    vec![chunk(parts, None)]
}

/// A reply that ends with this reason.
pub(crate) fn ends(parts: Vec<Part>, finish: FinishReason) -> Line {
    vec![chunk(parts, Some(finish))]
}

pub(crate) fn breaks(parts: Vec<Part>, error: ModelError) -> Line {
    vec![chunk(parts, None), Err(error)]
}

pub(crate) fn call_part(name: &str, args: &Value) -> Part {
    let args = args.as_object().cloned().unwrap_or_default();
    Part::call(FunctionCall::new(None, name, args))
}

type Body = Arc<dyn Fn(JsonObject, ToolContext) -> BoxFuture<'static, ToolOutcome> + Send + Sync>;

/// A tool with a body of the test's own.
pub(crate) struct FakeTool {
    spec: Arc<ToolSpec>,
    body: Body,
    effect: Effect,
}

struct FakeCall(Body, JsonObject, Effect);

impl Tool for FakeTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        Ok(Box::new(FakeCall(Arc::clone(&self.body), args.clone(), self.effect.clone())))
    }
}

impl Invocation for FakeCall {
    fn describe(&self) -> String {
        "a call".into()
    }

    fn effect(&self) -> Effect {
        self.2.clone()
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        (self.0)(self.1, context.clone())
    }
}

/// A tool that answers with a text made from its arguments.
pub(crate) fn tool(
    name: &str,
    kind: ToolKind,
    effect: Effect,
    body: impl Fn(JsonObject, ToolContext) -> BoxFuture<'static, ToolOutcome> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    Arc::new(FakeTool {
        spec: Arc::new(ToolSpec {
            name: name.into(),
            display_name: name.to_uppercase(),
            description: "a tool".into(),
            kind,
            parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
            output_is_markdown: false,
            offloads_long_output: true,
        }),
        body: Arc::new(body),
        effect,
    })
}

pub(crate) fn echo() -> Arc<dyn Tool> {
    tool("echo", ToolKind::Read, Effect::Read(vec![]), |args, _| {
        Box::pin(async move { ToolOutcome::text(format!("echo {}", Value::Object(args)), Display::Nothing) })
    })
}

/// A session and everything around it.
pub(crate) struct Scene {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) handle: Handle,
    pub(crate) events: Vec<Event>,
}

pub(crate) struct Options {
    pub(crate) lines: Vec<Line>,
    pub(crate) unary: Vec<Result<String, ModelError>>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) approval: ApprovalMode,
    pub(crate) trusted: bool,
    pub(crate) model: Model,
    pub(crate) window: u64,
    /// Models of other providers.
    pub(crate) alternatives: Vec<String>,
    pub(crate) sealed: bool,
    pub(crate) late: Option<Arc<dyn ToolSource>>,
    pub(crate) truncate: i64,
    pub(crate) interactive: bool,
    pub(crate) grants: pollux_agent::GrantReach,
    pub(crate) planning: pollux_agent::Planning,
    pub(crate) changes: Option<Arc<dyn pollux_domain::changes::Changes>>,
    pub(crate) agents: Option<pollux_agent::AgentPort>,
    pub(crate) terminals: Option<Arc<dyn pollux_domain::terminals::Terminals>>,
    pub(crate) editor: Option<Arc<dyn pollux_domain::editor::EditorView>>,
    /// A policy file of the user's.
    pub(crate) policy: Option<PathBuf>,
    pub(crate) dir: tempfile::TempDir,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            unary: Vec::new(),
            tools: vec![echo()],
            approval: ApprovalMode::Yolo,
            trusted: true,
            model: Model {
                name: "m".into(),
                compression_threshold: 0.5,
                loop_detection: true,
                mask_protected_tokens: 50_000,
                mask_min_prunable_tokens: 30_000,
                mask_protect_latest: true,
                ..Default::default()
            },
            window: 1_000_000,
            alternatives: Vec::new(),
            sealed: false,
            late: None,
            truncate: 40_000,
            interactive: false,
            grants: pollux_agent::GrantReach::default(),
            planning: pollux_agent::Planning::Off,
            changes: None,
            agents: None,
            terminals: None,
            editor: None,
            policy: None,
            dir: tempfile::tempdir().unwrap(),
        }
    }
}

impl Scene {
    pub(crate) fn new(lines: Vec<Line>) -> Self {
        Self::with(Options { lines, ..Options::default() })
    }

    pub(crate) fn with(options: Options) -> Self {
        let root = options.dir.path().to_path_buf();
        let model = Arc::new(ScriptedModel {
            lines: Mutex::new(options.lines.into()),
            unary: Mutex::new(options.unary.into()),
            window: options.window,
            sealed: options.sealed,
            ..Default::default()
        });
        let session = SessionId::from_file("11111111-2222-3333-4444-555555555555");
        let recorder = Recorder::create(NewSession {
            id: session.clone(),
            project_hash: "abc".into(),
            chats_dir: root.join("chats"),
            format: SessionFormat::Json,
            kind: SessionKind::Main,
            now: pollux_domain::time::Timestamp::from_millis(1_700_000_000_000),
        })
        .unwrap();
        let places = ContextFolders {
            gemini_dir: root.join("home"),
            project_temp: root.join("temp"),
            roots: vec![root.join("work")],
            trusted: true,
            homes: Vec::new(),
        };
        let context = ContextFiles::new(
            places,
            &Context { file_names: vec!["GEMINI.md".into()], ..Default::default() },
        );
        let spec = SessionSpec {
            session,
            interactive: options.interactive,
            approval: options.approval,
            model: options.model,
            tools: Tools {
                truncate_threshold: options.truncate,
                interactive_shell: true,
                ..Default::default()
            },
            policy: Arc::new(load(
                &Sources { user: options.policy.into_iter().collect(), ..Sources::default() },
                pollux_policy::engine::Options { workspaces: vec!["/w".into()], ..Default::default() },
            )),
            trusted: options.trusted,
            grants: options.grants,
            planning: options.planning,
            temp_dir: root.join("temp"),
            prompt: PromptInputs::default(),
            first_turn: Content::user_text("<session_context>here</session_context>"),
            restored: Vec::new(),
            roots: Vec::new(),
            alternatives: options.alternatives,
        };
        let ports = Ports {
            late_tools: options.late,
            session_tools: None,
            terminals: options.terminals,
            model: Arc::clone(&model) as Arc<dyn ModelClient>,
            budget: None,
            tools: options.tools,
            editor: options.editor,
            clock: Arc::new(SystemClock),
            recorder,
            context,
            checkers: None,
            changes: options.changes,
            hooks: None,
            observer: None,
            agents: options.agents,
        };
        Self { dir: options.dir, model, handle: open(spec, ports), events: Vec::new() }
    }

    pub(crate) async fn send(&self, text: &str) {
        let op = Op::Prompt { parts: vec![Part::text(text)], typed: text.to_owned() };
        self.handle.ops.send(op).await.unwrap();
    }

    /// Asks something and reads events up to what came of it.
    pub(crate) async fn ask(&mut self, op: Op) -> OpResult {
        let asked = self.handle.ops.send(op).await.unwrap();
        let fits = |event: &Event| matches!(event, Event::Acknowledged { id, .. } if *id == asked);
        match self.until(fits).await {
            Event::Acknowledged { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    /// Reads events up to one that fits.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.handle.events.recv().await.expect("the session ended early");
            self.events.push(event.clone());
            if fits(&event) {
                return event;
            }
        }
    }

    /// Runs a prompt to its end.
    pub(crate) async fn prompt(&mut self, text: &str) -> TurnEnd {
        self.send(text).await;
        self.end().await
    }

    pub(crate) async fn end(&mut self) -> TurnEnd {
        match self.until(|event| matches!(event, Event::TurnEnded(_))).await {
            Event::TurnEnded(end) => end,
            other => panic!("unexpected {other:?}"),
        }
    }

    pub(crate) fn request_count(&self) -> usize {
        self.model.requests.lock().unwrap().len()
    }

    /// The turns of a request, without the environment.
    pub(crate) fn turns(&self, index: usize) -> Vec<Value> {
        let requests = self.model.requests.lock().unwrap();
        requests.get(index).expect("no such request").contents.iter().skip(1).map(|c| c.to_json()).collect()
    }

    /// What the last turn of a request answered to calls.
    pub(crate) fn answers(&self, index: usize) -> Vec<Value> {
        let requests = self.model.requests.lock().unwrap();
        let content = requests.get(index).expect("no such request").contents.last().unwrap().clone();
        content.responses().map(|response| Value::Object(response.response.clone().into())).collect()
    }

    /// The answers to calls anywhere in a request.
    pub(crate) fn all_answers(&self, index: usize) -> Vec<Value> {
        let requests = self.model.requests.lock().unwrap();
        let contents = requests.get(index).expect("no such request").contents.iter();
        let answers = contents.flat_map(|content| content.responses());
        answers.map(|response| Value::Object(response.response.clone().into())).collect()
    }

    /// The text shown by the attempt that counted.
    pub(crate) fn shown(&self) -> String {
        self.events
            .iter()
            .filter_map(|e| if let Event::Text(text) = e { Some(text.as_str()) } else { None })
            .collect()
    }

    pub(crate) fn session_file(&self) -> PathBuf {
        std::fs::read_dir(self.dir.path().join("chats"))
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| {
                let name = path.file_name().unwrap().to_string_lossy();
                name.starts_with("session-") && name.ends_with(".json")
            })
            .expect("no session file")
    }

    pub(crate) fn recorded(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.session_file()).unwrap()).unwrap()
    }
}
