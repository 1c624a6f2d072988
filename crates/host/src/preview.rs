//! What the first request of a session would hold, without a session, credentials or any connection.
//!
//! For `pollux prompt show`. MCP servers, `tools.discoveryCommand` and memory are not asked; what they would add is
//! missing.

use std::sync::Arc;

use pollux_agent::environment::first_turn;
use pollux_agent::{AgentPort, Ports, Preview, SessionSpec, preview};
use pollux_domain::BoxFuture;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_domain::model::{
    ModelClient, ModelError, ModelErrorKind, ModelInfo, ModelRequest, ReplyChunk, ReplyEvent, ReplyStream,
};
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::tool::ToolSource;
use pollux_exec::background::Background;
use pollux_model::catalogue::Catalogue;
use pollux_model::prompt_tools::explained;
use pollux_model::providers::ToolMode;
use pollux_session::Recorder;
use pollux_tools::{SandboxSlot, ToolSetup};

use super::permission::check_trust;
use super::sandbox::check_sandbox;
use super::{Loaded, agents, policy, providers, skills, turn, workspace};
use crate::request::Request;

/// The beginning of a session, and the model it is for.
pub struct FirstRequest {
    pub model: ModelInfo,
    pub preview: Preview,
    /// Why the request may hold more.
    pub missing: Vec<String>,
}

/// Assembles the beginning of a session.
pub fn first_request(request: &Request, loaded: &Loaded, interactive: bool) -> Result<FirstRequest, Failure> {
    let (model, mode) = info(loaded)?;
    let client: Arc<dyn ModelClient> = Arc::new(Offline(model.clone()));
    let workspace = Arc::new(workspace::workspace(loaded)?);
    let background = Arc::new(Background::new(loaded.home.tmp_dir().join("background-processes")));
    let permission = check_trust(request, loaded)?;
    let confined = check_sandbox(loaded, permission.approval)?.kind(loaded);
    let mut context = workspace::context_files(loaded, &workspace);
    let prompt = turn::prompt_inputs(loaded, permission.approval, confined, interactive, &mut context)?;
    let environment = turn::environment(loaded, &workspace, &mut context);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let tools = &loaded.groups.tools;
    let setup = ToolSetup {
        workspace: Arc::clone(&workspace),
        filtering: loaded.groups.context.filtering.clone(),
        tools: tools.clone(),
        child_env: loaded.command_env(),
        background: Arc::clone(&background),
        sandbox: SandboxSlot::new(None),
        clock: Arc::clone(&clock),
        client_terminals: None,
    };
    let (shelf, _) = skills::shelf(loaded, &workspace);
    let spec = SessionSpec {
        session: SessionId::random(),
        interactive,
        approval: permission.approval,
        model: loaded.groups.model.clone(),
        tools: tools.clone(),
        policy: policy::engine(request, loaded, workspace.directories()),
        trusted: loaded.trust.uses_project(),
        grants: policy::grants(loaded),
        planning: policy::planning(loaded),
        temp_dir: loaded.project.temp_dir().to_path_buf(),
        prompt,
        first_turn: first_turn(&environment),
        restored: Vec::new(),
        roots: workspace.directories().to_vec(),
        alternatives: Vec::new(),
    };
    let ports = Ports {
        tools: turn::all_tools(setup, loaded, &client)?,
        model: client,
        budget: None,
        late_tools: shelf.map(|shelf| shelf as Arc<dyn ToolSource>),
        session_tools: None,
        terminals: None,
        editor: None,
        clock,
        recorder: Recorder::disabled(),
        context,
        checkers: None,
        changes: None,
        hooks: None,
        observer: None,
        agents: agent_port(loaded, &workspace, &background, interactive),
    };
    let mut preview = preview(spec, ports);
    match mode {
        Some(ToolMode::Prompt) => {
            preview.system_prompt = explained(&preview.system_prompt, &preview.tools);
            preview.tools = Arc::from([]);
        }
        Some(ToolMode::None) => preview.tools = Arc::from([]),
        Some(ToolMode::Native) | None => {}
    }
    Ok(FirstRequest { model, preview, missing: missing(loaded) })
}

fn agent_port(
    loaded: &Loaded,
    workspace: &pollux_tools::Workspace,
    background: &Arc<Background>,
    interactive: bool,
) -> Option<AgentPort> {
    agents::is_on(loaded)
        .then(|| agents::unintroduced(loaded, workspace.directories(), background, interactive).0)
}

/// What is known of the model without a key.
fn info(loaded: &Loaded) -> Result<(ModelInfo, Option<ToolMode>), Failure> {
    if let Some(known) = providers::known_model(loaded)? {
        return Ok(known);
    }
    let catalogue = Catalogue::with_settings(&loaded.groups.model.configs)
        .map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    Ok((catalogue.info(&loaded.groups.model.name), None))
}

fn missing(loaded: &Loaded) -> Vec<String> {
    let mut missing = Vec::new();
    let is_set = |key: &str| match loaded.settings.get(key) {
        Some((serde_json::Value::Object(entries), _)) => !entries.is_empty(),
        Some((serde_json::Value::String(text), _)) => !text.trim().is_empty(),
        Some((serde_json::Value::Bool(on), _)) => *on,
        _ => false,
    };
    if is_set("mcpServers") || super::extensions::any_server(loaded) {
        missing.push("tools and instructions of MCP servers".to_owned());
    }
    if is_set("tools.discoveryCommand") {
        missing.push("tools of `tools.discoveryCommand`".to_owned());
    }
    if is_set("memory.enabled") {
        missing.push("learnings and memory tools".to_owned());
    }
    missing
}

/// A model that is never asked.
struct Offline(ModelInfo);

impl ModelClient for Offline {
    fn resolve(&self, _: &str) -> ModelInfo {
        self.0.clone()
    }

    fn stream(&self, _: ModelRequest) -> Box<dyn ReplyStream> {
        Box::new(NoReply)
    }

    fn generate(&self, _: ModelRequest) -> BoxFuture<'_, Result<ReplyChunk, ModelError>> {
        Box::pin(async { Err(unasked()) })
    }

    fn count_tokens(&self, _: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(async { Err(unasked()) })
    }
}

struct NoReply;

impl ReplyStream for NoReply {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<ReplyEvent, ModelError>>> {
        Box::pin(async { Some(Err(unasked())) })
    }
}

fn unasked() -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, None, "no model is asked here")
}
