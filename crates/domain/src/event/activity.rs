//! What a sub-agent does while it works.

use std::sync::Arc;

use serde_json::{Value, json};

use super::CallReport;
use crate::JsonObject;
use crate::id::CallId;
use crate::redact::{redact_value, redacted};

/// Characters of one text that are told; the sub-agent's own record has all of it.
const MAX_TEXT: usize = 2_000;

/// Something that a sub-agent did.
#[derive(Debug, Clone)]
pub struct Activity {
    /// The call that asked for the agent.
    pub call: CallId,
    pub agent: String,
    pub what: ActivityKind,
}

/// The kinds; names and data are upstream's.
#[derive(Debug, Clone)]
pub enum ActivityKind {
    CallStarted {
        call: CallId,
        name: String,
        display_name: String,
        description: String,
        args: JsonObject,
    },
    CallEnded(Arc<CallReport>),
    /// The heading of a thought.
    Thought(String),
    /// Something went wrong; the agent may go on.
    Error {
        message: String,
        call: Option<(CallId, String)>,
        cause: ActivityError,
    },
}

/// Why something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityError {
    /// A person said no.
    Rejected,
    Cancelled,
    Generic,
}

impl ActivityError {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "REJECTED",
            Self::Cancelled => "CANCELLED",
            Self::Generic => "GENERIC",
        }
    }
}

impl ActivityKind {
    /// The word in events.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::CallStarted { .. } => "TOOL_CALL_START",
            Self::CallEnded(_) => "TOOL_CALL_END",
            Self::Thought(_) => "THOUGHT_CHUNK",
            Self::Error { .. } => "ERROR",
        }
    }

    /// Its data, shortened and without secrets.
    pub fn data(&self) -> Value {
        let mut data = match self {
            Self::CallStarted { call, name, display_name, description, args } => json!({
                "name": name,
                "displayName": display_name,
                "description": description,
                "args": args,
                "callId": call.as_str(),
            }),
            Self::CallEnded(report) => json!({
                "name": report.name,
                "id": report.call.as_str(),
                "output": report.answer,
                "data": {"status": report.outcome.status().as_str(), "durationMs": report.duration.as_millis() as u64},
            }),
            Self::Thought(text) => json!({"text": text}),
            Self::Error { message, call, cause } => {
                let mut data = json!({"error": message, "errorType": cause.as_str()});
                if let (Some((call, name)), Some(fields)) = (call, data.as_object_mut()) {
                    fields.insert("context".into(), json!("tool_call"));
                    fields.insert("name".into(), json!(name));
                    fields.insert("callId".into(), json!(call.as_str()));
                }
                data
            }
        };
        shorten(&mut data);
        redact_value(&mut data);
        data
    }
}

impl Activity {
    /// The event as programs get it.
    pub fn to_json(&self) -> Value {
        json!({
            "isSubagentActivityEvent": true,
            "agentName": self.agent,
            "type": self.what.as_str(),
            "data": self.what.data(),
        })
    }

    /// A line for people, without secrets; `None` for what would only be noise.
    pub fn line(&self) -> Option<String> {
        let text = match &self.what {
            ActivityKind::CallStarted { display_name, description, .. } if description.is_empty() => {
                display_name.clone()
            }
            ActivityKind::CallStarted { display_name, description, .. } => {
                format!("{display_name} {description}")
            }
            ActivityKind::Error { message, .. } => format!("failed: {message}"),
            ActivityKind::Thought(text) if !text.is_empty() => format!("({text})"),
            ActivityKind::Thought(_) => return None,
            ActivityKind::CallEnded(report) if report.outcome.succeeded() => return None,
            ActivityKind::CallEnded(report) => {
                format!("{} {}", report.name, report.outcome.status().as_str())
            }
        };
        let mut line = format!("{}: {text}", self.agent);
        cut(&mut line, 200);
        Some(redacted(&line).into_owned())
    }
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => cut(text, MAX_TEXT),
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn cut(text: &mut String, most: usize) {
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_is_short_and_contains_no_secrets() {
        let args = json!({"command": "login --password hunter2 now", "text": "x".repeat(9_000)});
        let activity = Activity {
            call: CallId::new("invoke_agent", "1"),
            agent: "a".into(),
            what: ActivityKind::CallStarted {
                call: CallId::new("run_shell_command", "2"),
                name: "run_shell_command".into(),
                display_name: "Shell".into(),
                description: "login --password hunter2 now".into(),
                args: args.as_object().unwrap().clone(),
            },
        };
        let event = activity.to_json();
        assert_eq!((&event["type"], &event["agentName"]), (&json!("TOOL_CALL_START"), &json!("a")));
        assert!(!event.to_string().contains("hunter2"), "{event}");
        assert!(event.to_string().len() < 4_000);
        let line = activity.line().unwrap();
        assert!(line.starts_with("a: Shell login") && !line.contains("hunter2"), "{line}");
    }
}
