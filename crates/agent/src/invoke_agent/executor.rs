//! Runs one local sub-agent, from its task to its result.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use pollux_domain::approval::Person;
use pollux_domain::content::Part;
use pollux_domain::event::{ActivityError, NoticeCode, Severity, TurnEnd};
use pollux_domain::id::SessionId;
use pollux_domain::model::{ModelClient, ModelErrorKind};
use pollux_domain::text::with_dots;
use pollux_domain::tool::{
    AgentEnd, Display, RunFailure, Tool, ToolContext, ToolErrorKind, ToolOutcome, ToolOutput,
};
use pollux_extend::agents::{Definition, Local, ModelChoice, Prompt, fill, inputs_for};
use pollux_session::{NewSession, Recorder, SessionKind, set_summary};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::complete_task::CompleteTask;
use super::session::{self, SubagentSpec};
use super::{texts, toolset};
use crate::control;
use crate::emitter::Emitter;
use crate::pending_questions::PendingQuestions;
use crate::prompt::PromptInputs;
use crate::schema;
use crate::session::Session;
use crate::stopwatch::Stopwatch;
use crate::subagent::goal::{COMPLETE_TASK, Goal, INVALID_OUTPUT};
use crate::subagent::own_servers::StartedServers;
use crate::subagent::run::SubagentRun;
use crate::subagent::terminate_mode::TerminateMode;
use crate::subagent_host::Host;
use crate::turn::pursue;

/// The query for an agent without one; upstream's text.
const DEFAULT_QUERY: &str = "Get Started!";

/// How the work ended.
struct Ended {
    mode: TerminateMode,
    result: String,
    /// The user stopped the turn.
    by_person: bool,
    /// The model could not be asked, or the run has to end.
    failure: Option<Failure>,
}

enum Failure {
    Agent(String),
    Fatal(ToolErrorKind, String),
}

/// Runs an agent until it is done, stopped or out of time.
pub(super) async fn run(
    host: &Host,
    definition: &Definition,
    local: &Local,
    prompt: &str,
    context: &ToolContext,
) -> ToolOutcome {
    let watch = Stopwatch::start(local.time_limit);
    let mut opened = match open(host, definition, local, prompt, context, &watch).await {
        Ok(opened) => opened,
        Err(message) => return failed(definition, None, &message),
    };
    let file = opened.session.recorder.path().map(PathBuf::from);
    let record = file.is_some().then(|| opened.session.id.to_string());
    let ended = work(&mut opened, local, &watch, &context.cancel).await;
    // The record has to be closed before it gets its title.
    let Opened { session, servers, .. } = opened;
    drop(session);
    servers.end.await;
    if let (TerminateMode::Goal, Some(file)) = (ended.mode, file) {
        // A title is a convenience; the work is done.
        let _ = set_summary(&file, &summary(&ended.result));
    }
    outcome(definition, record, ended)
}

/// A session that is ready, and its task.
struct Opened {
    session: Session,
    run: Arc<SubagentRun>,
    query: String,
    servers: StartedServers,
}

async fn open(
    host: &Host,
    definition: &Definition,
    local: &Local,
    prompt: &str,
    context: &ToolContext,
    watch: &Arc<Stopwatch>,
) -> Result<Opened, String> {
    let events = host.events.upgrade().ok_or("the session is over")?;
    let inputs = inputs(host, local, prompt)?;
    let own = local.prompt.text().map_err(|error| error.to_string())?;
    let own = own.map(|text| fill(&text, &inputs)).transpose().map_err(|error| error.to_string())?;
    let query = query(local, &inputs)?;
    let run = Arc::new(SubagentRun {
        call: context.call.clone(),
        agent: definition.name.clone(),
        goal: Goal::default(),
        out_of_time: AtomicBool::new(false),
        live: Arc::clone(&context.live),
    });
    let authority = Arc::new(host.authority.for_subagent(&definition.name, watch));
    let mut servers = own_servers(host, definition, &authority.questions, &context.cancel).await;
    let (mut tools, unknown) = tools(host, local, context).await;
    for tool in &mut tools {
        if tool.spec().name == "ask_user" {
            *tool = control::ask_user(&authority.questions);
        }
    }
    tools.push(Arc::new(CompleteTask::new(local.output.clone(), Arc::clone(&run))));
    let id = SessionId::random();
    let mut model = host.model();
    model.name = model_name(&local.model, &model.name, &*host.services.client);
    model.max_session_turns = Some(local.max_turns);
    let mut session = session::new_session(
        host,
        SubagentSpec {
            recorder: recorder(host, &id),
            id,
            authority,
            model,
            generation: local.generation.clone(),
            tools,
            late_tools: servers.tools.clone(),
            prompt: instructions(host, &local.prompt, own),
            emitter: Emitter { events, subagent: Some(Arc::clone(&run)) },
        },
    );
    for example in &local.initial {
        session.conversation.history.push(None, example.clone());
    }
    if !unknown.is_empty() {
        let text = format!("unknown tools: {}", unknown.join(", "));
        session.notice(Severity::Warning, NoticeCode::Agent, text).await;
    }
    for problem in std::mem::take(&mut servers.problems) {
        session.notice(Severity::Warning, NoticeCode::Agent, problem).await;
    }
    Ok(Opened { session, run, query, servers })
}

/// Starts the MCP servers that the agent's definition names.
async fn own_servers(
    host: &Host,
    definition: &Definition,
    questions: &Arc<PendingQuestions>,
    cancel: &CancellationToken,
) -> StartedServers {
    let person = host.briefing.prompt.interactive.then(|| Arc::clone(questions) as Arc<dyn Person>);
    match host.port.servers.get(&definition.name) {
        Some(servers) => servers.start(person, cancel).await,
        None => StartedServers::none(Vec::new()),
    }
}

/// What prompts may name: what the agent was told, and where it runs.
fn inputs(host: &Host, local: &Local, prompt: &str) -> Result<JsonObject, String> {
    let mut inputs = inputs_for(&local.inputs, prompt);
    schema::check(&local.inputs, &inputs).map_err(|fault| {
        format!(
            "the prompt does not match the agent's inputs ({fault}); pass a JSON object that matches {}",
            local.inputs
        )
    })?;
    let model = host.services.client.resolve(&host.model().name).id;
    let facts = [
        ("cliVersion", json!(host.port.version)),
        ("activeModel", json!(model)),
        ("today", json!(host.services.clock.now().to_local_date())),
    ];
    for (name, value) in facts {
        inputs.entry(name).or_insert(value);
    }
    Ok(inputs)
}

fn query(local: &Local, inputs: &JsonObject) -> Result<String, String> {
    let text = match &local.query {
        Some(query) => fill(query, inputs).map_err(|error| error.to_string())?,
        None => {
            let names = local.inputs.get("properties").and_then(Value::as_object);
            let given: Vec<(&String, &Value)> = names
                .into_iter()
                .flat_map(|names| names.keys())
                .filter_map(|name| inputs.get_key_value(name))
                .collect();
            match given.as_slice() {
                [(_, Value::String(only))] => only.clone(),
                several => several.iter().map(|(name, value)| format!("{name}: {value}\n")).collect(),
            }
        }
    };
    Ok(if text.trim().is_empty() { DEFAULT_QUERY.to_owned() } else { text })
}

async fn tools(host: &Host, local: &Local, context: &ToolContext) -> (Vec<Arc<dyn Tool>>, Vec<String>) {
    let mut all = host.tools.clone();
    let wants_servers =
        |list: &Vec<String>| list.iter().any(|word| word.starts_with("mcp_") || word.as_str() == "*");
    if let Some(late) = host.late.as_ref().filter(|_| local.tools.as_ref().is_none_or(wants_servers)) {
        late.settled(&context.cancel).await;
        all.extend(late.tools());
    }
    toolset::chosen(local.tools.as_deref(), &all)
}

/// The system prompt: the agent's own, or the main one for work without a person, and the rules behind it.
fn instructions(host: &Host, prompt: &Prompt, own: Option<String>) -> PromptInputs {
    let mode = host.authority.approvals.mode();
    let planning = mode == pollux_domain::approval::ApprovalMode::Plan;
    let inputs = PromptInputs {
        interactive: false,
        mode,
        agents: Vec::new(),
        appendix: Some(texts::rules(planning)),
        ..host.briefing.prompt.clone()
    };
    match prompt {
        Prompt::Main => {
            PromptInputs { global_context: None, project_memory: None, learnings: None, ..inputs }
        }
        Prompt::Text(_) | Prompt::File { .. } => PromptInputs { replacement: own, learnings: None, ..inputs },
    }
}

/// The model that is asked: one of the main model's provider, or the main one where it has no other.
fn model_name(choice: &ModelChoice, main: &str, client: &dyn ModelClient) -> String {
    let other = match choice {
        ModelChoice::Named(name) => Some(name.clone()),
        ModelChoice::Flash => client.resolve(main).small,
        ModelChoice::Investigator => client.resolve(main).investigator,
        ModelChoice::Inherit => None,
    };
    other.unwrap_or_else(|| main.to_owned())
}

fn recorder(host: &Host, id: &SessionId) -> Recorder {
    let spec = host.records.clone().map(|chats_dir| NewSession {
        id: id.clone(),
        project_hash: host.port.project_hash.clone(),
        chats_dir,
        format: SessionFormat::Jsonl,
        kind: SessionKind::Subagent,
        now: host.services.clock.now(),
    });
    let mut recorder = spec.and_then(|spec| Recorder::create(spec).ok()).unwrap_or_else(Recorder::disabled);
    recorder.set_durability(host.durability);
    recorder
}

/// Works until the end, with a last turn for an agent that did not hand anything over.
async fn work(opened: &mut Opened, local: &Local, watch: &Stopwatch, cancel: &CancellationToken) -> Ended {
    let Opened { session, run, query, .. } = opened;
    let first = limited(session, run, vec![Part::text(std::mem::take(query))], watch.over(), cancel).await;
    if let Some(result) = run.goal.output() {
        return Ended { mode: TerminateMode::Goal, result, by_person: false, failure: None };
    }
    let mut findings = session::findings(&session.conversation.history, &local.initial);
    if let Some((result, why)) = run.goal.refused() {
        findings = format!("{findings}\n\nSubmitted, but {why}:\n{result}").trim().to_owned();
    }
    let judged = judge(&first, session.conversation.counters.requests, local, cancel);
    if judged.recoverable {
        let chance = texts::last_chance(texts::warning(judged.mode));
        session.emit(run.error(judged.text.clone(), ActivityError::Generic)).await;
        session::allow_last_turn(session, COMPLETE_TASK);
        let grace = tokio::time::sleep(Duration::from_secs(texts::GRACE_SECONDS));
        limited(session, run, vec![Part::text(chance)], grace, cancel).await;
        if let Some(result) = run.goal.output() {
            return Ended { mode: TerminateMode::Goal, result, by_person: false, failure: None };
        }
        let more = session::last_words(&session.conversation.history);
        if !more.is_empty() && !findings.ends_with(&more) {
            findings = format!("{findings}\n\n{more}").trim().to_owned();
        }
    }
    let mode = if cancel.is_cancelled() { TerminateMode::Aborted } else { judged.mode };
    let result = texts::with_findings(&judged.text, &findings);
    if !judged.recoverable && mode != TerminateMode::Aborted {
        session.emit(run.error(judged.text, ActivityError::Generic)).await;
    }
    Ended {
        mode,
        by_person: judged.by_person,
        failure: judged.failure.map(|kind| kind.with(&result)),
        result,
    }
}

/// How a piece of work ended, and whether its time was over.
struct Limited {
    end: TurnEnd,
    out_of_time: bool,
}

async fn limited(
    session: &mut Session,
    run: &SubagentRun,
    parts: Vec<Part>,
    over: impl Future<Output = ()>,
    cancel: &CancellationToken,
) -> Limited {
    let inner = cancel.child_token();
    run.set_out_of_time(false);
    let turn = pursue(session, parts, &inner);
    tokio::pin!(turn);
    tokio::select! {
        biased;
        end = &mut turn => Limited { end, out_of_time: false },
        () = over => {
            run.set_out_of_time(true);
            inner.cancel();
            Limited { end: turn.await, out_of_time: true }
        }
    }
}

/// What an end means.
struct Judged {
    mode: TerminateMode,
    text: String,
    recoverable: bool,
    by_person: bool,
    failure: Option<FailureKind>,
}

enum FailureKind {
    Agent,
    Fatal(ToolErrorKind),
}

impl FailureKind {
    fn with(self, text: &str) -> Failure {
        match self {
            Self::Agent => Failure::Agent(text.to_owned()),
            Self::Fatal(kind) => Failure::Fatal(kind, text.to_owned()),
        }
    }
}

fn judge(ended: &Limited, turns: u32, local: &Local, cancel: &CancellationToken) -> Judged {
    let plain =
        |mode, text: String, recoverable| Judged { mode, text, recoverable, by_person: false, failure: None };
    let failed = |text: String| Judged {
        failure: Some(FailureKind::Agent),
        ..plain(TerminateMode::Error, text, false)
    };
    if cancel.is_cancelled() {
        return plain(TerminateMode::Aborted, "Agent was cancelled.".to_owned(), false);
    }
    if ended.out_of_time {
        let text = format!("Agent timed out after {}.", minutes(local.time_limit));
        return plain(TerminateMode::Timeout, text, true);
    }
    match &ended.end {
        TurnEnd::TurnLimit => {
            plain(TerminateMode::MaxTurns, format!("Agent reached max turns limit ({turns})."), true)
        }
        TurnEnd::Finished(Some(_)) => {
            let text = "Agent stopped calling tools but did not call 'complete_task'.".to_owned();
            plain(TerminateMode::NoCompleteTaskCall, text, true)
        }
        TurnEnd::Finished(None) => plain(TerminateMode::Error, "A hook stopped the agent.".to_owned(), false),
        TurnEnd::Cancelled => Judged {
            by_person: true,
            ..plain(TerminateMode::Aborted, "Agent was stopped by the user.".to_owned(), false)
        },
        TurnEnd::Loop(message) => plain(TerminateMode::Error, message.clone(), true),
        TurnEnd::InvalidReply { kind, message } if kind == INVALID_OUTPUT => {
            plain(TerminateMode::Error, message.clone(), false)
        }
        TurnEnd::InvalidReply { message, .. } => Judged { recoverable: true, ..failed(message.clone()) },
        TurnEnd::Overflow { estimated, remaining } => failed(format!(
            "the conversation exceeds the context window: {estimated} more tokens, {remaining} left"
        )),
        TurnEnd::Failed(error) => {
            Judged { recoverable: may_answer(&error.kind), ..failed(error.message.clone()) }
        }
        TurnEnd::FatalTool { kind, message } => {
            Judged { failure: Some(FailureKind::Fatal(*kind)), ..failed(message.clone()) }
        }
    }
}

/// Whether a server that refused one request may answer another one.
fn may_answer(kind: &ModelErrorKind) -> bool {
    matches!(
        kind,
        ModelErrorKind::BadRequest
            | ModelErrorKind::Malformed
            | ModelErrorKind::Cut
            | ModelErrorKind::Server
            | ModelErrorKind::Overloaded
            | ModelErrorKind::PolicyBlocked
    )
}

fn minutes(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    let minutes = seconds / 60.0;
    match (minutes, seconds) {
        (1.0, _) => "1 minute".to_owned(),
        (_, 1.0) => "1 second".to_owned(),
        _ if minutes.fract() == 0.0 => format!("{minutes} minutes"),
        _ => format!("{seconds} seconds"),
    }
}

/// The result for the caller. Only cancellation is not an answer; failures are reported as text, as in upstream.
fn outcome(definition: &Definition, record: Option<String>, ended: Ended) -> ToolOutcome {
    let name = &definition.name;
    match ended.failure {
        Some(Failure::Agent(error)) => return failed(definition, record, &error),
        Some(Failure::Fatal(kind, message)) => {
            return ToolOutcome::failed(kind, texts::failed(name, &message));
        }
        None => {}
    }
    if ended.by_person {
        return ToolOutcome::Refused(ended.result);
    }
    if ended.mode == TerminateMode::Aborted {
        return ToolOutcome::Cancelled { partial: Some(ended.result) };
    }
    let text = texts::finished(name, ended.mode, &ended.result);
    let display = AgentEnd {
        agent: name.clone(),
        record,
        state: if ended.mode == TerminateMode::Goal { "completed" } else { "error" }.to_owned(),
        reason: ended.mode.as_str().to_owned(),
        result: ended.result,
    };
    answered(text, display)
}

pub(super) fn failed(definition: &Definition, record: Option<String>, error: &str) -> ToolOutcome {
    let display = AgentEnd {
        agent: definition.name.clone(),
        record,
        state: "error".to_owned(),
        reason: TerminateMode::Error.as_str().to_owned(),
        result: error.to_owned(),
    };
    answered(texts::failed(&definition.name, error), display)
}

/// The text is the answer in any case; an agent that did not reach its goal has failed all the same.
fn answered(text: String, end: AgentEnd) -> ToolOutcome {
    let failure = (end.reason != TerminateMode::Goal.as_str())
        .then(|| RunFailure::Agent { agent: end.agent.clone(), reason: end.reason.clone() });
    let output = ToolOutput::new(vec![Part::text(text)], Display::Agent(Box::new(end)));
    ToolOutcome::Done(ToolOutput { failure, ..output })
}

/// The first words of a result, as the title of its record; the length is upstream's.
fn summary(result: &str) -> String {
    with_dots(&result.split_whitespace().collect::<Vec<_>>().join(" "), 200)
}
