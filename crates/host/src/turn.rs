//! Assembles the agent, and runs one prompt or a conversation.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_agent::environment::{Environment, first_turn};
use pollux_agent::prompt::{PromptInputs, SECTION_KEYS};
use pollux_agent::{Ports, SessionSpec, open};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::changes::Changes;
use pollux_domain::content::{Content, Part};
use pollux_domain::event::{Event, NoticeCode, Op, Severity, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::ModelClient;
use pollux_domain::time::{Clock, SystemClock};
use pollux_domain::tool::{Tool, ToolSource, ToolSources, ToolSpec};
use pollux_exec::background::Background;
use pollux_exec::environment::for_command;
use pollux_extend::context::{ContextFiles, Places};
use pollux_extend::skills::Shelf;
use pollux_mcp::Servers;
use pollux_net::client::ClientOptions;
use pollux_policy::checker::CheckerPort;
use pollux_tools::{
    DiscoverySetup, SandboxSlot, ToolSetup, WebFetchSetup, Workspace, WorkspaceSetup, builtin, discover,
    get_internal_docs, google_web_search, read_many_files, save_memory, web_fetch, write_todos,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::custom_commands::Commands;
use super::extension_updates::ExtensionUpdates;
use super::memory::{self, OwnWords, Remembrance};
use super::rewind::{self, Keeper};
use super::titles::Titles;
use super::{
    Done, Loaded, Prepared, Sink, agents, built_in_prompts, checker, extensions, hooks, mcp, models, policy,
    saved_chat, sessions, skills, system_prompt,
};
use crate::VERSION;

/// An agent that can be spoken to.
pub struct Conversation {
    pub handle: pollux_agent::Handle,
    /// What was noticed while it was assembled.
    pub warnings: Vec<String>,
    pub session_file: Option<PathBuf>,
    pub outside: Outside,
    pub(crate) keeper: Arc<Keeper>,
    /// Where the commands of tools start.
    pub sandbox: SandboxSlot,
    pub(crate) titles: Option<Titles>,
    /// Only in the first conversation of a run.
    updates: Option<ExtensionUpdates>,
    /// It was said that a server failed.
    said_problem: bool,
    /// Where the memory is on.
    remembrance: Option<Remembrance>,
}

/// A prompt as the model gets it, and what was left out of it.
pub type Expanded = (Vec<Part>, Vec<String>);

/// Assembles the agent and runs one prompt; every event goes to `sink`, in order.
pub async fn run_turn(
    mut turn: Prepared<'_>,
    prompt: String,
    cancel: CancellationToken,
    sink: &mut Sink<'_>,
) -> Result<Done, Failure> {
    if built_in_prompts::wants_plan(turn.request.prompt.as_deref()) {
        turn.permission.approval = ApprovalMode::Plan;
    }
    let outside = Outside::open(turn.loaded, Manner::Headless)?;
    if prompt.trim_start().starts_with('/') {
        // It may be a server's prompt.
        mcp::wait_for_tools(outside.servers.as_deref(), &cancel, sink).await;
    }
    let Some(expanded) = outside.expand_headless(&prompt, &turn, &cancel).await else {
        return Ok(Done { end: TurnEnd::Cancelled, session_file: None });
    };
    let (parts, passed_over) = expanded?;
    let conversation = assemble(&turn, outside, Manner::Headless, None).await?;
    let Conversation { handle, mut warnings, session_file, outside, remembrance, .. } = conversation;
    warnings.extend(passed_over);
    let op = Op::Prompt { parts, typed: prompt };
    let end = converse(handle, op, warnings, outside.servers.as_deref(), &cancel, sink).await;
    if let Some(remembrance) = remembrance {
        let (notes, requests) = remembrance.close(cancel.is_cancelled()).await;
        let notices = notes.into_iter().map(memory::notice);
        for event in requests.into_iter().chain(notices) {
            let _ = sink(&event);
        }
    }
    outside.shutdown().await;
    Ok(Done { end: end?, session_file })
}

/// Assembles the agent for a person who stays. A session that follows another one may begin with turns.
pub async fn open_conversation(
    turn: &Prepared<'_>,
    begin: Option<&[Content]>,
) -> Result<Conversation, Failure> {
    let outside = Outside::open(turn.loaded, Manner::Interactive)?;
    assemble(turn, outside, Manner::Interactive, begin).await
}

impl Conversation {
    /// A prompt with its `@paths` read; `None` when it was cancelled.
    pub async fn expand(
        &self,
        prompt: &str,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        self.outside.expand(prompt, loaded, cancel).await
    }

    /// Whether a word with a slash calls a skill or a prompt of a server's.
    pub fn has_prompt(&self, word: &str) -> bool {
        let servers = self.outside.servers.as_ref();
        servers.is_some_and(|servers| servers.has_prompt(word.trim_start_matches('/')))
            || skills::called(self.outside.skills.as_deref(), word).is_some()
    }

    /// How MCP servers stand and what they offer, in lines.
    pub fn servers(&self, detail: mcp::Detail, tools: &[Arc<ToolSpec>]) -> Vec<String> {
        let servers = self.outside.servers.as_deref();
        servers.map(|servers| mcp::lines(servers, detail, tools)).unwrap_or_default()
    }

    /// The servers that want somebody to sign in.
    pub fn servers_to_sign_in(&self) -> Vec<String> {
        let reports = self.outside.servers.as_deref().map(Servers::reports).unwrap_or_default();
        reports.into_iter().filter(|report| report.sign_in.is_some()).map(|report| report.name).collect()
    }

    /// What went on beside it since it was last asked.
    pub fn beside(&mut self) -> Vec<Event> {
        let mut events = self.titles.as_mut().map(Titles::events).unwrap_or_default();
        events.extend(self.remembrance.as_mut().map(Remembrance::events).unwrap_or_default());
        events.extend(self.updates.as_mut().map(ExtensionUpdates::events).unwrap_or_default());
        if !self.said_problem && self.outside.servers.as_deref().is_some_and(Servers::has_problem) {
            self.said_problem = true;
            events.push(mcp::problem("/mcp"));
        }
        events
    }

    /// The model has answered; the session may get a title.
    pub fn name_session(&mut self) {
        if let Some(titles) = &mut self.titles {
            titles.begin();
        }
    }

    /// Asks it to end, for another conversation if `cleared`; it may still have something to say.
    pub async fn end(&mut self, cleared: bool) {
        self.outside.cleared = cleared;
        let _ = self.handle.ops.send(Op::End { cleared }).await;
    }

    /// Ends it: what runs is cancelled, what is written is on disk. Lines for the person about what is not.
    pub async fn close(self) -> Vec<String> {
        let pollux_agent::Handle { ops, mut events, task, .. } = self.handle;
        drop(ops);
        // A session that still has something to say must not wait for a reader.
        while events.recv().await.is_some() {}
        let _ = task.await;
        if let Some(titles) = self.titles {
            titles.write().await;
        }
        let notes = match self.remembrance {
            Some(remembrance) => remembrance.close(false).await.0,
            None => Vec::new(),
        };
        self.outside.shutdown().await;
        notes
    }
}

/// What a conversation reaches of the machine.
pub struct Outside {
    pub workspace: Arc<Workspace>,
    pub background: Arc<Background>,
    /// They connect while everything else goes on.
    pub servers: Option<Arc<Servers>>,
    /// Another conversation follows, with the same servers.
    cleared: bool,
    kept: mcp::Kept,
    pub commands: Commands,
    /// `None` where they are switched off.
    pub skills: Option<Arc<Shelf>>,
    /// Lines about skills and servers that cannot be used.
    unused: Vec<String>,
}

impl Outside {
    fn open(loaded: &Loaded, manner: Manner) -> Result<Self, Failure> {
        let workspace = Arc::new(workspace(loaded)?);
        let background = Arc::new(Background::new(loaded.home.tmp_dir().join("background-processes")));
        let interactive = manner == Manner::Interactive;
        let (servers, mut unused) = mcp::start(loaded, workspace.directories(), interactive);
        let (skills, wrong) = skills::shelf(loaded, &workspace);
        unused.extend(wrong);
        let kept = loaded.servers.clone();
        let commands = Commands::default();
        Ok(Self { workspace, background, servers, cleared: false, kept, commands, skills, unused })
    }

    pub async fn expand(
        &self,
        prompt: &str,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let mut expanded = self.expand_files(prompt, loaded, cancel).await?;
        if let Ok((parts, _)) = &mut expanded {
            parts.extend(agents::note(prompt, loaded).map(Part::text));
        }
        Some(expanded)
    }

    async fn expand_files(
        &self,
        prompt: &str,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let filtering = &loaded.groups.context.filtering;
        let servers = self.servers.as_deref();
        if let Some(shelf) = self.skills.as_deref()
            && let Some((skill, words)) = skills::called(Some(shelf), prompt)
        {
            let (part, words) = match skills::activated(shelf, &skill, words) {
                Ok(activated) => activated,
                Err(failure) => return Some(Err(failure)),
            };
            let expanded = super::prompt::expand(&words, &self.workspace, filtering, servers, cancel).await?;
            return Some(skills::before(part, expanded));
        }
        super::prompt::expand(prompt, &self.workspace, filtering, servers, cancel).await
    }

    async fn shutdown(self) {
        let servers = async {
            match &self.servers {
                Some(servers) if self.cleared => self.kept.put(Arc::clone(servers)),
                Some(servers) => servers.shutdown().await,
                None => {}
            }
        };
        tokio::join!(servers, self.background.shutdown());
    }
}

/// Whether a person is there to be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Interactive,
    Headless,
}

async fn assemble(
    turn: &Prepared<'_>,
    mut outside: Outside,
    manner: Manner,
    begin: Option<&[Content]>,
) -> Result<Conversation, Failure> {
    let loaded = turn.loaded;
    let interactive = manner == Manner::Interactive;
    let model = models::client(turn)?;
    let (workspace, background) = (Arc::clone(&outside.workspace), Arc::clone(&outside.background));
    let mut context = context_files(loaded, &workspace);
    let mut prompt = prompt_inputs(turn, interactive, &mut context)?;
    let environment = environment(loaded, &workspace, &mut context);
    let mut warnings = workspace.warnings().to_vec();
    warnings.extend(extension_warnings(loaded));
    warnings.extend(context.take_warnings());
    warnings.append(&mut outside.unused);
    warnings.extend(system_prompt::unused_system_prompt(loaded));
    let recall = memory::recall(turn, &mut warnings);
    prompt.learnings = recall.as_ref().and_then(|recall| memory::learnings(recall, &mut warnings));
    let policy = policy::engine(turn.request, loaded, workspace.directories());
    warnings.extend(policy.problems().iter().map(ToString::to_string));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sandbox = SandboxSlot::new(turn.sandbox.borders.clone());
    let setup = ToolSetup {
        workspace: Arc::clone(&workspace),
        filtering: loaded.groups.context.filtering.clone(),
        tools: loaded.groups.tools.clone(),
        child_env: for_command(&loaded.env, &loaded.groups.tools.redaction, &loaded.groups.tools.shell_pager),
        background: Arc::clone(&background),
        sandbox: sandbox.clone(),
        clock: Arc::clone(&clock),
    };
    let mut tools = all_tools(setup.clone(), loaded, &model)?;
    tools.extend(discovered(&setup, loaded, &mut warnings).await?);
    tools.extend(recall.iter().flat_map(memory::tools));
    let sessions::Continued { mut recorder, history } = sessions::go_on(&turn.session, loaded)?;
    let directory = workspace.root().to_path_buf();
    let checkers = checker::programs(loaded, &directory, Arc::clone(&background));
    let shadow = rewind::open_shadow(loaded, &background, interactive).await?;
    let general = &loaded.groups.general;
    let keeper =
        Arc::new(Keeper::new(&loaded.home, &loaded.project, &turn.session.id, &general.rewind, shadow));
    let mut restored = history;
    let hooks = hooks::port(turn, &directory, begin, Arc::clone(&background), &mut warnings);
    restored.extend(saved_chat::record(&mut recorder, begin.unwrap_or_default()));
    let session_file = recorder.path().map(Path::to_path_buf);
    let spec = SessionSpec {
        session: turn.session.id.clone(),
        interactive,
        approval: turn.permission.approval,
        model: loaded.groups.model.clone(),
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
    let own_words =
        if interactive { OwnWords::AllTyped } else { OwnWords::Only(turn.request.prompt.clone()) };
    let remembrance = recall.map(|recall| Remembrance::start(&recall, turn, &model, own_words));
    let changes: Option<Arc<dyn Changes>> = Some(Arc::clone(&keeper) as Arc<dyn Changes>);
    let checkers = Some(Arc::new(checkers) as Arc<dyn CheckerPort>);
    let servers = outside.servers.clone().map(|servers| servers as Arc<dyn ToolSource>);
    let shelf = outside.skills.clone().map(|shelf| shelf as Arc<dyn ToolSource>);
    let late_tools = ToolSources::join(servers.into_iter().chain(shelf));
    let agents_port =
        agents::port(loaded, workspace.directories(), &background, interactive, &mut warnings).await;
    let ports = Ports {
        model: Arc::clone(&model),
        tools,
        late_tools,
        session_tools: None,
        terminals: None,
        clock,
        recorder,
        context,
        checkers,
        changes,
        hooks: Some(hooks),
        witness: remembrance.as_ref().map(Remembrance::witness),
        agents: agents_port,
    };
    let handle = open(spec, ports);
    if let (Some(servers), Some(person)) = (&outside.servers, &handle.person) {
        servers.introduce(Arc::clone(person));
    }
    warnings.extend(system_prompt::write_system_prompt(loaded, &handle.system_prompt));
    let titles = if interactive { Titles::of(turn, &model, session_file.as_deref()) } else { None };
    let updates = if interactive { ExtensionUpdates::look(turn.request, loaded) } else { None };
    Ok(Conversation {
        handle,
        warnings,
        session_file,
        outside,
        keeper,
        sandbox,
        titles,
        updates,
        said_problem: false,
        remembrance,
    })
}

/// Tools that a command of the user's names and runs; warnings are about declarations that cannot be used.
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
        Failure::from_error(ExitKind::Config, &error)
            .hint("`tools.discoveryCommand` names the command; correct it or remove the setting")
    })?;
    warnings.extend(found.ignored);
    Ok(found.tools)
}

/// Every tool there is; which of them the model sees is decided by the policy.
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
    // As upstream: only the models that need the reminder get the list.
    let wants_list = model.resolve(&loaded.groups.model.name).caps.wants_todo_list;
    if wants_list && !matches!(loaded.settings.get("useWriteTodos"), Some((Value::Bool(false), _))) {
        tools.push(write_todos());
    }
    Ok(tools)
}

/// Sends the prompt and passes on what happens until the turn is over and the session is closed.
async fn converse(
    mut handle: pollux_agent::Handle,
    op: Op,
    warnings: Vec<String>,
    servers: Option<&Servers>,
    cancel: &CancellationToken,
    sink: &mut Sink<'_>,
) -> Result<TurnEnd, Failure> {
    mcp::wait_for_tools(servers, cancel, sink).await;
    let mut asked_to_stop = handle.ops.send(op).await.is_err();
    let end = loop {
        let event = tokio::select! {
            biased;
            () = cancel.cancelled(), if !asked_to_stop => {
                asked_to_stop = true;
                let _ = handle.ops.send(Op::Cancel).await;
                continue;
            }
            event = handle.events.recv() => event,
        };
        let Some(event) = event else { break None };
        // A session's first word is that it is there; then come the things that were noticed before.
        let noticed = if matches!(event, Event::SessionReady { .. }) { warnings.as_slice() } else { &[] };
        if let (Event::RequestSent(_), Some(servers)) = (&event, servers) {
            servers.begin();
        }
        if matches!(event, Event::TurnEnded(_)) && servers.is_some_and(Servers::has_problem) {
            let _ = sink(&mcp::problem("pollux mcp list"));
        }
        if sink(&event).is_break() && !asked_to_stop {
            asked_to_stop = true;
            let _ = handle.ops.send(Op::Cancel).await;
        }
        for message in noticed {
            let (severity, message) = (Severity::Warning, message.clone());
            let _ = sink(&Event::Notice { severity, code: NoticeCode::Workspace, message });
        }
        if let Event::TurnEnded(end) = event {
            break Some(end);
        }
    };
    // Hooks may have a last word.
    let _ = handle.ops.send(Op::End { cleared: false }).await;
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled(), if !asked_to_stop => {
                asked_to_stop = true;
                let _ = handle.ops.send(Op::Cancel).await;
            }
            event = handle.events.recv() => match event {
                Some(event) => drop(sink(&event)),
                None => break,
            },
        }
    }
    let closed = handle.task.await;
    end.ok_or_else(|| {
        let failure = Failure::new(ExitKind::Failure, "the session ended in the middle of a turn");
        match closed {
            Ok(()) => failure,
            Err(error) => failure.because(&error),
        }
    })
}

pub fn workspace(loaded: &Loaded) -> Result<Workspace, Failure> {
    Workspace::open(&WorkspaceSetup {
        root: loaded.project.root().to_path_buf(),
        include_directories: loaded.groups.context.include_directories.clone(),
        project_temp: loaded.project.temp_dir().to_path_buf(),
        gemini_dir: loaded.home.gemini_dir().to_path_buf(),
        user_home: loaded.home.user_home().to_path_buf(),
    })
    .map_err(|error| Failure::from_error(ExitKind::Input, &error))
}

pub fn context_files(loaded: &Loaded, workspace: &Workspace) -> ContextFiles {
    let places = Places {
        gemini_dir: loaded.home.gemini_dir().to_path_buf(),
        project_temp: loaded.project.temp_dir().to_path_buf(),
        roots: workspace.directories().to_vec(),
        trusted: loaded.trust.uses_project(),
        homes: [Some(loaded.home.user_home()), loaded.env.non_empty("HOME").map(Path::new)]
            .into_iter()
            .flatten()
            .map(Path::to_path_buf)
            .collect(),
    };
    ContextFiles::new(places, &loaded.groups.context)
}

/// What is wrong with extensions, and which of them somebody changed.
fn extension_warnings(loaded: &Loaded) -> Vec<String> {
    let found = extensions::of(loaded).warnings.iter().cloned();
    found.chain(extensions::context_files(loaded).1).chain(extensions::changed(loaded)).collect()
}

fn environment(loaded: &Loaded, workspace: &Workspace, context: &mut ContextFiles) -> Environment {
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

fn prompt_inputs(
    turn: &Prepared<'_>,
    interactive: bool,
    context: &mut ContextFiles,
) -> Result<PromptInputs, Failure> {
    let loaded = turn.loaded;
    let off = |key: &&&str| {
        let value = loaded.env.get(&format!("GEMINI_PROMPT_{}", key.to_uppercase()));
        matches!(value, Some("0" | "false"))
    };
    let disabled: BTreeSet<String> = SECTION_KEYS.iter().filter(off).map(|key| (*key).to_owned()).collect();
    Ok(PromptInputs {
        interactive,
        mode: turn.permission.approval,
        context_file_names: loaded.groups.context.file_names.clone(),
        global_context: context.global(),
        project_memory: context.private(),
        in_git_repository: loaded.project.root().ancestors().any(|folder| folder.join(".git").exists()),
        sandbox: turn.sandbox.kind(loaded),
        disabled,
        replacement: system_prompt::own_system_prompt(loaded)?,
        ..PromptInputs::default()
    })
}
