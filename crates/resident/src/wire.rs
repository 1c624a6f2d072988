//! The messages between the core and its front ends: one JSON-RPC message per line.
//!
//! A new field is optional and has a default, so that programs of different versions understand each other; anything else
//! needs a new number in [`PROTOCOL`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The oldest and the newest protocol that this program speaks.
pub const PROTOCOL: [u32; 2] = [1, 1];

/// Error codes beyond those of JSON-RPC.
pub mod code {
    /// An operation was refused; `data.code` says why.
    pub const REFUSED: i32 = -32010;
    /// No common protocol.
    pub const PROTOCOL: i32 = -32011;
    /// Turns are running.
    pub const BUSY: i32 = -32012;
    /// A failure with its exit code and hint in `data`.
    pub const FAILED: i32 = -32013;
}

/// The first message: who connects.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// Version of the program.
    pub program: String,
    /// The oldest and the newest protocol it speaks.
    pub protocol: [u32; 2],
    pub front: FrontInfo,
}

/// A front end as it names itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontInfo {
    /// What it is, such as `tui`.
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// The answer to [`Hello`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Welcome {
    /// The protocol of this connection.
    pub protocol: u32,
    pub program: String,
    /// What the front end may do; the core decides.
    pub scopes: Vec<String>,
    /// Names this process of the core: event numbers of another one mean nothing.
    pub instance: String,
    pub pid: u32,
}

/// A session of the core.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    pub session: String,
    pub cwd: PathBuf,
    pub title: Option<String>,
    pub model: String,
    pub mode: String,
    /// `idle`, `busy`, `waiting` (for an approval), `ended` or `crashed`.
    pub state: String,
    /// The front ends attached to it.
    pub fronts: Vec<String>,
    /// Prompts that wait for their turn.
    pub queued: usize,
    /// The number of its last event.
    pub seq: u64,
    pub started_at: String,
    /// When it last ran a turn or had a front end.
    pub active_at: String,
}

/// `session/open`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenParams {
    /// An absolute path.
    pub cwd: PathBuf,
    /// The environment of the session.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub choice: Choice,
    #[serde(default)]
    pub options: Options,
    /// Turns that a new session begins with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begin: Vec<Value>,
}

/// Which session is opened.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Choice {
    #[default]
    New,
    NewWithId {
        id: String,
    },
    /// A stored session; one that the core has already is returned as it is.
    Resume {
        which: String,
        #[serde(default)]
        all_projects: bool,
        #[serde(default)]
        fork: bool,
        /// Start a session if there is none to resume.
        #[serde(default)]
        or_new: bool,
    },
    Import {
        path: PathBuf,
    },
}

/// The flags of a session, as on the command line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    pub approval: Option<String>,
    /// Dotted settings keys with values.
    pub overrides: Vec<(String, Value)>,
    pub allowed_tools: Vec<String>,
    pub excluded_tools: Vec<String>,
    pub confirmed_tools: Vec<String>,
    pub extensions: Vec<String>,
    pub include_directories: Vec<String>,
    pub sandbox: Option<String>,
    pub sandbox_allow: Vec<String>,
    pub sandbox_report: Option<PathBuf>,
    pub skip_trust: bool,
    pub ignore_project: bool,
    pub api_key_env: Option<String>,
    pub debug: bool,
    pub ignore_env: bool,
    /// Which model a resumed session goes on with: `session`, `settings`, or unless one is named.
    pub resumed_model: Option<String>,
    /// Scripted replies for tests, and whether they are taken in order.
    pub replies: Option<(PathBuf, bool)>,
}

/// The answer to `session/open` and `session/fork`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Opened {
    pub session: String,
    pub report: Report,
    /// Lines for the person who opened it.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What a front end shows about a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub session: String,
    pub cwd: PathBuf,
    pub file: Option<PathBuf>,
    pub provider: String,
    pub model: String,
    pub auth: Option<String>,
    pub mode: String,
    pub sandbox: String,
}

/// `session/attach`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachParams {
    pub session: String,
    /// The number of the last event that is known. Without it, or if the core no longer has what follows, a snapshot
    /// comes with the answer.
    pub after: Option<u64>,
    /// How many earlier messages the snapshot shows; 50 unless given.
    pub history: Option<usize>,
}

/// The answer to `session/attach`. Events follow from number `seq + 1`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attached {
    pub session: String,
    /// The front end's name among those of the session.
    pub front: String,
    pub report: Report,
    pub seq: u64,
    /// A turn or a command runs.
    pub busy: bool,
    pub snapshot: Option<Snapshot>,
}

/// What a front end needs to know before the first event.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// Earlier messages, without those of the running turn.
    pub history: Vec<HistoryEntry>,
    /// The number of earlier messages that are left out.
    pub above: usize,
    /// The present state, as events. They have no numbers.
    pub state: Vec<Value>,
    /// Whether all events of the running turn follow; otherwise `state` has its open calls and questions.
    pub complete: bool,
}

/// An earlier message.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum HistoryEntry {
    Prompt {
        text: String,
    },
    Answer {
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        name: String,
        about: String,
        went_well: bool,
        #[serde(default)]
        interrupted: bool,
    },
    Note {
        severity: String,
        text: String,
    },
}

/// `session/detach`, `session/close`, `session/fork`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionParams {
    pub session: String,
}

/// `op`
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpParams {
    pub session: String,
    /// The id of the acknowledgement; chosen by the core unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub op: Value,
}

/// The answer to `op`: it was passed on. The result is an `Acknowledged` event with this id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpTaken {
    pub id: String,
}

/// The notification `event`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EventParams {
    pub session: String,
    pub seq: u64,
    pub event: Value,
}

/// The notification `question`: an approval is awaited. It is also an event; this one is for programs that only answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QuestionParams {
    pub session: String,
    pub question: Value,
}

/// The notification `lagged`: these events were not delivered. Attach again for a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LaggedParams {
    pub session: String,
    pub from: u64,
    pub to: u64,
}

/// The notification `ended`: no more events of this session come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndedParams {
    pub session: String,
    /// `closed`, `crashed`, `unloaded`, `shutdown` or `restart`.
    pub reason: String,
}

/// The answer to `core/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub program: String,
    pub protocol: [u32; 2],
    pub pid: u32,
    pub instance: String,
    pub started_at: String,
    pub sessions: usize,
    pub busy: usize,
    /// Connected front ends, this one included.
    pub connections: usize,
    /// Minutes without front ends, turns and questions before the core exits; 0 for never.
    pub idle_exit: u64,
}

/// `web/link`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WebParams {
    /// The page may only watch.
    pub watch: bool,
}

/// The answer to `web/link`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct WebLink {
    /// With a code that works once.
    pub url: String,
    /// Seconds for which it works.
    pub seconds: u64,
}

/// `core/shutdown`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShutdownParams {
    /// Cancel turns that are running; refused otherwise.
    pub force: bool,
    /// Another core follows: the answer has what reopens the sessions.
    pub restart: bool,
}

/// The answer to `core/shutdown`, when all sessions are closed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stopped {
    pub sessions: Vec<OpenParams>,
}
