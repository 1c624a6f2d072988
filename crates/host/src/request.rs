//! The options of a run as plain values, independent of their source.
//!
//! A command line, an editor or a server fills a [`Request`]; the host reads nothing else from them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::file_view::FileView;
use pollux_domain::id::SessionId;
use pollux_domain::terminals;
use pollux_domain::tool::ToolSource;
pub use pollux_hooks::{CallbackError, CallbackPort, Callbacks};
pub use pollux_mcp::{ClientLink, SharedServers};
use serde_json::Value;

pub use crate::tool_entries::{ToolList, is_known_entry, other_built_in_tools, tool_entries, tool_entry};

/// The options of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// `--prompt`, `--prompt-interactive` or the positional arguments.
    pub prompt: Option<String>,
    pub session: SessionChoice,
    /// `--attach`: the session runs in the resident core.
    pub attach: bool,
    /// Which model a resumed session goes on with.
    pub resumed_model: ResumedModel,
    /// `--approval-mode` or `--yolo`. Not a settings override: `yolo` may not come from settings.
    pub approval: Option<ApprovalMode>,
    /// Dotted settings keys with values that override all files.
    pub overrides: Vec<(String, Value)>,
    /// `--allowed-tools`
    pub allowed_tools: Vec<String>,
    /// Tools that are denied, whatever else is said.
    pub excluded_tools: Vec<String>,
    /// Tools that need approval, as in `tools.confirmationRequired`.
    pub confirmed_tools: Vec<String>,
    /// `--extensions`: only these; `none` for none.
    pub extensions: Vec<String>,
    /// `--include-directories`
    pub include_directories: Vec<String>,
    /// `--sandbox`, or the word after `--sandbox=`.
    pub sandbox: Option<String>,
    /// `--sandbox-allow`: `KIND:TARGET`, not yet read.
    pub sandbox_allow: Vec<String>,
    /// `--sandbox-report`
    pub sandbox_report: Option<PathBuf>,
    /// `--receipt`
    pub receipt: Option<PathBuf>,
    /// More places that sandboxed commands must not see. A workspace in one of them is seen, but nothing around it.
    pub hidden_places: Vec<PathBuf>,
    pub skip_trust: bool,
    /// The project's settings and `.env` files are not read, trusted or not.
    pub ignores_project_settings: bool,
    pub raw_output: RawOutput,
    /// `--api-key-env`: the variable that holds the key of the provider in use.
    pub api_key_env: Option<String>,
    /// `--debug`, `DEBUG` or `DEBUG_MODE`.
    pub debug: bool,
    /// `--ignore-env`: plain `.env` files of the project are not read.
    pub ignore_env: bool,
    pub script: ScriptedModel,
    /// Also report tool calls.
    pub tour: bool,
    /// Names reserved by the front end's own slash commands.
    pub reserved: Reserved,
    /// MCP servers of the session's client: names and entries as in `mcpServers`. Never saved.
    pub client_servers: Vec<(String, Value)>,
    /// MCP servers inside of the session's client; their entries in `client_servers` say nothing but their name.
    pub client_links: Vec<(String, ClientLink)>,
    /// Running MCP servers that sessions of this process use together.
    pub shared_servers: Option<SharedServers>,
    /// Only the servers of the session's client are used.
    pub only_client_servers: bool,
    /// Tools that the session's client runs itself.
    pub client_tools: Option<ClientTools>,
    /// Files as the session's client has them.
    pub client_files: Option<ClientFiles>,
    /// Terminals of the session's client.
    pub client_terminals: Option<ClientTerminals>,
    /// Functions of the session's client that run as hooks.
    pub client_hooks: Option<Callbacks>,
    /// Instructions of the session's client, after those of the program.
    pub client_instructions: Option<String>,
    /// Nobody can answer the model's own questions, so it is not offered to ask any.
    pub without_questions: bool,
    /// Lines for stderr about flags that have no effect yet.
    pub remarks: Vec<String>,
}

/// Reads the functions that a session's client registers as hooks, and notes about those that are not used.
pub fn client_hooks(
    port: &Arc<dyn CallbackPort>,
    events: &JsonObject,
) -> Result<(Callbacks, Vec<String>), String> {
    Callbacks::read(port, events, pollux_policy::canonical_tool_name)
}

/// Tools of a session's client. Equal if they are the same source.
#[derive(Clone)]
pub struct ClientTools(pub Arc<dyn ToolSource>);

impl fmt::Debug for ClientTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTools")
    }
}

impl PartialEq for ClientTools {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The files of a session's client. Equal if they are the same.
#[derive(Clone)]
pub struct ClientFiles(pub Arc<dyn FileView>);

impl fmt::Debug for ClientFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientFiles")
    }
}

impl PartialEq for ClientFiles {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The terminals of a session's client. Equal if they are the same.
#[derive(Clone)]
pub struct ClientTerminals(pub Arc<dyn terminals::ClientTerminals>);

impl fmt::Debug for ClientTerminals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTerminals")
    }
}

impl PartialEq for ClientTerminals {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Which session a run uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionChoice {
    #[default]
    New,
    /// `--session-id`: a new session with this id.
    NewWithId(SessionId),
    /// `--resume`
    Resume(Resumed),
    /// `--session-file`: a copy of this file with a new id.
    Import(PathBuf),
}

/// The session to resume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resumed {
    /// `latest`, an index, an id or a prefix of one, trimmed.
    pub which: String,
    /// Search the sessions of all projects.
    pub all_projects: bool,
    /// Resume into a new session.
    pub fork: bool,
    /// Start a session if there is none to resume.
    pub or_new: bool,
}

/// Which model a resumed session goes on with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResumedModel {
    /// The session's own, unless the user names one on the command line or in the environment.
    #[default]
    UnlessNamed,
    /// The session's own: what was named was for another session.
    OfSession,
    /// That of the settings and overrides: the session is open already.
    OfSettings,
}

/// How model output reaches the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RawOutput {
    /// Control sequences are removed.
    #[default]
    Stripped,
    /// Passed through, with a warning.
    Raw,
    /// Passed through without a warning.
    RawAccepted,
}

/// The hidden test hooks that replace or record the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptedModel {
    /// `--fake-responses` or `--fake-responses-non-strict`.
    pub replies: Option<Replies>,
    /// `--record-responses`
    pub record: Option<PathBuf>,
}

/// A file of scripted replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replies {
    pub file: PathBuf,
    pub order: ReplyOrder,
}

/// How scripted replies are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyOrder {
    /// In file order, regardless of the request.
    Strict,
    /// The first unused line that matches the request.
    FirstFitting,
}

/// The settings file to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    User,
    Project,
}

/// Reserved slash command names, without the slash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reserved(pub &'static [&'static str]);

impl Reserved {
    pub fn contains(self, word: &str) -> bool {
        self.0.contains(&word)
    }
}
