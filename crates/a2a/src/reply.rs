//! Parses the events of an agent in both notations: tagged by `kind`, or by field name.

use serde_json::Value;

/// One event of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Message(Message),
    Task(Task),
    Status { ids: Ids, status: Status, last: bool },
    Artifact { ids: Ids, artifact: Artifact, append: bool },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) context: Option<String>,
    pub(crate) task: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) ids: Ids,
    pub(crate) by: Author,
    pub(crate) text: String,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    User,
    Agent,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Task {
    pub(crate) ids: Ids,
    pub(crate) status: Status,
    pub(crate) artifacts: Vec<Artifact>,
    pub(crate) history: Vec<Message>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Status {
    pub(crate) state: TaskState,
    pub(crate) message: Option<Message>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Artifact {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) text: String,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskState {
    /// Submitted, working, or an unknown state.
    Working,
    Completed,
    Failed,
    Canceled,
    Rejected,
    /// The agent waits for an answer to its question.
    InputRequired,
    AuthRequired,
}

impl TaskState {
    /// Whether the task has ended.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// The agent waits for us, or is done.
    pub(crate) fn is_over(self) -> bool {
        self != Self::Working
    }

    fn read(value: Option<&Value>) -> Self {
        let word = value.and_then(Value::as_str).unwrap_or_default();
        let word = word.strip_prefix("TASK_STATE_").unwrap_or(word).to_ascii_lowercase().replace('_', "-");
        match word.as_str() {
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "canceled" | "cancelled" => Self::Canceled,
            "rejected" => Self::Rejected,
            "input-required" => Self::InputRequired,
            "auth-required" => Self::AuthRequired,
            _ => Self::Working,
        }
    }
}

impl Reply {
    /// Parses one event; `None` for unknown ones.
    pub(crate) fn read(value: &Value) -> Option<Self> {
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

    /// The ids to remember for the next message.
    pub(crate) fn ids(&self) -> &Ids {
        match self {
            Self::Message(message) => &message.ids,
            Self::Task(task) => &task.ids,
            Self::Status { ids, .. } | Self::Artifact { ids, .. } => ids,
        }
    }

    /// The state of the task, if the event contains it.
    pub(crate) fn state(&self) -> Option<TaskState> {
        match self {
            Self::Task(task) => Some(task.status.state),
            Self::Status { status, .. } => Some(status.state),
            Self::Message(_) | Self::Artifact { .. } => None,
        }
    }

    /// Whether nothing of worth can follow.
    pub(crate) fn is_last(&self) -> bool {
        match self {
            Self::Message(_) => true,
            Self::Task(task) => task.status.state.is_over(),
            Self::Status { status, last, .. } => *last || status.state.is_over(),
            Self::Artifact { .. } => false,
        }
    }
}

fn status_update(value: &Value) -> Reply {
    let last = value.get("final").and_then(Value::as_bool).unwrap_or_default();
    Reply::Status { ids: Ids::read(value, "taskId"), status: Status::read(value.get("status")), last }
}

fn artifact_update(value: &Value) -> Option<Reply> {
    let append = value.get("append").and_then(Value::as_bool).unwrap_or_default();
    let artifact = Artifact::read(value.get("artifact")?);
    Some(Reply::Artifact { ids: Ids::read(value, "taskId"), artifact, append })
}

impl Ids {
    fn read(value: &Value, task: &str) -> Self {
        let text = |key: &str| {
            value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        Self { context: text("contextId"), task: text(task) }
    }
}

impl Message {
    fn read(value: &Value) -> Self {
        let role = value.get("role").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        let by = if role.contains("user") { Author::User } else { Author::Agent };
        let parts = value.get("parts").or_else(|| value.get("content"));
        Self { ids: Ids::read(value, "taskId"), by, text: text_of(parts) }
    }
}

impl Task {
    fn read(value: &Value) -> Self {
        let list = |key: &str| value.get(key).and_then(Value::as_array).into_iter().flatten();
        Self {
            ids: Ids::read(value, "id"),
            status: Status::read(value.get("status")),
            artifacts: list("artifacts").map(Artifact::read).collect(),
            history: list("history").map(Message::read).collect(),
        }
    }
}

impl Status {
    fn read(value: Option<&Value>) -> Self {
        let get = |key: &str| value.and_then(|value| value.get(key));
        let message = get("message").or_else(|| get("update")).filter(|message| message.is_object());
        Self { state: TaskState::read(get("state")), message: message.map(Message::read) }
    }
}

impl Artifact {
    fn read(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        Self {
            id: text("artifactId").unwrap_or_default().to_owned(),
            name: text("name").filter(|name| !name.is_empty()).map(str::to_owned),
            text: text_of(value.get("parts")),
        }
    }
}

fn text_of(parts: Option<&Value>) -> String {
    parts.and_then(Value::as_array).into_iter().flatten().filter_map(part).collect()
}

/// A part as text; upstream's format.
fn part(part: &Value) -> Option<String> {
    if let Some(text) = part.get("text").and_then(Value::as_str) {
        return Some(text.to_owned());
    }
    if let Some(file) = part.get("file") {
        let named =
            ["name", "uri", "fileWithUri"].iter().find_map(|key| file.get(key).and_then(Value::as_str));
        return Some(format!(
            "File: {}",
            named.filter(|name| !name.is_empty()).unwrap_or("[binary/unnamed]")
        ));
    }
    let data = part.get("data")?;
    // The other spelling wraps it once more.
    let data = if part.get("kind").is_none() { data.get("data").unwrap_or(data) } else { data };
    Some(format!("Data: {data}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_protocol_versions_parse_alike() {
        let tagged = json!({"kind": "status-update", "taskId": "t", "contextId": "c", "final": true, "status":
            {"state": "completed", "message": {"role": "agent", "parts": [{"kind": "text", "text": "done"}]}}});
        let held = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "final": true, "status":
            {"state": "TASK_STATE_COMPLETED", "update": {"role": "ROLE_AGENT", "content": [{"text": "done"}]}}}});
        assert_eq!(Reply::read(&tagged), Reply::read(&held));
        let reply = Reply::read(&tagged).unwrap();
        assert_eq!(reply.state(), Some(TaskState::Completed));
        assert!(reply.is_last());
        assert_eq!(reply.ids(), &Ids { context: Some("c".into()), task: Some("t".into()) });
    }

    #[test]
    fn message_parts_become_text() {
        let message = json!({"kind": "message", "role": "agent", "parts": [
            {"kind": "text", "text": "a "}, {"kind": "data", "data": {"n": 1}}, {"kind": "file", "file": {"uri": "u"}},
            {"kind": "file", "file": {"bytes": "AA=="}}, {"kind": "new"}, 3,
        ]});
        let Some(Reply::Message(message)) = Reply::read(&message) else { panic!("a message") };
        assert_eq!(message.text, "a Data: {\"n\":1}File: uFile: [binary/unnamed]");
    }

    #[test]
    fn unknown_events_are_ignored() {
        for value in
            [json!(null), json!([]), json!({"kind": "new"}), json!({}), json!({"kind": "artifact-update"})]
        {
            assert_eq!(Reply::read(&value), None, "{value}");
        }
        let bare = json!({"id": "t", "status": {"state": "TASK_STATE_WORKING"}});
        assert_eq!(Reply::read(&bare).and_then(|reply| reply.state()), Some(TaskState::Working));
    }
}
