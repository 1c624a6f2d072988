//! Safety checkers: a second opinion on calls that the rules would allow.
//!
//! Defines the request, the answer and the port through which external checkers run; this crate starts no
//! process. In-process checkers are in submodules.

mod allowed_path;
pub(crate) mod turns;

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use pollux_domain::text::shortened;
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};

pub(crate) use self::allowed_path::allowed_path;
pub use crate::request::ExternalCheck;
use crate::request::{Decision, RuleSource};
use crate::rule::{Condition, Modes};
use crate::tier::{Rank, Tier};
use crate::tool_name::ToolMatch;

/// Default time limit of an external checker.
const DEFAULT_LIMIT: Duration = Duration::from_secs(5);

/// Upper limit of a configured time limit.
const MAX_LIMIT: Duration = Duration::from_secs(30);

/// The message where `security.enableConseca` is on.
pub(crate) const NO_CONSECA: &str =
    "`security.enableConseca` requires the safety checker `conseca`, which this version does not include";

/// Characters of a checker's reason that are shown to the user and the model.
const MAX_ANSWER: usize = 2000;

/// Version of the external checker protocol.
const PROTOCOL: &str = "1.0.0";

/// Where a checker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckerKind {
    InProcess,
    External,
}

/// A `[[safety_checker]]`.
#[derive(Debug, Clone)]
pub(crate) struct CheckerRule {
    pub(crate) tool: ToolMatch,
    pub(crate) condition: Condition,
    pub(crate) modes: Modes,
    pub(crate) annotations: Vec<(String, Value)>,
    pub(crate) rank: Rank,
    pub(crate) kind: CheckerKind,
    pub(crate) name: String,
    /// The command given in the file, where the tier may give one.
    pub(crate) command: Option<Vec<String>>,
    pub(crate) required_context: Vec<String>,
    pub(crate) config: Option<Value>,
    pub(crate) source: RuleSource,
}

impl CheckerRule {
    /// The checker that `security.enableConseca` puts before every call.
    pub(crate) fn conseca() -> Self {
        let rank = Rank::new(Tier::Default, 100);
        Self {
            tool: ToolMatch::new(Some("*"), None),
            condition: Condition::Always,
            modes: Modes::UNSAID,
            annotations: Vec::new(),
            rank,
            kind: CheckerKind::InProcess,
            name: "conseca".to_owned(),
            command: None,
            required_context: Vec::new(),
            config: None,
            source: RuleSource {
                tier: Tier::Default.as_str(),
                source: "security.enableConseca".to_owned(),
                path: None,
                line: None,
                label: "checker conseca".to_owned(),
                priority: rank.as_f64(),
            },
        }
    }
}

impl From<&CheckerRule> for ExternalCheck {
    fn from(rule: &CheckerRule) -> Self {
        let wants = |what: &str| rule.required_context.iter().any(|wanted| wanted == what);
        // Without a list a checker gets everything.
        let all = rule.required_context.is_empty();
        let milliseconds =
            rule.config.as_ref().and_then(|config| config.get("timeout")).and_then(Value::as_u64);
        Self {
            name: rule.name.clone(),
            command: rule.command.clone(),
            wants_environment: all || wants("environment"),
            wants_history: all || wants("history"),
            config: rule.config.clone(),
            limit: milliseconds.map_or(DEFAULT_LIMIT, Duration::from_millis).min(MAX_LIMIT),
            source: rule.source.clone(),
        }
    }
}

/// The input of an external checker on stdin.
#[derive(Debug, Clone)]
pub struct CheckRequest<'a> {
    pub tool: &'a str,
    pub args: &'a JsonObject,
    pub directory: &'a Path,
    pub workspaces: &'a [PathBuf],
    /// The turns so far: `{user: {text}, model: {text, toolCalls}}`.
    pub history: &'a [Value],
}

impl CheckRequest<'_> {
    /// The JSON for one checker, with no more context than it asks for.
    pub fn to_json(&self, check: &ExternalCheck) -> Value {
        let mut context = JsonObject::new();
        if check.wants_environment {
            let workspaces: Vec<String> =
                self.workspaces.iter().map(|dir| dir.display().to_string()).collect();
            context.insert(
                "environment".to_owned(),
                json!({"cwd": self.directory.display().to_string(), "workspaces": workspaces}),
            );
        }
        if check.wants_history {
            context.insert("history".to_owned(), json!({"turns": self.history}));
        }
        let mut request = json!({
            "protocolVersion": PROTOCOL,
            "toolCall": {"name": self.tool, "args": self.args},
            "context": context,
        });
        if let (Some(config), Some(object)) = (&check.config, request.as_object_mut()) {
            object.insert("config".to_owned(), config.clone());
        }
        request
    }
}

/// The answer of a checker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckAnswer {
    pub decision: Decision,
    pub reason: String,
}

/// Why a checker gave no valid answer; the call is then denied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckFailure {
    #[error("no executable file `{}` for the safety checker `{name}`", file.display())]
    NotInstalled { name: String, file: PathBuf },
    #[error("the safety checker `{name}` did not answer within {} ms", limit.as_millis())]
    TimedOut { name: String, limit: Duration },
    #[error("the safety checker `{name}` failed: {why}")]
    Failed { name: String, why: String },
    #[error("invalid response from the safety checker `{name}`: {why}")]
    Malformed { name: String, why: String },
}

impl CheckAnswer {
    /// Parses a checker's standard output.
    pub fn parse(name: &str, text: &str) -> Result<Self, CheckFailure> {
        let malformed = |why: String| CheckFailure::Malformed { name: name.to_owned(), why };
        let value: Value = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let decision = match value.get("decision") {
            Some(Value::String(word)) if word == "allow" => Decision::Allow,
            Some(Value::String(word)) if word == "deny" => Decision::Deny,
            Some(Value::String(word)) if word == "ask_user" => Decision::Ask,
            Some(other) => {
                return Err(malformed(format!(
                    "unknown decision {}",
                    shortened(&other.to_string(), MAX_ANSWER)
                )));
            }
            None => return Err(malformed("missing `decision`".to_owned())),
        };
        let reason = ["reason", "error"].iter().find_map(|key| value.get(key).and_then(Value::as_str));
        let fallback = || format!("the safety checker `{name}` decided {}", decision.as_str());
        Ok(Self { decision, reason: reason.map_or_else(fallback, |reason| shortened(reason, MAX_ANSWER)) })
    }
}

/// Runs external checkers. Implemented by the caller, because this crate starts no processes.
pub trait CheckerPort: Send + Sync {
    fn check<'a>(
        &'a self,
        check: &'a ExternalCheck,
        request: &'a CheckRequest<'a>,
    ) -> BoxFuture<'a, Result<CheckAnswer, CheckFailure>>;
}

/// Resolves symlinks in a path; supplied by the caller, because this crate does not access the disk.
pub type Resolver = std::sync::Arc<dyn Fn(&Path) -> PathBuf + Send + Sync>;

/// A path made absolute, `.` and `..` removed, and links resolved if a resolver is given.
pub(crate) fn place(directory: &Path, text: &str, resolve: Option<&Resolver>) -> PathBuf {
    let joined = if text.is_empty() { directory.to_owned() } else { directory.join(text) };
    let mut path = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    resolve.map_or_else(|| path.clone(), |resolve| resolve(&path))
}

#[cfg(test)]
mod tests;
