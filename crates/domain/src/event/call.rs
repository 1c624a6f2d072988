//! A tool call as front ends see it: asked for, then ended.

use std::time::Duration;

use super::{CallOutcome, FrontId, Location};
use crate::JsonObject;
use crate::approval::ApprovalMode;
use crate::content::Part;
use crate::id::CallId;
use crate::sandbox::SandboxReport;
use crate::tool::{Display, LineDelta, ToolKind};

/// A call that the model asked for and that has not run yet.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRequest {
    pub call: CallId,
    pub name: String,
    pub args: JsonObject,
    /// What it is about, for people; empty for a call that cannot run.
    pub title: String,
    /// The tool's name for people.
    pub display_name: String,
    pub kind: ToolKind,
    /// The MCP server that the tool belongs to.
    pub server: Option<String>,
    /// The files and folders that it is about.
    pub paths: Vec<Location>,
}

impl CallRequest {
    /// A call of which nothing more is known.
    pub fn new(call: CallId, name: impl Into<String>, args: JsonObject) -> Self {
        let name = name.into();
        Self {
            call,
            display_name: name.clone(),
            name,
            args,
            title: String::new(),
            kind: ToolKind::Other,
            server: None,
            paths: Vec::new(),
        }
    }
}

/// A call that ended.
#[derive(Debug, Clone)]
pub struct CallReport {
    pub call: CallId,
    pub name: String,
    pub kind: ToolKind,
    pub args: JsonObject,
    pub outcome: CallOutcome,
    pub display: Display,
    pub lines: LineDelta,
    pub duration: Duration,
    /// Whether it was decided on at all, and how.
    pub decision: Option<CallDecision>,
    /// What the model reads as the result, as text.
    pub answer: String,
    pub prompt_id: String,
    /// The files and folders that it was about.
    pub paths: Vec<Location>,
    /// The result as the tool gave it, before it is cut to what the model reads.
    pub parts: Vec<Part>,
    /// The sandbox that a command ran in.
    pub sandbox: Option<Box<SandboxReport>>,
    /// What allowed it; `None` if it did not run, or if it needs no permission.
    pub permit: Option<Permit>,
}

/// What allowed a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// A rule of the policy. `source` is its file, setting or flag.
    Rule { name: String, tier: String, source: String, line: Option<u32> },
    /// No rule, but what the approval mode allows.
    Mode(ApprovalMode),
    /// The user, in this front end.
    User(Option<FrontId>),
}

/// What was decided about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDecision {
    Accept,
    Reject,
    Modify,
    AutoAccept,
}

impl CallDecision {
    /// The word in statistics and telemetry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Modify => "modify",
            Self::AutoAccept => "auto_accept",
        }
    }
}

/// A person's own command that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellReport {
    pub call: CallId,
    pub command: String,
    pub output: String,
    /// How it ended, unless it ended well.
    pub ending: Option<String>,
}

/// A command that runs in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundCommand {
    pub pid: u32,
    pub command: String,
}
