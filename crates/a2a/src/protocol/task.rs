//! Tasks, their states and their artifacts.

use pollux_domain::JsonObject;
use serde_json::{Value, json};

use super::message::{Ids, Message, Part, object};
use super::version::Dialect;

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    Submitted,
    /// Working, or an unknown state.
    Working,
    Completed,
    Failed,
    Canceled,
    Rejected,
    /// The agent waits for an answer to its question.
    InputRequired,
    AuthRequired,
}

const STATES: &[(TaskState, &str, &str)] = &[
    (TaskState::Submitted, "submitted", "TASK_STATE_SUBMITTED"),
    (TaskState::Working, "working", "TASK_STATE_WORKING"),
    (TaskState::Completed, "completed", "TASK_STATE_COMPLETED"),
    (TaskState::Failed, "failed", "TASK_STATE_FAILED"),
    (TaskState::Canceled, "canceled", "TASK_STATE_CANCELED"),
    (TaskState::Rejected, "rejected", "TASK_STATE_REJECTED"),
    (TaskState::InputRequired, "input-required", "TASK_STATE_INPUT_REQUIRED"),
    (TaskState::AuthRequired, "auth-required", "TASK_STATE_AUTH_REQUIRED"),
];

impl TaskState {
    /// Whether the task has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// The agent waits for the client, or is done.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Submitted | Self::Working)
    }

    /// The state of this name in any dialect.
    pub fn named(word: &str) -> Option<Self> {
        let word = word.strip_prefix("TASK_STATE_").unwrap_or(word).to_ascii_lowercase().replace('_', "-");
        let word = if word == "cancelled" { "canceled" } else { word.as_str() };
        STATES.iter().find(|(_, old, _)| *old == word).map(|(state, ..)| *state)
    }

    fn read(value: Option<&Value>) -> Self {
        value.and_then(Value::as_str).and_then(Self::named).unwrap_or(Self::Working)
    }

    pub fn word(self, dialect: Dialect) -> &'static str {
        let names = STATES.iter().find(|(state, ..)| *state == self);
        match (self, dialect) {
            // The protocol buffers of 0.3 had two letters l.
            (Self::Canceled, Dialect::OldBuffers) => "TASK_STATE_CANCELLED",
            _ => names.map_or("", |(_, old, one)| if dialect.is_tagged() { old } else { one }),
        }
    }
}

/// The state of a task and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub state: TaskState,
    pub message: Option<Message>,
    /// ISO 8601.
    pub timestamp: Option<String>,
}

/// Output of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Artifact {
    pub id: String,
    pub name: Option<String>,
    pub parts: Vec<Part>,
}

/// A task.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub ids: Ids,
    pub status: Status,
    pub artifacts: Vec<Artifact>,
    pub history: Vec<Message>,
    pub metadata: JsonObject,
}

impl Status {
    pub(super) fn read(value: Option<&Value>) -> Self {
        let get = |key: &str| value.and_then(|value| value.get(key));
        let message = get("message").or_else(|| get("update")).filter(|message| message.is_object());
        Self {
            state: TaskState::read(get("state")),
            message: message.map(Message::read),
            timestamp: get("timestamp").and_then(Value::as_str).map(str::to_owned),
        }
    }

    pub(super) fn to_json(&self, dialect: Dialect) -> Value {
        let mut fields = JsonObject::new();
        fields.insert("state".to_owned(), json!(self.state.word(dialect)));
        if let Some(message) = &self.message {
            let key = if dialect == Dialect::OldBuffers { "update" } else { "message" };
            fields.insert(key.to_owned(), message.to_json(dialect));
        }
        if let Some(timestamp) = &self.timestamp {
            fields.insert("timestamp".to_owned(), json!(timestamp));
        }
        Value::Object(fields)
    }
}

impl Artifact {
    pub fn read(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        Self {
            id: text("artifactId").unwrap_or_default().to_owned(),
            name: text("name").filter(|name| !name.is_empty()).map(str::to_owned),
            parts: Part::read_all(value.get("parts")),
        }
    }

    pub fn to_json(&self, dialect: Dialect) -> Value {
        let parts: Vec<Value> = self.parts.iter().map(|part| part.to_json(dialect)).collect();
        let mut fields = JsonObject::new();
        fields.insert("artifactId".to_owned(), json!(self.id));
        if let Some(name) = &self.name {
            fields.insert("name".to_owned(), json!(name));
        }
        fields.insert("parts".to_owned(), Value::Array(parts));
        Value::Object(fields)
    }

    /// All parts as text, in upstream's format.
    pub fn text(&self) -> String {
        Part::text_of(&self.parts)
    }
}

impl Task {
    pub fn read(value: &Value) -> Self {
        let list = |key: &str| value.get(key).and_then(Value::as_array).into_iter().flatten();
        Self {
            ids: Ids::read(value, "id"),
            status: Status::read(value.get("status")),
            artifacts: list("artifacts").map(Artifact::read).collect(),
            history: list("history").map(Message::read).collect(),
            metadata: object(value.get("metadata")),
        }
    }

    pub fn to_json(&self, dialect: Dialect) -> Value {
        let mut fields = JsonObject::new();
        if dialect.is_tagged() {
            fields.insert("kind".to_owned(), json!("task"));
        }
        fields.insert("id".to_owned(), json!(self.ids.task));
        fields.insert("contextId".to_owned(), json!(self.ids.context));
        fields.insert("status".to_owned(), self.status.to_json(dialect));
        let artifacts: Vec<Value> = self.artifacts.iter().map(|artifact| artifact.to_json(dialect)).collect();
        let history: Vec<Value> = self.history.iter().map(|message| message.to_json(dialect)).collect();
        // Empty lists stay out in the spelling of protocol buffers.
        for (key, list) in [("history", history), ("artifacts", artifacts)] {
            if dialect.is_tagged() || !list.is_empty() {
                fields.insert(key.to_owned(), Value::Array(list));
            }
        }
        if !self.metadata.is_empty() {
            fields.insert("metadata".to_owned(), Value::Object(self.metadata.clone()));
        }
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_back_in_every_dialect() {
        for (state, ..) in STATES {
            for dialect in [Dialect::Tagged, Dialect::OldBuffers, Dialect::One] {
                assert_eq!(TaskState::named(state.word(dialect)), Some(*state), "{dialect:?}");
            }
        }
        let canceled = |dialect| TaskState::Canceled.word(dialect);
        assert_eq!(canceled(Dialect::One), "TASK_STATE_CANCELED");
        assert_eq!(canceled(Dialect::OldBuffers), "TASK_STATE_CANCELLED");
    }
}
