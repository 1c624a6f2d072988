//! Opens a session for a front end: its specification, its ports, and its handle.

pub(crate) mod operations;
mod session_loop;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::groups::{Model, Tools};
use pollux_domain::approval::{ApprovalMode, Person};
use pollux_domain::budget::SessionBudget;
use pollux_domain::changes::Changes;
use pollux_domain::content::Content;
use pollux_domain::editor::EditorView;
use pollux_domain::event::Event;
use pollux_domain::id::SessionId;
use pollux_domain::model::ModelClient;
use pollux_domain::session_observer::SessionObserver;
use pollux_domain::terminals::Terminals;
use pollux_domain::time::Clock;
use pollux_domain::tool::{Tool, ToolSource, ToolSources, ToolSpec};
use pollux_extend::context::ContextFiles;
use pollux_hooks::HookScene;
use pollux_policy::checker::CheckerPort;
use pollux_policy::engine::Engine;
use pollux_session::{Recorder, RestoredTurn};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::operations::Operations;
use crate::approval::Approvals;
use crate::authority::{Authority, GrantReach};
use crate::consoles::Consoles;
use crate::control;
use crate::conversation::Conversation;
use crate::editor_context::EditorContext;
use crate::emitter::Emitter;
use crate::fallback::state::FallbackState;
use crate::history::{History, HistoryEntry};
use crate::hooked::{HookPort, Hooked};
use crate::invoke_agent;
use crate::pending_questions::PendingQuestions;
use crate::prompt::{Profile, PromptInputs};
use crate::services::{CallIds, Services};
use crate::session::{ModelState, Session};
use crate::subagent::port::AgentPort;
use crate::subagent_host::{Briefing, Host};
use crate::toolbox::{ToolOffer, Toolbox};
use crate::truncate;

/// Capacity of the event channel; a turn pauses when the front end does not keep up.
const EVENT_QUEUE: usize = 256;
/// Capacity of the operation channel.
const OP_QUEUE: usize = 16;

/// The specification of a session.
pub struct SessionSpec {
    pub session: SessionId,
    pub interactive: bool,
    pub approval: ApprovalMode,
    pub model: Model,
    pub tools: Tools,
    /// What may run.
    pub policy: Arc<Engine>,
    /// Whether the folder is trusted: without trust, privileged approval modes are not available.
    pub trusted: bool,
    /// How far a person's answers may reach.
    pub grants: GrantReach,
    /// Whether plan mode is available.
    pub planning: Planning,
    /// The project's state folder, for saved outputs and plans.
    pub temp_dir: PathBuf,
    pub prompt: PromptInputs,
    /// The first message; see [`crate::environment`].
    pub first_turn: Content,
    /// The history of an earlier run.
    pub restored: Vec<RestoredTurn>,
    /// The workspace folders, the project first.
    pub roots: Vec<PathBuf>,
    /// Models of other usable providers, to propose when the chosen one cannot answer.
    pub alternatives: Vec<String>,
}

/// The ports of a session.
pub struct Ports {
    pub model: Arc<dyn ModelClient>,
    /// The budget that `model` draws from; without it, nothing is limited.
    pub budget: Option<Arc<dyn SessionBudget>>,
    pub tools: Vec<Arc<dyn Tool>>,
    /// Dynamic tools.
    pub late_tools: Option<Arc<dyn ToolSource>>,
    /// Tools provided by the front end for this session; they come last.
    pub session_tools: Option<Arc<dyn ToolSource>>,
    /// Runs user shell commands; without it, [`pollux_domain::event::Op::Shell`] is refused.
    pub terminals: Option<Arc<dyn Terminals>>,
    /// The user's editor.
    pub editor: Option<Arc<dyn EditorView>>,
    pub clock: Arc<dyn Clock>,
    pub recorder: Recorder,
    pub context: ContextFiles,
    /// Runs external safety checkers; without it, calls that need one are refused.
    pub checkers: Option<Arc<dyn CheckerPort>>,
    /// Records file changes; without it, nothing can be rewound.
    pub changes: Option<Arc<dyn Changes>>,
    /// The hooks.
    pub hooks: Option<HookPort>,
    /// Records the conversation for the memory.
    pub observer: Option<Arc<dyn SessionObserver>>,
    /// The sub-agents.
    pub agents: Option<AgentPort>,
}

/// Whether plan mode is enabled, and the plan folder.
#[derive(Debug, Clone, Default)]
pub enum Planning {
    /// In the session's folder in the project's state folder.
    #[default]
    InSessionFolder,
    /// In a configured folder.
    In(PathBuf),
    Off,
}

/// A handle to a session. Dropping `ops` cancels the current turn and ends the session.
pub struct Handle {
    pub ops: Operations,
    pub events: mpsc::Receiver<Event>,
    pub task: JoinHandle<()>,
    /// The system prompt as it is sent.
    pub system_prompt: Arc<str>,
    /// Asks the user at the front end; only for interactive sessions.
    pub person: Option<Arc<dyn Person>>,
}

/// Starts a session on the current runtime.
pub fn open(mut spec: SessionSpec, ports: Ports) -> Handle {
    let (ops, inbox) = mpsc::channel(OP_QUEUE);
    let (outbox, events) = mpsc::channel(EVENT_QUEUE);
    let roots = std::mem::take(&mut spec.roots);
    let session = new_session(spec, ports, outbox);
    let system_prompt = Arc::clone(&session.conversation.system);
    let person = session.interactive.then(|| Arc::clone(&session.authority.questions) as Arc<dyn Person>);
    Handle {
        ops: Operations::new(ops),
        events,
        task: tokio::spawn(session_loop::live(session, roots, inbox)),
        system_prompt,
        person,
    }
}

/// What the first request of a session would hold before the user's prompt.
pub struct Preview {
    pub profile: Profile,
    pub system_prompt: Arc<str>,
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// The first message.
    pub first_turn: Arc<Content>,
}

/// Assembles a session without starting it.
pub fn preview(spec: SessionSpec, ports: Ports) -> Preview {
    let first_turn = Arc::new(spec.first_turn.clone());
    let (outbox, _events) = mpsc::channel(1);
    let session = new_session(spec, ports, outbox);
    let opening = session.conversation.history.entries().first().map(|entry| Arc::clone(&entry.content));
    Preview {
        profile: session.conversation.prompt.profile,
        system_prompt: Arc::clone(&session.conversation.system),
        tools: session.toolbox.declared(),
        first_turn: opening.unwrap_or(first_turn),
    }
}

fn new_session(spec: SessionSpec, ports: Ports, events: mpsc::Sender<Event>) -> Session {
    let plans = plans_dir(&spec);
    let approvals = Arc::new(Approvals::new(spec.policy, spec.approval, spec.interactive, spec.trusted));
    let scene = HookScene {
        session_id: spec.session.to_string(),
        transcript_path: ports.recorder.path().map(Path::to_path_buf),
        plans_dir: plans.clone(),
        ..HookScene::default()
    };
    let hooked = Arc::new(Hooked::new(ports.hooks, scene, events.downgrade(), ports.budget.clone()));
    let questions = Arc::new(PendingQuestions::new(events.downgrade(), Arc::clone(&hooked)));
    let authority =
        Arc::new(Authority { approvals, questions, reach: spec.grants, checkers: ports.checkers });
    let late_tools = ToolSources::join(ports.late_tools.into_iter().chain(ports.session_tools));
    let mut tools = ports.tools;
    tools.extend(control::tools(&authority, plans.as_deref()));
    let services = Arc::new(Services {
        client: ports.model,
        budget: ports.budget,
        clock: ports.clock,
        consoles: Arc::new(Consoles::new(spec.tools.interactive_shell)),
        tool_settings: spec.tools,
        temp_dir: spec.temp_dir,
        changes: ports.changes,
        terminals: ports.terminals,
        hooked,
        call_ids: CallIds::default(),
    });
    let mut prompt = PromptInputs {
        profile: Profile::of(&services.client.resolve(&spec.model.name)),
        plans_dir: plans.unwrap_or_default(),
        mode: spec.approval,
        ..spec.prompt
    };
    let host = ports.agents.map(|port| {
        prompt.agents = port.registry.enabled().map(|agent| port.introduction(agent)).collect();
        let briefing = Briefing {
            prompt: prompt.clone(),
            first_turn: spec.first_turn.clone(),
            context: ports.context.clone(),
        };
        Arc::new(Host {
            records: ports.recorder.subagents_dir(),
            durability: ports.recorder.durability(),
            services: Arc::clone(&services),
            authority: Arc::clone(&authority),
            tools: tools.clone(),
            late: late_tools.clone(),
            briefing,
            events: events.downgrade(),
            current: Host::current(spec.model.clone()),
            port,
        })
    });
    tools.extend(host.iter().flat_map(invoke_agent::forms));
    let mut toolbox = Toolbox::new(tools, late_tools, &authority.approvals);
    if toolbox.offer(ToolOffer::to(&services.client.resolve(&spec.model.name))) {
        toolbox.look_again(&authority.approvals);
    }
    let restored = spec.restored.into_iter().map(HistoryEntry::restored);
    let conversation = Conversation::new(History::new(spec.first_turn, restored), prompt, &toolbox);
    for id in conversation.history.call_ids() {
        services.call_ids.claim(&id);
    }
    Session {
        id: spec.session,
        interactive: spec.interactive,
        model_settings: spec.model,
        models: ModelState { fallback: FallbackState::new(spec.alternatives), ..ModelState::default() },
        services,
        authority,
        toolbox,
        conversation,
        editor: ports.editor.map(EditorContext::new),
        stopped_by_person: false,
        context: ports.context,
        observer: ports.observer,
        host,
        recorder: ports.recorder,
        emitter: Emitter { events, subagent: None },
    }
}

fn plans_dir(spec: &SessionSpec) -> Option<PathBuf> {
    // An id from a session file is untrusted and could contain a path.
    let own = || spec.temp_dir.join(truncate::safe(spec.session.as_str())).join("plans");
    match &spec.planning {
        Planning::InSessionFolder => Some(own()),
        Planning::In(folder) => Some(folder.clone()),
        Planning::Off => None,
    }
}
