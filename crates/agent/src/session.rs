//! A session: the actor that owns a conversation.

mod errand;
mod life;
mod notes;
mod operations;

use std::collections::HashSet;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pollux_config::groups::{Model, Tools};
use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalMode, Person};
use pollux_domain::changes::Changes;
use pollux_domain::content::Content;
use pollux_domain::event::{ConversationView, Event, NoticeCode, Refusal, RefusalCode, Severity};
use pollux_domain::id::SessionId;
use pollux_domain::model::{ModelClient, RequestRole};
use pollux_domain::sync::Locked;
use pollux_domain::terminals::Terminals;
use pollux_domain::time::{Clock, Timestamp};
use pollux_domain::tool::{Tool, ToolSource, ToolSources};
use pollux_domain::witness::Witness;
use pollux_extend::context::ContextFiles;
use pollux_hooks::Scene;
use pollux_policy::checker::CheckerPort;
use pollux_policy::engine::Engine;
use pollux_session::{RecordError, Recorder, RestoredTurn};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::approval::Approvals;
use crate::control;
use crate::desk::Desk;
use crate::history::{Entry, History};
use crate::hooked::{Dialogue, HookPort, Hooked};
use crate::permission::GrantReach;
use crate::prompt::{self, PromptInputs};
use crate::subagent::{self, AgentPort, Errand, Host};
use crate::tokens;
use crate::toolbox::Toolbox;
use crate::truncate;

pub(crate) use errand::ErrandSpec;
pub use operations::{Operations, SessionOver};

/// Events waiting for a front end; a turn pauses when it does not keep up.
const EVENT_QUEUE: usize = 256;
/// Operations waiting for the session.
const OP_QUEUE: usize = 16;

/// What a session is to be.
pub struct SessionSpec {
    pub session: SessionId,
    pub interactive: bool,
    pub approval: ApprovalMode,
    pub model: Model,
    pub tools: Tools,
    /// What may run.
    pub policy: Arc<Engine>,
    /// Whether the folder is trusted: without trust no mode is taken that asks less.
    pub trusted: bool,
    /// How far a person's answers may reach.
    pub grants: GrantReach,
    /// Whether the model may plan first.
    pub planning: Planning,
    /// The project's state folder, for outputs that are put aside and for plans.
    pub temp_dir: PathBuf,
    pub prompt: PromptInputs,
    /// The first message; see [`crate::environment`].
    pub first_turn: Content,
    /// What an earlier run of this session left.
    pub restored: Vec<RestoredTurn>,
    /// The folders that it works in, the project's first.
    pub roots: Vec<PathBuf>,
}

/// What a session works with.
pub struct Ports {
    pub model: Arc<dyn ModelClient>,
    pub tools: Vec<Arc<dyn Tool>>,
    /// Tools that join later and may go again.
    pub late_tools: Option<Arc<dyn ToolSource>>,
    /// Tools that a front end brought for this session alone; they come after all others.
    pub session_tools: Option<Arc<dyn ToolSource>>,
    /// Where a person's own commands run; without it, [`pollux_domain::event::Op::Shell`] is refused.
    pub terminals: Option<Arc<dyn Terminals>>,
    pub clock: Arc<dyn Clock>,
    pub recorder: Recorder,
    pub context: ContextFiles,
    /// Runs external safety checkers; without it, calls that need one are refused.
    pub checkers: Option<Arc<dyn CheckerPort>>,
    /// Keeps what calls change; without it, nothing can be taken back.
    pub changes: Option<Arc<dyn Changes>>,
    /// Commands of the user's at certain moments.
    pub hooks: Option<HookPort>,
    /// Remembers the conversation beyond this session.
    pub witness: Option<Arc<dyn Witness>>,
    /// The agents that can be asked for help.
    pub agents: Option<AgentPort>,
}

/// Whether and where plans are made.
#[derive(Debug, Clone, Default)]
pub enum Planning {
    /// In the session's own folder below the project's state.
    #[default]
    InSessionFolder,
    /// In a folder of the project's own.
    In(PathBuf),
    Off,
}

/// A front end's hold on a session. Dropping `ops` cancels the turn under way and ends the session.
pub struct Handle {
    pub ops: Operations,
    pub events: mpsc::Receiver<Event>,
    pub task: JoinHandle<()>,
    /// The system prompt as it is sent.
    pub system_prompt: Arc<str>,
    /// Whoever answers questions at the front end; only for interactive sessions.
    pub person: Option<Arc<dyn Person>>,
}

/// Starts a session on the current runtime.
pub fn open(spec: SessionSpec, ports: Ports) -> Handle {
    let (ops, inbox) = mpsc::channel(OP_QUEUE);
    let (outbox, events) = mpsc::channel(EVENT_QUEUE);
    let session = Session::new(spec, ports, outbox);
    let system_prompt = Arc::clone(&session.system);
    let person = session.interactive.then(|| Arc::clone(&session.desk) as Arc<dyn Person>);
    Handle {
        ops: Operations::new(ops),
        events,
        task: tokio::spawn(session.live(inbox)),
        system_prompt,
        person,
    }
}

/// The state of a session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) interactive: bool,
    pub(crate) model_settings: Model,
    pub(crate) tool_settings: Tools,
    pub(crate) temp_dir: PathBuf,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) reach: GrantReach,
    pub(crate) checkers: Option<Arc<dyn CheckerPort>>,
    pub(crate) changes: Option<Arc<dyn Changes>>,
    pub(crate) witness: Option<Arc<dyn Witness>>,
    /// The prompt under way.
    pub(crate) prompted: Prompted,
    /// What sub-agents get of this session.
    host: Option<Arc<Host>>,
    /// What this session is about when it is a sub-agent's.
    pub(crate) errand: Option<Arc<Errand>>,
    /// Generation settings of every request.
    pub(crate) generation: JsonObject,
    pub(crate) desk: Arc<Desk>,
    pub(crate) hooked: Arc<Hooked>,
    pub(crate) dialogue: Dialogue,
    /// A person ended the turn at a question.
    pub(crate) stopped_by_person: bool,
    pub(crate) toolbox: Toolbox,
    prompt: PromptInputs,
    pub(crate) system: Arc<str>,
    /// Estimated tokens of what every request carries beside the conversation.
    pub(crate) overhead: u64,
    pub(crate) history: History,
    pub(crate) client: Arc<dyn ModelClient>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) recorder: Recorder,
    pub(crate) context: ContextFiles,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) counters: Counters,
    pub(crate) call_ids: CallIds,
    pub(crate) terminals: Option<Arc<dyn Terminals>>,
    roots: Vec<PathBuf>,
}

/// Every call's id so far, sub-agents' included: an id names one call and one file of saved output.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallIds(Arc<Mutex<HashSet<String>>>);

impl CallIds {
    /// Takes an id; false if it is taken.
    pub(crate) fn claim(&self, id: &str) -> bool {
        self.0.locked().insert(id.to_owned())
    }
}

/// A prompt that is worked on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prompted {
    /// Its record; empty if it was not recorded.
    pub(crate) message: String,
    /// The id that its requests share.
    pub(crate) id: String,
    /// The id under which the reply under way will be recorded.
    pub(crate) reply: String,
}

/// What a session counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) prompts: u64,
    /// Requests of the conversation itself.
    pub(crate) requests: u32,
    /// Calls that came without an id.
    pub(crate) unnamed_calls: u64,
    /// Tokens of the last request as the model counted them, and how many turns it held.
    pub(crate) last_request: Option<(u64, usize)>,
    /// An automatic summary was no gain: not tried again in this session.
    pub(crate) summary_failed: bool,
    pub(crate) recording_stopped: bool,
    pub(crate) compressions: u64,
    /// Commands of the person's own.
    pub(crate) shells: u64,
}

impl Session {
    fn new(spec: SessionSpec, ports: Ports, events: mpsc::Sender<Event>) -> Self {
        // An id from a session file may hold anything, also the way to another folder.
        let plans = spec.temp_dir.join(truncate::safe(spec.session.as_str())).join("plans");
        let plans = match spec.planning {
            Planning::InSessionFolder => Some(plans),
            Planning::In(folder) => Some(folder),
            Planning::Off => None,
        };
        let approvals = Arc::new(Approvals::new(spec.policy, spec.approval, spec.interactive, spec.trusted));
        let scene = Scene {
            session_id: spec.session.to_string(),
            transcript_path: ports.recorder.path().map(Path::to_path_buf),
            plans_dir: plans.clone(),
            ..Scene::default()
        };
        let hooked = Arc::new(Hooked::new(ports.hooks, scene, events.downgrade()));
        let desk = Arc::new(Desk::new(events.downgrade(), Arc::clone(&hooked)));
        let late_tools = ToolSources::join(ports.late_tools.into_iter().chain(ports.session_tools));
        let mut tools = ports.tools;
        tools.extend(control::tools(&desk, &approvals, plans.as_deref()));
        let mut prompt =
            PromptInputs { plans_dir: plans.unwrap_or_default(), mode: spec.approval, ..spec.prompt };
        let call_ids = CallIds::default();
        let host = ports.agents.map(|port| {
            prompt.agents = port.registry.enabled().map(|agent| port.introduction(agent)).collect();
            Arc::new(Host {
                records: ports.recorder.subagents_dir(),
                client: Arc::clone(&ports.model),
                model: Mutex::new(spec.model.clone()),
                tool_settings: spec.tools.clone(),
                temp_dir: spec.temp_dir.clone(),
                approvals: Arc::clone(&approvals),
                reach: spec.grants.clone(),
                checkers: ports.checkers.clone(),
                changes: ports.changes.clone(),
                desk: Arc::clone(&desk),
                hooked: Arc::clone(&hooked),
                clock: Arc::clone(&ports.clock),
                tools: tools.clone(),
                late: late_tools.clone(),
                prompt: prompt.clone(),
                first_turn: spec.first_turn.clone(),
                context: ports.context.clone(),
                events: events.downgrade(),
                call_ids: call_ids.clone(),
                prompted: Mutex::default(),
                port,
            })
        });
        tools.extend(host.iter().flat_map(subagent::tools));
        let toolbox = Toolbox::new(tools, late_tools, &approvals);
        let (system, overhead) = instructions(&prompt, &toolbox);
        let restored = spec.restored.into_iter().map(|turn| Entry::new(turn.message_id, turn.content));
        let mut history = History::new(spec.first_turn, restored);
        history.describe_tools(toolbox.context());
        for id in history.call_ids() {
            call_ids.claim(&id);
        }
        Self {
            id: spec.session,
            interactive: spec.interactive,
            model_settings: spec.model,
            tool_settings: spec.tools,
            temp_dir: spec.temp_dir,
            approvals,
            reach: spec.grants,
            checkers: ports.checkers,
            changes: ports.changes,
            witness: ports.witness,
            prompted: Prompted::default(),
            host,
            errand: None,
            generation: JsonObject::new(),
            desk,
            hooked,
            dialogue: Dialogue::default(),
            stopped_by_person: false,
            toolbox,
            prompt,
            system,
            overhead,
            history,
            client: ports.model,
            clock: ports.clock,
            recorder: ports.recorder,
            context: ports.context,
            events,
            counters: Counters::default(),
            call_ids,
            terminals: ports.terminals,
            roots: spec.roots,
        }
    }

    fn view(&self) -> ConversationView {
        ConversationView {
            contents: self.history.contents(),
            prompts: self.history.prompts(),
            tools: self.toolbox.declared().to_vec(),
            model: self.model_settings.name.clone(),
            resolved_model: self.client.resolve(&self.model_settings.name).id,
            tokens: self.size(),
            window: self.window(),
        }
    }

    /// Takes back a prompt and what followed, in the file first: what it still holds would come back otherwise.
    fn rewind(&mut self, to: &str) -> Result<(), Refusal> {
        if !self.history.prompts().iter().any(|prompt| prompt.message == to) {
            let message = "the conversation has no such prompt any more".to_owned();
            return Err(Refusal { code: RefusalCode::NotFound, message });
        }
        let now = self.now();
        self.recorder.rewind(to, now).map_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            Refusal { code: RefusalCode::Failed, message: format!("{error}{cause}") }
        })?;
        self.history.rewind(to);
        self.counters.last_request = None;
        Ok(())
    }

    /// Shows the model the tools and instructions of the mode, and tools that joined or left, if that changed.
    pub(crate) fn follow_mode(&mut self) {
        let mode = self.approvals.mode();
        let joined = self.toolbox.follow();
        if mode == self.prompt.mode && !joined {
            return;
        }
        if joined {
            self.history.describe_tools(self.toolbox.context());
        }
        self.prompt.mode = mode;
        self.toolbox.look_again(&self.approvals);
        (self.system, self.overhead) = instructions(&self.prompt, &self.toolbox);
    }

    /// Where plans are written, while the session plans.
    pub(crate) fn plans_now(&self) -> Option<&Path> {
        (self.approvals.mode() == ApprovalMode::Plan).then_some(self.prompt.plans_dir.as_path())
    }

    /// Tells the front ends; one that is gone is no reason to stop. Of a sub-agent they learn what it does, not
    /// what it says.
    pub(crate) async fn emit(&self, event: Event) {
        let Some(errand) = &self.errand else {
            let _ = self.events.send(event).await;
            return;
        };
        for event in errand.outward(event) {
            let _ = self.events.send(event).await;
        }
    }

    /// On whose behalf requests are made.
    pub(crate) fn role(&self) -> RequestRole {
        if self.errand.is_some() { RequestRole::Subagent } else { RequestRole::Main }
    }

    /// Another prompt is worked on; what sub-agents change belongs to it too.
    pub(crate) fn set_prompted(&mut self, prompted: Prompted) {
        if let Some(host) = &self.host {
            host.set_prompted(prompted.clone());
        }
        self.prompted = prompted;
    }

    pub(crate) async fn notice(&self, severity: Severity, code: NoticeCode, message: impl Into<String>) {
        self.emit(Event::Notice { severity, code, message: message.into() }).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Passes a recorder's result on; a failure is told once and the conversation goes on.
    pub(crate) async fn recorded<T>(&mut self, result: Result<T, RecordError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                if !self.counters.recording_stopped {
                    self.counters.recording_stopped = true;
                    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                    let message = format!("the session is no longer recorded: {error}{cause}");
                    self.notice(Severity::Warning, NoticeCode::RecordingStopped, message).await;
                }
                None
            }
        }
    }

    /// The id that all requests of one prompt share.
    pub(crate) fn next_prompt_id(&mut self) -> String {
        let number = self.counters.prompts;
        self.counters.prompts += 1;
        if self.interactive { format!("{}########{number}", self.id) } else { self.id.to_string() }
    }
}

/// The system prompt, and the tokens of what every request carries beside the conversation.
fn instructions(prompt: &PromptInputs, toolbox: &Toolbox) -> (Arc<str>, u64) {
    let declared = toolbox.declared();
    let names: Vec<&str> = declared.iter().map(|tool| tool.name.as_str()).collect();
    let prompt = PromptInputs { skills: toolbox.sections(), ..prompt.clone() };
    let system: Arc<str> = Arc::from(prompt::build(&prompt, &names));
    let overhead = tokens::of_text(&system) + declared.iter().map(|tool| tokens::of_spec(tool)).sum::<u64>();
    (system, overhead)
}
