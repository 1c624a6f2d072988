//! Assembles the agent with its tools and prompt, and runs one prompt or a conversation.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use pollux_agent::environment::{Environment, first_turn};
use pollux_agent::prompt::{PromptInputs, SECTION_KEYS};
use pollux_agent::{Ports, SessionSpec, open};
use pollux_config::groups::Model;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::changes::Changes;
use pollux_domain::content::Content;
use pollux_domain::editor::EditorView;
use pollux_domain::event::{Op, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{ModelClient, ModelInfo};
use pollux_domain::terminals::ClientTerminals;
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::tool::{Tool, ToolSource, ToolSources};
use pollux_extend::context::ContextFiles;
use pollux_net::client::ClientOptions;
use pollux_policy::checker::CheckerPort;
use pollux_session::SessionModel;
use pollux_tools::{
    DiscoverySetup, SandboxSlot, ToolSetup, WebFetchSetup, Workspace, builtin, discover, get_internal_docs,
    google_web_search, read_many_files, save_memory, web_fetch, write_todos,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::background_work::{BackgroundWork, workspace_warning};
use super::conversation::{Assembled, Conversation, Headless, Turned};
use super::extension_updates::ExtensionUpdates;
use super::memory::{self, MemoryRecorder, TypedText};
use super::rewind::{self, ChangeRecorder, CheckpointStore};
use super::services::Interaction;
use super::terminals::OwnTerminals;
use super::titles::Titles;
use super::{
    Done, Loaded, Prepared, Sink, agents, budget, built_in_prompts, checker, extensions, hooks, mcp,
    model_list, models, policy, saved_chat, sessions, system_prompt,
};
use crate::VERSION;
use crate::hub::{Hosted, Limits};

pub use super::prompt::Expanded;
use super::prompt::PromptText;
pub use super::services::Services;
pub use super::workspace::{context_files, workspace};

/// Assembles the agent and runs one prompt; every event goes to `sink`, in order.
pub async fn run_turn(
    mut turn: Prepared<'_>,
    prompt: String,
    cancel: CancellationToken,
    sink: &mut Sink<'_>,
) -> Result<Done, Failure> {
    let command = PromptText::headless(&prompt, turn.request.prompt.as_deref()).command();
    if built_in_prompts::wants_plan(command) {
        turn.permission.approval = ApprovalMode::Plan;
    }
    let services = Services::open(turn.loaded, Interaction::Headless)?;
    if command.trim_start().starts_with('/') {
        // It may be an MCP prompt.
        mcp::wait_for_tools(services.servers.as_deref(), &cancel, sink).await;
    }
    let Some(expanded) = services.expand_headless(&prompt, &turn, &cancel).await else {
        return Ok(Done { end: TurnEnd::Cancelled, session_file: None });
    };
    let (parts, passed_over) = expanded?;
    let opening = Opening { begin: None, noticed: passed_over, cancel: cancel.clone() };
    let mut conversation =
        Conversation::new(assembled(&turn, services, Interaction::Headless, opening).await?)?;
    let session_file = conversation.session_file.clone();
    mcp::wait_for_tools(conversation.services.servers.as_deref(), &cancel, sink).await;
    let mut front = Headless { sink, cancel, stopped: false };
    let end = conversation.turn(Op::Prompt { parts, typed: prompt }, &mut front).await;
    front.finish(conversation).await;
    match end? {
        Turned::Ended(end) => Ok(Done { end: end.unwrap_or(TurnEnd::Cancelled), session_file }),
        Turned::Leaving => Ok(Done { end: TurnEnd::Cancelled, session_file }),
    }
}

/// Runs one prompt in a session of another process, which goes on afterwards. The same events go to `sink`. `typed` is
/// the end of the prompt that the user typed, if anything.
pub async fn run_attached_turn(
    mut conversation: Conversation,
    loaded: &Loaded,
    prompt: String,
    typed: Option<&str>,
    cancel: CancellationToken,
    sink: &mut Sink<'_>,
) -> Result<TurnEnd, Failure> {
    let text = PromptText::headless(&prompt, typed);
    let Some(expanded) = conversation.services.expand_plain(text, loaded, &cancel).await else {
        return Ok(TurnEnd::Cancelled);
    };
    let (parts, passed_over) = expanded?;
    for message in passed_over {
        let _ = sink(&workspace_warning(message));
    }
    let mut front = Headless { sink, cancel, stopped: false };
    match conversation.turn(Op::Prompt { parts, typed: prompt }, &mut front).await? {
        Turned::Ended(end) => Ok(end.unwrap_or(TurnEnd::Cancelled)),
        Turned::Leaving => Ok(TurnEnd::Cancelled),
    }
}

/// Assembles the agent for an interactive conversation. A follow-up session may start with turns.
pub async fn open_conversation(
    turn: &Prepared<'_>,
    begin: Option<&[Content]>,
) -> Result<Conversation, Failure> {
    Conversation::new(interactive(turn, begin).await?)
}

/// Assembles the agent for a session that front ends attach to and detach from.
pub async fn open_hosted(
    turn: &Prepared<'_>,
    begin: Option<&[Content]>,
    limits: Limits,
) -> Result<HostedSession, Failure> {
    let Assembled { link, companion, sandbox, session_file, .. } = interactive(turn, begin).await?;
    Ok(HostedSession { hosted: Hosted::accompanied(link, limits, companion), sandbox, session_file })
}

/// A session for any number of front ends.
pub struct HostedSession {
    pub hosted: Arc<Hosted>,
    /// The sandbox of its commands.
    pub sandbox: SandboxSlot,
    pub session_file: Option<PathBuf>,
}

async fn interactive(turn: &Prepared<'_>, begin: Option<&[Content]>) -> Result<Assembled, Failure> {
    let services = Services::open(turn.loaded, Interaction::Interactive)?;
    let opening = Opening { begin, noticed: Vec::new(), cancel: CancellationToken::new() };
    assembled(turn, services, Interaction::Interactive, opening).await
}

/// How a conversation starts.
struct Opening<'a> {
    /// Turns carried over from another conversation.
    begin: Option<&'a [Content]>,
    /// Warnings from before the assembly.
    noticed: Vec<String>,
    /// Cancelled when the user asks to quit at once.
    cancel: CancellationToken,
}

/// Boxed, so that its code is there once and not for each crate that awaits it.
fn assembled<'a>(
    turn: &'a Prepared<'_>,
    services: Services,
    manner: Interaction,
    opening: Opening<'a>,
) -> Pin<Box<dyn Future<Output = Result<Assembled, Failure>> + 'a>> {
    Box::pin(assemble(turn, services, manner, opening))
}

async fn assemble(
    turn: &Prepared<'_>,
    mut services: Services,
    manner: Interaction,
    opening: Opening<'_>,
) -> Result<Assembled, Failure> {
    let Opening { begin, noticed, cancel } = opening;
    let loaded = turn.loaded;
    let interactive = manner == Interaction::Interactive;
    let mut budget_warnings = Vec::new();
    let meter = budget::meter(turn, &mut budget_warnings)?;
    let model = models::client(turn, &meter)?;
    let (workspace, background) = (Arc::clone(&services.workspace), Arc::clone(&services.background));
    let mut context = context_files(loaded, &workspace);
    let (approval, confined) = (turn.permission.approval, turn.sandbox.kind(loaded));
    let mut prompt = prompt_inputs(loaded, approval, confined, interactive, &mut context)?;
    prompt.appendix.clone_from(&turn.request.client_instructions);
    let environment = environment(loaded, &workspace, &mut context);
    let mut warnings = workspace.warnings().to_vec();
    warnings.extend(budget_warnings.into_iter().chain(extension_warnings(loaded)));
    warnings.extend(context.take_warnings());
    warnings.append(&mut services.unused);
    warnings.extend(system_prompt::unused_system_prompt(loaded));
    let recall = memory::recall(turn, &meter, &mut warnings);
    prompt.learnings = recall.as_ref().and_then(|recall| memory::learnings(recall, &mut warnings));
    let policy = policy::engine(turn.request, loaded, workspace.directories());
    warnings.extend(policy.problems().iter().map(ToString::to_string));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sandbox = SandboxSlot::new(turn.sandbox.rights.clone());
    let setup = tool_setup(loaded, &services, sandbox.clone(), &clock);
    let mut tools = all_tools(setup.clone(), loaded, &model)?;
    tools.extend(discovered(&setup, loaded, &mut warnings).await?);
    tools.extend(recall.iter().flat_map(memory::tools));
    let shadow = rewind::open_shadow(loaded, &background, interactive).await?;
    // Last, because it may copy a session.
    let sessions::Continued { mut recorder, history, spending } =
        sessions::resume_or_create(&turn.session, loaded)?;
    meter.budget().resume(budget::spent(loaded, &spending));
    let directory = workspace.root().to_path_buf();
    let checkers = checker::programs(loaded, &directory, Arc::clone(&background));
    let change_recorder = Arc::new(recorded_changes(turn, shadow));
    let mut restored = history;
    let hooks = hooks::port(turn, &directory, begin, Arc::clone(&background), &mut warnings);
    recorder.note_model(Some(chosen_model(turn, &*model)));
    restored.extend(saved_chat::record(&mut recorder, begin.unwrap_or_default()));
    let session_file = recorder.path().map(Path::to_path_buf);
    let spec = SessionSpec {
        session: turn.session.id.clone(),
        interactive,
        approval: turn.permission.approval,
        model: model_settings(turn),
        alternatives: model_list::alternatives(loaded, &turn.credentials.provider),
        tools: loaded.groups.tools.clone(),
        policy,
        trusted: loaded.trust.uses_project(),
        grants: policy::grants(loaded),
        planning: policy::planning(loaded),
        temp_dir: loaded.project.temp_dir().to_path_buf(),
        prompt,
        first_turn: first_turn(&environment),
        restored,
        roots: workspace.directories().to_vec(),
    };
    let memory_recorder =
        recall.map(|recall| MemoryRecorder::start(&recall, turn, &model, typed_text(turn, interactive)));
    let changes: Option<Arc<dyn Changes>> = Some(Arc::clone(&change_recorder) as Arc<dyn Changes>);
    let checkers = Some(Arc::new(checkers) as Arc<dyn CheckerPort>);
    let late_tools = late_tools(&services);
    let agents_port =
        agents::port(loaded, workspace.directories(), &background, interactive, &mut warnings).await;
    let ports = Ports {
        model: Arc::clone(&model),
        budget: Some(meter),
        tools,
        late_tools,
        session_tools: turn.request.client_tools.as_ref().map(|tools| Arc::clone(&tools.0)),
        terminals: Some(Arc::new(OwnTerminals::new(loaded, Arc::clone(&background)))),
        editor: services.editor.clone().map(|companion| companion as Arc<dyn EditorView>),
        clock,
        recorder,
        context,
        checkers,
        changes,
        hooks: Some(hooks),
        observer: memory_recorder.as_ref().map(MemoryRecorder::observer),
        agents: agents_port,
    };
    let handle = open(spec, ports);
    if let (Some(servers), Some(person)) = (&services.servers, &handle.person) {
        servers.introduce(Arc::clone(person));
    }
    sandbox.introduce(handle.person.clone());
    warnings.extend(system_prompt::write_system_prompt(loaded, &handle.system_prompt));
    warnings.extend(noticed);
    warnings.extend(without_tools(&model.resolve(&loaded.groups.model.name)));
    let titles = if interactive { Titles::of(turn, &model, session_file.as_deref()) } else { None };
    let updates = if interactive { ExtensionUpdates::look(turn.request, loaded) } else { None };
    let services = Arc::new(services);
    let companion = Box::new(BackgroundWork {
        titles,
        updates,
        memory_recorder,
        ..BackgroundWork::new(manner, warnings, Arc::clone(&services), cancel)
    });
    Ok(Assembled { link: handle.into(), companion, services, change_recorder, sandbox, session_file })
}

fn tool_setup(
    loaded: &Loaded,
    services: &Services,
    sandbox: SandboxSlot,
    clock: &Arc<dyn Clock>,
) -> ToolSetup {
    let tools = &loaded.groups.tools;
    ToolSetup {
        workspace: Arc::clone(&services.workspace),
        filtering: loaded.groups.context.filtering.clone(),
        tools: tools.clone(),
        child_env: loaded.command_env(),
        background: Arc::clone(&services.background),
        sandbox,
        clock: Arc::clone(clock),
        client_terminals: client_terminals(loaded),
    }
}

/// Terminals of the session's client, if the user wants commands to run there.
fn client_terminals(loaded: &Loaded) -> Option<Arc<dyn ClientTerminals>> {
    let wanted =
        matches!(loaded.settings.get("acp.terminal"), Some((Value::String(word), _)) if word == "client");
    loaded.client_terminals.as_ref().filter(|_| wanted).map(|terminals| Arc::clone(&terminals.0))
}

pub(crate) fn recorded_changes(turn: &Prepared<'_>, shadow: Option<CheckpointStore>) -> ChangeRecorder {
    let loaded = turn.loaded;
    let rewind = &loaded.groups.general.rewind;
    ChangeRecorder::new(&loaded.home, &loaded.project, &turn.session.id, rewind, shadow)
}

/// The warning about a model that cannot use tools.
fn without_tools(info: &ModelInfo) -> Option<String> {
    let warning = || format!("{} cannot call tools. To change this, set `providers.<id>.tools`.", info.id);
    (!info.caps.tools).then(warning)
}

/// The model settings with the concrete model where the provider decides it.
fn model_settings(turn: &Prepared<'_>) -> Model {
    let mut model = turn.loaded.groups.model.clone();
    if turn.credentials.auth.is_none() {
        model.name.clone_from(&turn.credentials.model);
    }
    model
}

/// The model that the session starts with, for its file.
fn chosen_model(turn: &Prepared<'_>, client: &dyn ModelClient) -> SessionModel {
    let info = client.resolve(&model_settings(turn).name);
    let (provider, name) = (turn.credentials.provider.clone(), turn.credentials.model.clone());
    SessionModel { provider, name, local: info.local }
}

/// Which part of a prompt the user typed.
fn typed_text(turn: &Prepared<'_>, interactive: bool) -> TypedText {
    if interactive { TypedText::AllTyped } else { TypedText::Only(turn.request.prompt.clone()) }
}

/// The tools of MCP servers and skills, which change over time.
fn late_tools(services: &Services) -> Option<Arc<dyn ToolSource>> {
    let servers = services.servers.clone().map(|servers| servers as Arc<dyn ToolSource>);
    let shelf = services.skills.clone().map(|shelf| shelf as Arc<dyn ToolSource>);
    ToolSources::join(servers.into_iter().chain(shelf))
}

/// Tools from `tools.discoveryCommand`; warnings are about invalid declarations.
async fn discovered(
    setup: &ToolSetup,
    loaded: &Loaded,
    warnings: &mut Vec<String>,
) -> Result<Vec<Arc<dyn Tool>>, Failure> {
    let text = |key: &str| match loaded.settings.get(key) {
        Some((Value::String(text), _)) if !text.trim().is_empty() => Some(text.clone()),
        _ => None,
    };
    let Some(discovery_command) = text("tools.discoveryCommand") else { return Ok(Vec::new()) };
    let discovery = DiscoverySetup {
        discovery_command,
        call_command: text("tools.callCommand"),
        directory: setup.workspace.root().to_path_buf(),
        child_env: setup.child_env.clone(),
        background: Arc::clone(&setup.background),
        sandbox: setup.sandbox.clone(),
    };
    let found = discover(&discovery, &CancellationToken::new()).await.map_err(|error| {
        Failure::from_error(ExitKind::Config, &error).hint("fix or remove `tools.discoveryCommand`")
    })?;
    warnings.extend(found.ignored);
    Ok(found.tools)
}

/// All tools; the policy decides which of them the model sees.
pub fn all_tools(
    setup: ToolSetup,
    loaded: &Loaded,
    model: &Arc<dyn ModelClient>,
) -> Result<Vec<Arc<dyn Tool>>, Failure> {
    let http = ClientOptions::from_env(&loaded.env, format!("pollux/{VERSION}"));
    let mut fetching = WebFetchSetup::new(Arc::clone(model), Arc::clone(&setup.clock), http);
    fetching.allowed_private_hosts = policy::allowed_hosts(loaded);
    fetching.direct =
        matches!(loaded.settings.get("experimental.directWebFetch"), Some((Value::Bool(true), _)));
    let web_fetch = web_fetch(fetching).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let many = read_many_files(&setup);
    let mut tools = builtin(setup);
    tools.push(many);
    tools.push(get_internal_docs());
    tools.push(web_fetch);
    tools.push(google_web_search(Arc::clone(model)));
    tools.push(save_memory(loaded.home.global_context_file("GEMINI.md")));
    // As in upstream, only some models get the todo tool.
    let wants_list = model.resolve(&loaded.groups.model.name).caps.wants_todo_list;
    if wants_list && !matches!(loaded.settings.get("useWriteTodos"), Some((Value::Bool(false), _))) {
        tools.push(write_todos());
    }
    Ok(tools)
}

/// Warnings about invalid and changed extensions.
fn extension_warnings(loaded: &Loaded) -> Vec<String> {
    extensions::warnings(loaded)
        .chain(extensions::context_files(loaded).1)
        .chain(extensions::changed(loaded))
        .collect()
}

pub(crate) fn environment(loaded: &Loaded, workspace: &Workspace, context: &mut ContextFiles) -> Environment {
    Environment {
        now: SystemClock.now(),
        platform: match std::env::consts::OS {
            "macos" => "darwin",
            "windows" => "win32",
            other => other,
        },
        project_temp: loaded.project.temp_dir().to_path_buf(),
        roots: workspace.directories().to_vec(),
        tree: loaded.groups.context.include_directory_tree.then(|| loaded.groups.context.filtering.clone()),
        extension_context: context.extensions(&extensions::context_files(loaded).0),
        project_context: context.project(),
    }
}

pub(crate) fn prompt_inputs(
    loaded: &Loaded,
    mode: ApprovalMode,
    sandbox: Option<String>,
    interactive: bool,
    context: &mut ContextFiles,
) -> Result<PromptInputs, Failure> {
    let off = |key: &&&str| {
        let value = loaded.env.get(&format!("GEMINI_PROMPT_{}", key.to_uppercase()));
        matches!(value, Some("0" | "false"))
    };
    let disabled: BTreeSet<String> = SECTION_KEYS.iter().filter(off).map(|key| (*key).to_owned()).collect();
    Ok(PromptInputs {
        interactive,
        mode,
        context_file_names: loaded.groups.context.file_names.clone(),
        global_context: context.global(),
        project_memory: context.private(),
        in_git_repository: loaded.project.root().ancestors().any(|folder| folder.join(".git").exists()),
        sandbox,
        disabled,
        replacement: system_prompt::own_system_prompt(loaded)?,
        ..PromptInputs::default()
    })
}
