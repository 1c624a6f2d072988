//! The port to tools that the model can call.

mod run_failure;
mod sources;
mod todo;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::content::Part;
use crate::event::Location;
use crate::id::CallId;
use crate::sandbox::SandboxReport;
use crate::terminals::CommandTerminal;
use crate::{BoxFuture, JsonObject};

pub use run_failure::RunFailure;
pub use sources::ToolSources;
pub use todo::{Todo, TodoStatus};

/// What precedes the reason when the model is told that a call was declined; the words are upstream's.
pub const DECLINED: &str = "[Operation Cancelled] Reason: ";

/// Something the model can call. Implemented in `tools`, `mcp`, `extend` and `agent`.
pub trait Tool: Send + Sync {
    /// Name, kind, description and schema.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// The MCP server that it belongs to.
    fn server(&self) -> Option<&str> {
        None
    }

    /// The server's connection and its name for the tool, for policy decisions.
    fn server_link(&self) -> Option<ServerLink> {
        None
    }

    /// A fingerprint of the server's tool definition, to detect changes.
    fn definition(&self) -> Option<&str> {
        None
    }

    /// The server's annotations.
    fn annotations(&self) -> Option<&JsonObject> {
        None
    }

    /// Why a declared tool cannot be called yet: its definition is from an earlier run.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Waits, for a limited time, until it can be called.
    fn available<'a>(&'a self, _cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether older conversations call it by this name, apart from its name and known aliases.
    fn answers_to(&self, _name: &str) -> bool {
        false
    }

    /// Its section of the system prompt.
    fn prompt_section(&self) -> Option<String> {
        None
    }

    /// Converts arguments of older releases to the current schema; `None` if unchanged.
    fn modernised(&self, _args: &JsonObject) -> Option<JsonObject> {
        None
    }

    /// Whether [`Self::prepare`] also checks the schema, with its own messages.
    fn checks_itself(&self) -> bool {
        false
    }

    /// Checks the arguments beyond the schema. No side effects.
    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError>;
}

/// Where a tool of an MCP server comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerLink {
    /// The server's own name for the tool.
    pub tool: String,
    /// The program that is the server, its arguments and its folder.
    pub command: Option<String>,
    pub args: Vec<String>,
    pub cwd: Option<PathBuf>,
    /// Where it is, if it is no program of ours.
    pub url: Option<String>,
}

/// Tools that change during a session, such as those of MCP servers.
pub trait ToolSource: Send + Sync {
    /// Another number whenever [`Self::tools`] or [`Self::context`] would answer differently.
    fn version(&self) -> u64;

    /// The current tools.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// Their description for the model; untrusted text.
    fn context(&self) -> Option<String>;

    /// Waits, for a limited time, until what is still on its way has arrived or failed. Ready at once when
    /// nothing is.
    fn settled<'a>(&'a self, cancel: &'a CancellationToken) -> BoxFuture<'a, ()>;

    /// Waits, for a limited time, until it is known whether there is a tool of this name. Ready at once for a name
    /// that nothing on its way would have, and for one that was waited for before.
    fn arrival<'a>(&'a self, _name: &'a str, _cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Why a tool is missing, if its source is known.
    fn absence(&self, _name: &str) -> Option<String> {
        None
    }
}

/// A validated call. Its effect is known before it runs, so it can be shown and approved.
pub trait Invocation: Send + Sync {
    /// A short description for display, such as the file's name.
    fn describe(&self) -> String;

    /// The effect, for the policy and the approval prompt.
    fn effect(&self) -> Effect;

    /// The affected files and folders, with lines if known.
    fn locations(&self) -> Vec<Location> {
        self.effect().paths().iter().map(|path| Location::from(path.as_path())).collect()
    }

    /// Additional text for approval, if [`Self::describe`] is not enough. May read files.
    fn consent(&self) -> Option<String> {
        None
    }

    /// The preview of an [`Effect::Edit`], or why the edit cannot be made. May read the file.
    fn preview(&self) -> BoxFuture<'_, Result<Option<FileDiff>, ToolFailure>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Runs the call.
    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome>;
}

/// What a running call may use.
#[derive(Clone)]
pub struct ToolContext {
    pub call: CallId,
    pub cancel: CancellationToken,
    /// Approval is required and the tool asks for it itself; only for [`Effect::Dialog`].
    pub must_ask: bool,
    /// Receives live output; may drop some if the reader is slow.
    pub live: Arc<dyn Fn(&str) + Send + Sync>,
    /// The terminal for the call's command; without it, the command gets no input.
    pub terminal: Option<CommandTerminal>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub display_name: String,
    pub description: String,
    pub kind: ToolKind,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    pub output_is_markdown: bool,
    /// Whether a very long text result is cut for the model and kept whole in a file.
    pub offloads_long_output: bool,
}

/// What kind of thing a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Agent,
    Fetch,
    Communicate,
    Plan,
    Other,
}

impl ToolKind {
    /// The word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Agent => "agent",
            Self::Fetch => "fetch",
            Self::Communicate => "communicate",
            Self::Plan => "plan",
            Self::Other => "other",
        }
    }

    /// Whether calls of this kind are read-only and may run in parallel.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::Read | Self::Search | Self::Fetch | Self::Think)
    }
}

/// Arguments that cannot be used; the text goes to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgError(pub String);

/// What a call will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Reads these files or folders.
    Read(Vec<PathBuf>),
    /// Changes this file.
    Edit(PathBuf),
    /// Fetches these pages.
    Fetch(Vec<String>),
    /// Runs a command.
    Execute { command: String, directory: PathBuf },
    /// Asks the user itself.
    Dialog,
    /// Changes nothing outside the conversation.
    None,
}

impl Effect {
    /// The paths this call is about.
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::Read(paths) => paths,
            Self::Edit(path) => std::slice::from_ref(path),
            Self::Fetch(_) | Self::Execute { .. } | Self::Dialog | Self::None => &[],
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    Done(ToolOutput),
    Failed(ToolFailure),
    Cancelled {
        /// What the tool had printed until then.
        partial: Option<String>,
    },
    /// The user declined; the text goes to the model.
    Refused(String),
}

impl ToolOutcome {
    /// A failure with one text for the model and the user.
    pub fn failed(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self::Failed(ToolFailure { kind, message: message.into(), display: None })
    }

    /// A plain text result, shown as `display`.
    pub fn text(text: impl Into<String>, display: Display) -> Self {
        Self::Done(ToolOutput::new(vec![Part::text(text)], display))
    }
}

/// A result.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// For the model: texts and media.
    pub parts: Vec<Part>,
    /// The display.
    pub display: Display,
    /// How many lines of files were added and removed.
    pub lines: LineDelta,
    /// The command run by the tool failed. The model gets the result; everything else counts it as a failure.
    pub failure: Option<RunFailure>,
    /// The sandbox that the command ran in.
    pub sandbox: Option<Box<SandboxReport>>,
}

impl ToolOutput {
    /// A result that changed no file.
    pub fn new(parts: Vec<Part>, display: Display) -> Self {
        Self { parts, display, lines: LineDelta::default(), failure: None, sandbox: None }
    }
}

/// A failure: the model gets `message`, the user sees `display` if it differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    pub kind: ToolErrorKind,
    pub message: String,
    pub display: Option<String>,
}

/// Lines added to and removed from files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineDelta {
    pub added: u64,
    pub removed: u64,
}

/// The displayed form of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Display {
    /// Nothing worth showing, such as a file that was read whole.
    Nothing,
    Text(String),
    Diff(Box<FileDiff>),
    /// A summary line with items, such as the files a listing found.
    List {
        summary: String,
        items: Vec<String>,
    },
    /// The result of a sub-agent.
    Agent(Box<AgentEnd>),
    /// The model's list of subtasks.
    Todos(Vec<Todo>),
}

/// How a sub-agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentEnd {
    pub agent: String,
    /// The id of its own record, if it has one.
    pub record: Option<String>,
    /// `completed`, `error` or `cancelled`.
    pub state: String,
    /// Why it ended, such as `GOAL`; empty for an agent elsewhere that failed.
    pub reason: String,
    pub result: String,
}

/// A change to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// Unified diff with three lines of context.
    pub unified: String,
    pub file_name: String,
    pub path: PathBuf,
    /// `None` when the file is new.
    pub before: Option<String>,
    pub after: String,
    pub stat: DiffStat,
}

/// Size of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiffStat {
    pub added_lines: u64,
    pub removed_lines: u64,
    pub added_chars: u64,
    pub removed_chars: u64,
}

/// Why a call failed; the words are upstream's and appear in events and telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolErrorKind {
    PolicyViolation,
    InvalidToolParams,
    Unknown,
    UnhandledException,
    ToolNotRegistered,
    ExecutionFailed,
    FileNotFound,
    FileWriteFailure,
    ReadContentFailure,
    AttemptToCreateExistingFile,
    FileTooLarge,
    PermissionDenied,
    NoSpaceLeft,
    TargetIsDirectory,
    PathNotInWorkspace,
    SearchPathNotFound,
    SearchPathNotADirectory,
    EditPreparationFailure,
    EditNoOccurrenceFound,
    EditExpectedOccurrenceMismatch,
    EditNoChange,
    GlobExecutionError,
    GrepExecutionError,
    LsExecutionError,
    PathIsNotADirectory,
    ReadManyFilesSearchError,
    ShellExecuteError,
    MemoryToolExecutionError,
    DiscoveredToolExecutionError,
    McpToolError,
    McpResourceNotFound,
    WebFetchFallbackFailed,
    WebFetchProcessingError,
    WebSearchFailed,
    StopExecution,
}

impl ToolErrorKind {
    /// The word in events and telemetry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PolicyViolation => "policy_violation",
            Self::InvalidToolParams => "invalid_tool_params",
            Self::Unknown => "unknown",
            Self::UnhandledException => "unhandled_exception",
            Self::ToolNotRegistered => "tool_not_registered",
            Self::ExecutionFailed => "execution_failed",
            Self::FileNotFound => "file_not_found",
            Self::FileWriteFailure => "file_write_failure",
            Self::ReadContentFailure => "read_content_failure",
            Self::AttemptToCreateExistingFile => "attempt_to_create_existing_file",
            Self::FileTooLarge => "file_too_large",
            Self::PermissionDenied => "permission_denied",
            Self::NoSpaceLeft => "no_space_left",
            Self::TargetIsDirectory => "target_is_directory",
            Self::PathNotInWorkspace => "path_not_in_workspace",
            Self::SearchPathNotFound => "search_path_not_found",
            Self::SearchPathNotADirectory => "search_path_not_a_directory",
            Self::EditPreparationFailure => "edit_preparation_failure",
            Self::EditNoOccurrenceFound => "edit_no_occurrence_found",
            Self::EditExpectedOccurrenceMismatch => "edit_expected_occurrence_mismatch",
            Self::EditNoChange => "edit_no_change",
            Self::GlobExecutionError => "glob_execution_error",
            Self::GrepExecutionError => "grep_execution_error",
            Self::LsExecutionError => "ls_execution_error",
            Self::PathIsNotADirectory => "path_is_not_a_directory",
            Self::ReadManyFilesSearchError => "read_many_files_search_error",
            Self::ShellExecuteError => "shell_execute_error",
            Self::MemoryToolExecutionError => "memory_tool_execution_error",
            Self::DiscoveredToolExecutionError => "discovered_tool_execution_error",
            Self::McpToolError => "mcp_tool_error",
            Self::McpResourceNotFound => "mcp_resource_not_found",
            Self::WebFetchFallbackFailed => "web_fetch_fallback_failed",
            Self::WebFetchProcessingError => "web_fetch_processing_error",
            Self::WebSearchFailed => "web_search_failed",
            Self::StopExecution => "stop_execution",
        }
    }

    /// Whether this failure ends the run.
    pub fn is_fatal(self) -> bool {
        matches!(self, Self::NoSpaceLeft)
    }
}
