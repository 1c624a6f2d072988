//! Events of a task in both notations: tagged by `kind`, or by field name.

use pollux_domain::JsonObject;
use serde_json::{Value, json};

use super::message::{Ids, Message, object};
use super::task::{Artifact, Status, Task, TaskState};
use super::version::Dialect;

/// One event of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    Message(Message),
    Task(Task),
    Status(StatusUpdate),
    Artifact(ArtifactUpdate),
}

/// A task has another state, or says something.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusUpdate {
    pub ids: Ids,
    pub status: Status,
    /// Whether 0.3 ends the stream here.
    pub last: bool,
    pub metadata: JsonObject,
}

/// Output of a task, or more of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactUpdate {
    pub ids: Ids,
    pub artifact: Artifact,
    pub append: bool,
    pub last_chunk: bool,
    pub metadata: JsonObject,
}

impl Update {
    /// Reads one event; `None` for unknown ones.
    pub fn read(value: &Value) -> Option<Self> {
        let kind = value.get("kind").and_then(Value::as_str);
        let held =
            |names: &[&str]| names.iter().find_map(|name| value.get(name).filter(|held| held.is_object()));
        match kind {
            Some("message") => Some(Self::Message(Message::read(value))),
            Some("task") => Some(Self::Task(Task::read(value))),
            Some("status-update") => Some(status_update(value)),
            Some("artifact-update") => artifact_update(value),
            Some(_) => None,
            None => {
                if let Some(held) = held(&["task"]) {
                    Some(Self::Task(Task::read(held)))
                } else if let Some(held) = held(&["message", "msg"]) {
                    Some(Self::Message(Message::read(held)))
                } else if let Some(held) = held(&["statusUpdate"]) {
                    Some(status_update(held))
                } else if let Some(held) = held(&["artifactUpdate"]) {
                    artifact_update(held)
                } else {
                    // A bare task, in response to a query.
                    held(&["status"])
                        .filter(|_| value.get("id").is_some())
                        .map(|_| Self::Task(Task::read(value)))
                }
            }
        }
    }

    pub fn to_json(&self, dialect: Dialect) -> Value {
        let (name, value) = match self {
            Self::Message(message) if dialect == Dialect::OldBuffers => ("msg", message.to_json(dialect)),
            Self::Message(message) => ("message", message.to_json(dialect)),
            Self::Task(task) => ("task", task.to_json(dialect)),
            Self::Status(update) => ("statusUpdate", update.to_json(dialect)),
            Self::Artifact(update) => ("artifactUpdate", update.to_json(dialect)),
        };
        if dialect.is_tagged() { value } else { json!({name: value}) }
    }

    /// The ids to remember for the next message.
    pub fn ids(&self) -> &Ids {
        match self {
            Self::Message(message) => &message.ids,
            Self::Task(task) => &task.ids,
            Self::Status(StatusUpdate { ids, .. }) | Self::Artifact(ArtifactUpdate { ids, .. }) => ids,
        }
    }

    /// The state of the task, if the event contains it.
    pub fn state(&self) -> Option<TaskState> {
        match self {
            Self::Task(task) => Some(task.status.state),
            Self::Status(update) => Some(update.status.state),
            Self::Message(_) | Self::Artifact(_) => None,
        }
    }

    /// Whether nothing of worth can follow.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Message(_) => true,
            Self::Task(task) => task.status.state.is_over(),
            Self::Status(update) => update.last || update.status.state.is_over(),
            Self::Artifact(_) => false,
        }
    }
}

fn status_update(value: &Value) -> Update {
    Update::Status(StatusUpdate {
        ids: Ids::read(value, "taskId"),
        status: Status::read(value.get("status")),
        last: value.get("final").and_then(Value::as_bool).unwrap_or_default(),
        metadata: object(value.get("metadata")),
    })
}

fn artifact_update(value: &Value) -> Option<Update> {
    let is_set = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or_default();
    Some(Update::Artifact(ArtifactUpdate {
        ids: Ids::read(value, "taskId"),
        artifact: Artifact::read(value.get("artifact")?),
        append: is_set("append"),
        last_chunk: is_set("lastChunk"),
        metadata: object(value.get("metadata")),
    }))
}

impl StatusUpdate {
    fn to_json(&self, dialect: Dialect) -> Value {
        let mut fields = JsonObject::new();
        if dialect.is_tagged() {
            fields.insert("kind".to_owned(), json!("status-update"));
        }
        self.ids.write(&mut fields);
        fields.insert("status".to_owned(), self.status.to_json(dialect));
        if dialect != Dialect::One {
            fields.insert("final".to_owned(), json!(self.last));
        }
        if !self.metadata.is_empty() {
            fields.insert("metadata".to_owned(), Value::Object(self.metadata.clone()));
        }
        Value::Object(fields)
    }
}

impl ArtifactUpdate {
    fn to_json(&self, dialect: Dialect) -> Value {
        let mut fields = JsonObject::new();
        if dialect.is_tagged() {
            fields.insert("kind".to_owned(), json!("artifact-update"));
        }
        self.ids.write(&mut fields);
        fields.insert("artifact".to_owned(), self.artifact.to_json(dialect));
        fields.insert("append".to_owned(), json!(self.append));
        fields.insert("lastChunk".to_owned(), json!(self.last_chunk));
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
    fn both_protocol_versions_parse_alike() {
        let tagged = json!({"kind": "status-update", "taskId": "t", "contextId": "c", "final": true, "status":
            {"state": "completed", "message": {"role": "agent", "parts": [{"kind": "text", "text": "done"}]}}});
        let held = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "final": true, "status":
            {"state": "TASK_STATE_COMPLETED", "update": {"role": "ROLE_AGENT", "content": [{"text": "done"}]}}}});
        assert_eq!(Update::read(&tagged), Update::read(&held));
        let reply = Update::read(&tagged).unwrap();
        assert_eq!(reply.state(), Some(TaskState::Completed));
        assert!(reply.is_last());
        assert_eq!(reply.ids(), &Ids { context: Some("c".into()), task: Some("t".into()) });
    }

    #[test]
    fn written_events_are_read_back_in_every_dialect() {
        let ids = Ids { context: Some("c".into()), task: Some("t".into()) };
        let status = Status { state: TaskState::InputRequired, message: None, timestamp: Some("now".into()) };
        let artifact = Artifact { id: "a".into(), name: None, parts: vec![super::super::Part::text("x")] };
        let updates = [
            Update::Task(Task {
                ids: ids.clone(),
                status: status.clone(),
                artifacts: vec![artifact.clone()],
                history: Vec::new(),
                metadata: JsonObject::new(),
            }),
            Update::Artifact(ArtifactUpdate {
                ids: ids.clone(),
                artifact,
                append: true,
                last_chunk: false,
                metadata: JsonObject::new(),
            }),
            Update::Status(StatusUpdate { ids, status, last: false, metadata: JsonObject::new() }),
        ];
        for dialect in [Dialect::Tagged, Dialect::OldBuffers, Dialect::One] {
            for update in &updates {
                assert_eq!(Update::read(&update.to_json(dialect)).as_ref(), Some(update), "{dialect:?}");
            }
        }
        let one = updates[2].to_json(Dialect::One);
        assert_eq!(one["statusUpdate"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
        assert!(one["statusUpdate"].get("final").is_none());
    }

    #[test]
    fn unknown_events_are_ignored() {
        for value in
            [json!(null), json!([]), json!({"kind": "new"}), json!({}), json!({"kind": "artifact-update"})]
        {
            assert_eq!(Update::read(&value), None, "{value}");
        }
        let bare = json!({"id": "t", "status": {"state": "TASK_STATE_WORKING"}});
        assert_eq!(Update::read(&bare).and_then(|reply| reply.state()), Some(TaskState::Working));
    }
}
