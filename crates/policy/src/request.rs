//! The input and the result of a policy decision.

use std::path::PathBuf;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::Effect;
use serde_json::Value;

use crate::shell::CommandAnalysis;
use crate::tier::Tier;

/// A call to be decided on.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The tool's registered name.
    pub tool: &'a str,
    /// The MCP server it belongs to, if any.
    pub server: Option<&'a str>,
    /// Whether the tool declares itself as read-only.
    pub read_only: bool,
    /// The tool annotations of an MCP server.
    pub annotations: Option<&'a JsonObject>,
    pub args: &'a JsonObject,
    pub effect: &'a Effect,
    pub mode: ApprovalMode,
    /// Whether the user can be prompted.
    pub interactive: bool,
    /// The sub-agent that calls, if it is not the main one.
    pub subagent: Option<&'a str>,
}

/// The decision on a call, from the mildest to the strictest.
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

/// How the reason begins if no rule matches.
pub(crate) const NO_RULE: &str = "no rule matches";

/// A decision and where it comes from.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub decision: Decision,
    /// The rule that decided; `None` for the mode's default.
    pub rule: Option<RuleSource>,
    /// The reason for users, in one or two sentences.
    pub reason: String,
    /// The message of a deny rule for the model.
    pub deny_message: Option<String>,
    /// Denied only because the user cannot be prompted.
    pub would_ask: bool,
    /// For shell commands: the analysis of the command line.
    pub shell: Option<CommandAnalysis>,
    /// For shell commands: the decision on each part, in the order of [`CommandAnalysis::parts`].
    pub parts: Vec<PartVerdict>,
    /// External checkers to ask before the call runs; empty when the call is denied.
    pub checks: Vec<ExternalCheck>,
}

impl Verdict {
    /// Whether it is that of a default rule, or no rule matches. A rule of the user's decides otherwise.
    pub fn is_by_default(&self) -> bool {
        match &self.rule {
            Some(rule) => rule.tier == Tier::Default.as_str(),
            None => self.reason.starts_with(NO_RULE),
        }
    }
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

/// The source of a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleSource {
    /// `default`, `extension`, `workspace`, `user` or `admin`.
    pub tier: &'static str,
    /// A file, a setting's key or a flag.
    pub source: String,
    pub path: Option<PathBuf>,
    pub line: Option<u32>,
    /// The rule's own `name`, or a short description.
    pub label: String,
    /// Tier plus priority, as in `4.95`.
    pub priority: f64,
}

/// An external checker that the caller must run before the call.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalCheck {
    /// A plain name, usable as a file name.
    pub name: String,
    /// The program and its arguments; without them, the checker installed under this name.
    pub command: Option<Vec<String>>,
    /// Whether it needs the working directory and the workspace.
    pub wants_environment: bool,
    /// Whether it needs the conversation.
    pub wants_history: bool,
    pub config: Option<Value>,
    /// How long it may take.
    pub limit: Duration,
    pub source: RuleSource,
}
