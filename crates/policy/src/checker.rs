//! Safety checkers: a second look at calls that the rules would let through.

use std::path::{Component, Path, PathBuf};

use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};

use crate::request::{Decision, RuleSource};
use crate::rule::{Condition, Modes, decision_word};
use crate::tier::Rank;
use crate::tool_name::ToolMatch;

/// How long an external checker may take, in seconds, if its configuration names no time.
pub const DEFAULT_SECONDS: u64 = 5;

/// The longest time a configuration may name, in seconds.
pub const MAX_SECONDS: u64 = 30;

/// Version of the protocol that external checkers speak.
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
    pub(crate) required_context: Vec<String>,
    pub(crate) config: Option<Value>,
    pub(crate) source: RuleSource,
}

/// An external checker that the caller has to ask before the call may run.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalCheck {
    pub name: String,
    /// Whether it wants the working directory and the workspace.
    pub wants_environment: bool,
    /// Whether it wants the conversation.
    pub wants_history: bool,
    pub config: Option<Value>,
    pub seconds: u64,
    pub source: RuleSource,
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
            wants_environment: all || wants("environment"),
            wants_history: all || wants("history"),
            config: rule.config.clone(),
            seconds: milliseconds.map_or(DEFAULT_SECONDS, |ms| ms.div_ceil(1000).clamp(1, MAX_SECONDS)),
            source: rule.source.clone(),
        }
    }
}

/// What an external checker reads from its standard input.
#[derive(Debug, Clone)]
pub struct CheckRequest<'a> {
    pub tool: &'a str,
    pub args: &'a JsonObject,
    pub directory: &'a Path,
    pub workspaces: &'a [PathBuf],
    /// The turns so far, each as the program keeps it.
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

/// What a checker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckAnswer {
    pub decision: Decision,
    pub reason: String,
}

/// Why a checker gave no usable answer; the call is then refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckFailure {
    #[error("safety checker `{0}` is not known")]
    Unknown(String),
    #[error("safety checker `{0}` did not answer in time")]
    TimedOut(String),
    #[error("safety checker `{name}` failed: {why}")]
    Failed { name: String, why: String },
    #[error("safety checker gave no usable answer: {0}")]
    Malformed(String),
}

impl CheckAnswer {
    /// Reads a checker's standard output.
    pub fn parse(text: &str) -> Result<Self, CheckFailure> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| CheckFailure::Malformed(error.to_string()))?;
        let decision = match value.get("decision").and_then(Value::as_str) {
            Some("allow") => Decision::Allow,
            Some("deny") => Decision::Deny,
            Some("ask_user") => Decision::Ask,
            other => return Err(CheckFailure::Malformed(format!("decision is {other:?}"))),
        };
        let reason = ["reason", "error"].iter().find_map(|key| value.get(key).and_then(Value::as_str));
        let fallback = || format!("a safety checker says {}", decision_word(decision));
        Ok(Self { decision, reason: reason.map_or_else(fallback, str::to_owned) })
    }
}

/// Runs external checkers. This crate runs nothing, so the caller brings it.
pub trait CheckerPort: Send + Sync {
    fn check<'a>(
        &'a self,
        check: &'a ExternalCheck,
        request: &'a CheckRequest<'a>,
    ) -> BoxFuture<'a, Result<CheckAnswer, CheckFailure>>;
}

/// Where paths lead once links are followed; the caller may look at the disk, this crate does not.
pub type Resolver = std::sync::Arc<dyn Fn(&Path) -> PathBuf + Send + Sync>;

/// The built-in checker `allowed-path`: paths in arguments stay in the workspace.
pub(crate) fn allowed_path(
    args: &JsonObject,
    config: Option<&Value>,
    roots: &[PathBuf],
    directory: &Path,
    resolve: Option<&Resolver>,
) -> CheckAnswer {
    let listed = |key: &str| -> Vec<&str> {
        let list = config.and_then(|config| config.get(key)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let (included, excluded) = (listed("included_args"), listed("excluded_args"));
    let mut found = Vec::new();
    for (key, value) in args {
        collect(key, value, &included, &excluded, &mut found);
    }
    let mut answer = CheckAnswer { decision: Decision::Allow, reason: String::new() };
    for (key, text) in found {
        let path = place(directory, text, resolve);
        if !roots.iter().any(|root| path.starts_with(place(root, "", resolve))) {
            let reason = format!(
                "Path \"{text}\" in argument \"{key}\" is outside of the allowed workspace directories."
            );
            return CheckAnswer { decision: Decision::Deny, reason };
        }
        let inside = roots.iter().find_map(|root| path.strip_prefix(place(root, "", resolve)).ok());
        for segment in inside.unwrap_or(&path).components() {
            match segment.as_os_str().to_string_lossy().to_ascii_lowercase().as_str() {
                word @ (".git" | ".env" | "node_modules") => {
                    let reason = format!("Path \"{text}\" in argument \"{key}\" is inside `{word}`.");
                    return CheckAnswer { decision: Decision::Deny, reason };
                }
                ".vscode" => {
                    let reason = format!("Path \"{text}\" in argument \"{key}\" is inside `.vscode`.");
                    answer = CheckAnswer { decision: Decision::Ask, reason };
                }
                _ => {}
            }
        }
    }
    answer
}

fn collect<'a>(
    key: &'a str,
    value: &'a Value,
    included: &[&str],
    excluded: &[&str],
    out: &mut Vec<(&'a str, &'a str)>,
) {
    match value {
        Value::String(text) if !excluded.contains(&key) => {
            let name = key.to_ascii_lowercase();
            let about_paths = ["path", "directory", "file"].iter().any(|word| name.contains(word))
                || matches!(name.as_str(), "source" | "destination");
            if about_paths || included.contains(&key) {
                out.push((key, text));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(key, item, included, excluded, out)),
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| collect(key, value, included, excluded, out));
        }
        _ => {}
    }
}

/// A path made absolute, `.` and `..` removed, links followed if the caller can.
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
mod tests {
    use super::*;

    fn check(args: Value) -> Decision {
        let args = args.as_object().cloned().unwrap();
        allowed_path(&args, None, &[PathBuf::from("/w")], Path::new("/w"), None).decision
    }

    #[test]
    fn paths_outside_the_workspace_and_in_private_folders_are_refused() {
        let table = [
            (json!({"file_path": "/w/a.rs"}), Decision::Allow),
            (json!({"file_path": "src/a.rs"}), Decision::Allow),
            (json!({"file_path": "/etc/passwd"}), Decision::Deny),
            (json!({"file_path": "../x"}), Decision::Deny),
            (json!({"file_path": "/srv/x"}), Decision::Deny),
            (json!({"file_path": ".git/config"}), Decision::Deny),
            (json!({"file_path": "a/.ENV"}), Decision::Deny),
            (json!({"destination": "node_modules/x"}), Decision::Deny),
            (json!({"file_path": ".vscode/settings.json"}), Decision::Ask),
            (json!({"nested": {"sourceFile": ["/x"]}}), Decision::Deny),
            (json!({"content": "/etc/passwd"}), Decision::Allow),
        ];
        for (args, expected) in table {
            assert_eq!(check(args.clone()), expected, "{args}");
        }
    }

    #[test]
    fn links_are_followed_when_the_caller_can() {
        let resolve: Resolver = std::sync::Arc::new(|path: &Path| {
            path.strip_prefix("/w/link").map_or_else(|_| path.to_owned(), |rest| Path::new("/etc").join(rest))
        });
        let args = json!({"file_path": "link/passwd"}).as_object().cloned().unwrap();
        let answer = allowed_path(&args, None, &[PathBuf::from("/w")], Path::new("/w"), Some(&resolve));
        assert_eq!(answer.decision, Decision::Deny);
    }

    #[test]
    fn answers_are_read_and_nonsense_is_a_failure() {
        let answer = CheckAnswer::parse(r#"{"decision":"deny","reason":"no"}"#).unwrap();
        assert_eq!(answer, CheckAnswer { decision: Decision::Deny, reason: "no".to_owned() });
        assert!(CheckAnswer::parse("{}").is_err());
        assert!(CheckAnswer::parse("yes").is_err());
    }
}
