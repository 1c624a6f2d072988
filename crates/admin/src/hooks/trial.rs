//! `pollux hooks run`: what each hook did, and what would come of it.

use pollux_domain::JsonObject;
use serde_json::{Value, json};

/// Longest output of a hook that is shown to a person, in lines.
const SHOWN_LINES: usize = 20;

/// An event that was tried.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    pub event: &'static str,
    pub sequential: bool,
    pub runs: Vec<TrialRun>,
    pub outcome: Outcome,
    /// Why nothing ran, if nothing did.
    pub nothing: String,
}

/// What one hook did.
#[derive(Debug, Clone, Default)]
pub struct TrialRun {
    pub name: Option<String>,
    pub command: String,
    pub source: String,
    /// Such as `exit code 2`.
    pub ending: String,
    pub exit_code: Option<i32>,
    pub duration_ms: u128,
    pub stdout: String,
    pub stderr: String,
    /// `allow`, `ask`, `deny`, `stop` or nothing.
    pub decision: &'static str,
    pub warning: Option<String>,
    /// Asked again about changed arguments.
    pub again: bool,
}

/// What would come of all answers.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// `proceed`, `ask`, `block` or `stop`.
    pub verdict: &'static str,
    pub reason: Option<String>,
    pub system_message: Option<String>,
    pub suppress_output: bool,
    pub specific: JsonObject,
}

impl Trial {
    pub(super) fn text(&self) -> String {
        if self.runs.is_empty() {
            return format!("{}: {}\n", self.event, self.nothing);
        }
        let hooks = self.runs.iter().filter(|run| !run.again).count();
        let how = match (hooks, self.sequential) {
            (1, _) => "1 hook".to_owned(),
            (many, true) => format!("{many} hooks, in sequence"),
            (many, false) => format!("{many} hooks, in parallel"),
        };
        let runs: String = self.runs.iter().map(TrialRun::text).collect();
        format!("{}: {how}\n{runs}{}", self.event, self.outcome.text(self.event))
    }

    pub(super) fn json(&self) -> Value {
        let runs: Vec<Value> = self.runs.iter().map(TrialRun::json).collect();
        json!({"event": self.event, "sequential": self.sequential, "runs": runs, "outcome": self.outcome.json()})
    }
}

impl TrialRun {
    fn text(&self) -> String {
        let again = if self.again { ", asked again about the changed arguments" } else { "" };
        let title = match &self.name {
            Some(name) => format!("{name} ({}{again}): {}", self.source, self.command),
            None => format!("{} ({}{again})", self.command, self.source),
        };
        let decision = if self.decision.is_empty() { "no decision" } else { self.decision };
        let mut text = format!("  {title}\n    {} after {} ms: {decision}\n", self.ending, self.duration_ms);
        for (stream, printed) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let count = printed.lines().count();
            for line in printed.lines().take(SHOWN_LINES) {
                text.push_str(&format!("    {stream}: {line}\n"));
            }
            if count > SHOWN_LINES {
                text.push_str(&format!("    {stream}: … {} more lines\n", count - SHOWN_LINES));
            }
        }
        if let Some(warning) = &self.warning {
            text.push_str(&format!("    warning: it {warning}\n"));
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "command": self.command,
            "source": self.source,
            "ending": self.ending,
            "exitCode": self.exit_code,
            "durationMs": u64::try_from(self.duration_ms).unwrap_or(u64::MAX),
            "stdout": self.stdout,
            "stderr": self.stderr,
            "decision": self.decision,
            "warning": self.warning,
            "again": self.again,
        })
    }
}

impl Outcome {
    fn text(&self, event: &str) -> String {
        let reason = self.reason.as_deref().unwrap_or("No reason provided");
        let mut lines = vec![match self.verdict {
            "stop" => format!("the turn stops: {reason}"),
            "block" => format!("blocked: {reason}"),
            "ask" => match &self.reason {
                Some(reason) => format!("approval required: {reason}"),
                None => "approval required".to_owned(),
            },
            _ => "continues".to_owned(),
        }];
        lines.extend(self.system_message.as_ref().map(|text| format!("message: {text}")));
        for (key, value) in self.specific.iter().filter(|(key, _)| *key != "hookEventName") {
            let shown = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            lines.push(match effect(event, key) {
                Some(effect) => format!("{effect}: {shown}"),
                None => format!("`{key}` has no effect for {event}"),
            });
        }
        let lines: Vec<String> = lines.iter().map(|line| line.replace('\n', "\n    ")).collect();
        format!("outcome: {}\n", lines.join("\n  "))
    }

    fn json(&self) -> Value {
        json!({
            "verdict": self.verdict,
            "reason": self.reason,
            "systemMessage": self.system_message,
            "suppressOutput": self.suppress_output,
            "hookSpecificOutput": self.specific,
        })
    }
}

/// What a key of `hookSpecificOutput` does at an event.
fn effect(event: &str, key: &str) -> Option<&'static str> {
    match (event, key) {
        ("SessionStart" | "BeforeAgent" | "AfterTool", "additionalContext") => Some("context for the model"),
        ("AfterAgent", "clearContext") => Some("clears the history"),
        ("BeforeModel", "llm_request") => Some("changes the request"),
        ("BeforeModel" | "AfterModel", "llm_response") => Some("replaces the response"),
        ("BeforeToolSelection", "toolConfig") => Some("available tools"),
        ("BeforeTool", "tool_input") => Some("new arguments"),
        ("AfterTool", "tailToolCallRequest") => Some("requests another call"),
        _ => None,
    }
}
