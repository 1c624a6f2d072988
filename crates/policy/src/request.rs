//! The input and the result of a policy decision.

use std::path::PathBuf;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::Effect;
use serde_json::Value;

use crate::shell::CommandAnalysis;

/// A call to be decided on.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The tool's registered name.
    pub tool: &'a str,
    /// The MCP server it belongs to, if any.
    pub server: Option<&'a str>,
    /// Whether the tool says of itself that it only reads.
    pub read_only: bool,
    /// What an MCP server says of the tool.
    pub annotations: Option<&'a JsonObject>,
    pub args: &'a JsonObject,
    pub effect: &'a Effect,
    pub mode: ApprovalMode,
    /// Whether a person can be asked.
    pub interactive: bool,
    /// The sub-agent that calls, if it is not the main one.
    pub subagent: Option<&'a str>,
}

/// What is to happen with a call, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

impl Decision {
    /// The word in explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A decision and where it comes from.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub decision: Decision,
    /// The rule that decided; `None` for the mode's default.
    pub rule: Option<RuleSource>,
    /// Why, for people: in one or two sentences.
    pub reason: String,
    /// What a rule wants the model to read when it denies.
    pub deny_message: Option<String>,
    /// Denied only because nobody can be asked.
    pub would_ask: bool,
    /// For shell commands: what would run.
    pub shell: Option<CommandAnalysis>,
    /// For shell commands: the decision on each part, in the order of [`CommandAnalysis::parts`].
    pub parts: Vec<PartVerdict>,
    /// External checkers to ask before the call runs; empty when the call is denied.
    pub checks: Vec<ExternalCheck>,
}

/// The decision on one command of a command line.
#[derive(Debug, Clone, PartialEq)]
pub struct PartVerdict {
    pub text: String,
    pub decision: Decision,
    /// The rule that decided; `None` for the mode's default and for commands known to be safe.
    pub rule: Option<RuleSource>,
    pub reason: String,
}

/// Where a rule stands.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleSource {
    /// `default`, `extension`, `workspace`, `user` or `admin`.
    pub tier: &'static str,
    /// A file, a setting's key or a flag.
    pub source: String,
    pub path: Option<PathBuf>,
    pub line: Option<u32>,
    /// The rule's own `name`, or what it says in short.
    pub label: String,
    /// Tier plus priority, as in `4.95`.
    pub priority: f64,
}

/// An external checker that the caller has to ask before the call may run.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalCheck {
    /// A plain name, fit for a file's.
    pub name: String,
    /// The program and its arguments; without them it is what the user installed under the name.
    pub command: Option<Vec<String>>,
    /// Whether it wants the working directory and the workspace.
    pub wants_environment: bool,
    /// Whether it wants the conversation.
    pub wants_history: bool,
    pub config: Option<Value>,
    /// How long it may take.
    pub limit: Duration,
    pub source: RuleSource,
}
