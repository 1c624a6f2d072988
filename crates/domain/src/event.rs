//! The one stream of events that feeds every front end, the telemetry and the tests.

mod activity;
mod call;
mod class;
mod json;
mod location;
mod op;
mod outcome;
mod retries;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::JsonObject;
use crate::approval::{ApprovalMode, ApprovalRequest, Outcome};
use crate::budget::BudgetStatus;
use crate::content::Content;
use crate::editor::EditorStatus;
use crate::id::{CallId, SessionId};
use crate::model::{Finish, ModelError, RequestRole, Usage, Wait};
use crate::terminal_screen::TerminalScreen;
use crate::tool::{ToolErrorKind, ToolSpec};

pub use activity::{Activity, ActivityError, ActivityKind};
pub use call::{BackgroundCommand, CallDecision, CallReport, CallRequest, Permit, ShellReport};
pub use class::EventClass;
pub use json::MalformedEvent;
pub use location::Location;
pub use op::{Asked, ExplainedCall, FrontId, Op, OpResult, Refusal, RefusalCode, RequestId, WaitingPrompt};
pub use outcome::{CallFailure, CallOutcome, CallStatus};

/// An event of a session.
#[derive(Debug, Clone)]
pub enum Event {
    /// First of all: the session exists. `model` is the configured name, maybe an alias, and `resolved` the model that
    /// it stands for.
    SessionReady { session: SessionId, model: String, resolved: String, roots: Vec<PathBuf> },
    /// The result of an operation, for the front end that sent it.
    Acknowledged { id: RequestId, by: FrontId, result: OpResult },
    /// The queue of prompts changed; all of them, in order.
    QueueChanged(Vec<WaitingPrompt>),
    /// Other front ends attached or detached; all that are attached now. Never sent while there is only one.
    FrontsChanged(Vec<FrontId>),
    /// The prompt is recorded and the turn starts. `message` is its record, if it was recorded.
    PromptAccepted { typed: String, prompt_id: String, message: Option<String>, by: FrontId },
    /// What [`Op::Steer`] said is recorded and goes to the model with the next request. `id` is that of the operation.
    Steered { id: RequestId, typed: String, message: Option<String>, by: FrontId },
    /// The model is asked for a reply, which will be recorded under this id.
    StepBegan { message: String },
    /// A request is sent to the model.
    RequestSent(Arc<RequestSent>),
    /// A piece of the answer. Belongs to the current attempt until [`Event::StepCommitted`].
    Text(String),
    /// A piece of the model's reasoning.
    Thought(Thought),
    /// The model is writing a tool call; `bytes` of its arguments have arrived. For display only.
    CallProgress { name: String, bytes: u64 },
    /// The provider waits before a retry.
    Waiting(Wait),
    /// The current attempt is discarded: nothing of it counts or runs.
    AttemptDiscarded(Discarded),
    /// The reply is complete and valid; its calls follow.
    StepCommitted,
    /// A request ended, successfully or not.
    RequestEnded(Box<RequestEnded>),
    /// The model asked for a tool. All calls of a step come before any result.
    CallRequested(Arc<CallRequest>),
    /// A call waits for [`Op::Decide`]. Never sent in headless runs.
    ApprovalWanted(Arc<ApprovalRequest>),
    /// A call no longer waits for an answer. `by` is the front end that answered, if any.
    ApprovalSettled { call: CallId, outcome: Outcome, by: Option<FrontId> },
    /// The approval mode changed. `by` is the front end that requested it, or none for the model.
    ModeChanged { mode: ApprovalMode, by: Option<FrontId> },
    /// Another model is asked from now on; the configured name, maybe an alias.
    ModelChanged(String),
    /// The model cannot answer now and another one is asked instead.
    ModelFallback(Arc<ModelFallback>),
    /// The session has a title now.
    Titled(String),
    /// A call is allowed and runs now.
    CallStarted { call: CallId },
    /// Live output of a running call or user command.
    CallOutput { call: CallId, text: String },
    /// What the terminal of a running call or user command shows now. A later one replaces it.
    CallScreen { call: CallId, screen: Arc<TerminalScreen> },
    /// A call ended.
    CallFinished(Arc<CallReport>),
    /// A user command runs; [`Event::CallOutput`] has its output.
    ShellStarted { call: CallId, command: String, by: FrontId },
    /// A user command ended.
    ShellEnded(Arc<ShellReport>),
    /// Commands that run in the background now; all of them, oldest first.
    BackgroundChanged(Vec<BackgroundCommand>),
    /// The editor that is connected now, if any, and how many files it shows.
    EditorChanged(Option<EditorStatus>),
    /// The conversation is being compressed. Ends with the turn at the latest.
    Compressing { id: String },
    /// The conversation was compressed, or an attempt to do so failed.
    Compressed(Compressed),
    /// A prompt and everything after it were removed.
    Rewound { to: String },
    /// A hook ran.
    HookRan(Arc<HookReport>),
    /// Activity of a running sub-agent.
    Activity(Arc<Activity>),
    /// What was spent, and what may be. Only for sessions with limits or waste.
    Budget(Arc<BudgetStatus>),
    /// A notice for the user.
    Notice { severity: Severity, code: NoticeCode, message: String },
    /// The turn ended. Always the last event of a turn.
    TurnEnded(TurnEnd),
}

/// A snapshot of the conversation.
#[derive(Debug)]
pub struct ConversationView {
    /// As the model gets it; the first turn describes the environment.
    pub contents: Vec<Arc<Content>>,
    /// The prompts that can be rewound to, oldest first.
    pub prompts: Vec<PromptView>,
    /// The summary that the conversation begins with, if it was compressed.
    pub summary: Option<SummaryView>,
    /// What the model may call now.
    pub tools: Vec<Arc<ToolSpec>>,
    /// The configured model, and the one it resolves to.
    pub model: String,
    pub resolved_model: String,
    /// Size of the next request as far as it is known, and of the model's window.
    pub tokens: u64,
    pub window: u64,
}

/// A prompt that can be rewound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptView {
    /// The id of its record.
    pub message: String,
    pub text: String,
}

/// A summary in place of the beginning of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryView {
    pub text: String,
    /// The beginnings of the prompts that it replaces, oldest first. They cannot be rewound to.
    pub prompts: Vec<String>,
    /// The record after it: rewinding to it leaves the summary. `None` if nothing was said since.
    pub next: Option<String>,
}

/// A request as it leaves.
#[derive(Debug)]
pub struct RequestSent {
    pub model: String,
    pub role: RequestRole,
    pub prompt_id: String,
    pub contents: Vec<Arc<Content>>,
    /// The call whose sub-agent sends it.
    pub subagent: Option<CallId>,
}

/// How a request ended.
#[derive(Debug, Clone)]
pub struct RequestEnded {
    /// The model asked.
    pub model: String,
    /// The model that answered, if it says so.
    pub model_version: Option<String>,
    pub role: RequestRole,
    pub prompt_id: String,
    pub duration: Duration,
    pub usage: Usage,
    pub finish: Option<Finish>,
    /// Text of the reply.
    pub text: String,
    /// Set when the request failed.
    pub error: Option<ModelError>,
    /// Set if the request succeeded but the reply was unusable, such as `NO_RESPONSE_TEXT`.
    pub invalid: Option<String>,
    /// Size of the conversation as far as it is known, and of the model's window; 0 for requests next to it.
    pub context_tokens: u64,
    pub window: u64,
}

/// A piece of reasoning in the model's own heading and words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thought {
    pub subject: String,
    pub description: String,
}

impl Thought {
    /// Splits `**Subject** rest`; without such a heading the subject is empty.
    pub fn parse(text: &str) -> Self {
        let split = text.split_once("**").and_then(|(before, rest)| {
            rest.split_once("**").map(|(subject, after)| (before, subject.trim(), after))
        });
        match split {
            Some((before, subject, after)) => Self {
                subject: subject.to_owned(),
                description: format!("{before}{after}").trim().to_owned(),
            },
            None => Self { subject: String::new(), description: text.trim().to_owned() },
        }
    }
}

/// A discarded attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Discarded {
    /// The reason, for display.
    pub reason: String,
    /// Whether text of it was already shown.
    pub text_was_shown: bool,
    /// The attempt that failed, from 1.
    pub attempt: u32,
    pub max_attempts: u32,
    /// When the next attempt starts; `None` if there is none.
    pub retry_in: Option<Duration>,
}

/// A switch to another model, because the one in use cannot answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFallback {
    /// Both as `provider/model`, or bare for Gemini.
    pub from: String,
    pub to: String,
    /// Why, for display.
    pub reason: String,
    /// Whether it lasts to the end of the session, and not only of the turn.
    pub for_session: bool,
    /// How long the first model is left alone at least.
    pub cool_down: Duration,
    /// What the new model does not get of the conversation, such as `images`.
    pub lost: Vec<String>,
}

/// A compression that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compressed {
    /// The same as that of [`Event::Compressing`], if there was one.
    pub id: String,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub status: CompressionStatus,
    /// The summary that replaces the older part of the conversation.
    pub summary: Option<String>,
}

/// The result of a compression; the numbers are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionStatus {
    Compressed,
    Inflated,
    Failed,
    EmptySummary,
    Nothing,
    Truncated,
}

/// A hook that ran.
#[derive(Debug, Clone)]
pub struct HookReport {
    /// The moment, such as `BeforeTool`.
    pub event: String,
    /// Its name, or its command.
    pub hook: String,
    pub duration: Duration,
    pub exit_code: Option<i32>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its input and output.
    pub input: JsonObject,
    pub output: JsonObject,
    /// Their beginnings, without control sequences.
    pub stdout: String,
    pub stderr: String,
    /// The message for the user.
    pub message: Option<String>,
    /// The message stays out of logs.
    pub suppressed: bool,
}

/// The severity of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Info,
    Warning,
    Error,
}

/// What a notice is about, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeCode {
    LoopDetected,
    RecordingStopped,
    /// The session is recorded again after a failure.
    RecordingResumed,
    /// Another program deleted or changed the session's file.
    SessionFile,
    /// Whether the session's file survives a power failure. Recording continues.
    Durability,
    ContextFile,
    Policy,
    Workspace,
    ToolOutput,
    Model,
    /// File changes that could not be recorded.
    Rewind,
    /// What a hook does, or why it failed.
    Hook,
    /// A hook stopped the agent, or blocked it.
    Halted,
    /// An MCP server.
    Server,
    /// A sub-agent, or a definition of one.
    Agent,
    Extension,
    /// Memory.
    Memory,
    /// No title could be generated.
    Title,
    /// A newer version exists, of the program or of something installed.
    Update,
    /// Most of a limit is spent, or money cannot be counted.
    Budget,
    /// The session's task failed and the session is over.
    Crashed,
}

/// How a turn ended.
#[derive(Debug, Clone)]
pub enum TurnEnd {
    /// The model finished.
    Finished(Option<Finish>),
    /// The user stopped it.
    Cancelled,
    /// `model.maxSessionTurns` is reached.
    TurnLimit,
    /// The model repeated itself and was stopped.
    Loop(String),
    /// Every attempt gave an unusable reply.
    InvalidReply { kind: String, message: String },
    /// The request would not fit the model's window.
    Overflow { estimated: u64, remaining: u64 },
    /// The model could not be reached or refused.
    Failed(ModelError),
    /// A tool failed in a way that ends the run.
    FatalTool { kind: ToolErrorKind, message: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thought_has_its_heading_taken_apart() {
        let thought = Thought::parse("**Reading files** I look at main.rs");
        assert_eq!(
            thought,
            Thought { subject: "Reading files".into(), description: "I look at main.rs".into() }
        );
        assert_eq!(Thought::parse("no **heading").subject, "");
    }
}
