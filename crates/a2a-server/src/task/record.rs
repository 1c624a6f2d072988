//! What is known of a task, and how its updates change that.

use std::path::PathBuf;

use pollux_a2a::protocol::{
    Artifact, Dialect, Ids, Message, Part, PartBody, Role, Status, Task as TaskView, TaskState, Update,
};
use pollux_domain::JsonObject;
use pollux_domain::approval::Outcome;
use pollux_domain::time::{Clock as _, SystemClock};
use serde_json::{Value, json};

use super::history::History;
use super::kept::{MAX_PARTS, keep_end, kept_part, parts_size};
use super::pieces::SessionPieces;

/// Artifacts that are kept.
const MAX_ARTIFACTS: usize = 50;

/// The name that upstream's server stores a workspace under.
pub(crate) const UPSTREAM_ARCHIVE: &str = "workspace.tar.gz";

/// Settings that a client gives with its first message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AgentSettings {
    pub(crate) workspace_path: Option<String>,
    /// Calls that need approval run as if the client approved them.
    pub(crate) auto_execute: bool,
    /// The task is completed with its first turn.
    pub(crate) single_turn: bool,
}

/// A task, as the store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) context: String,
    pub(crate) owner: String,
    pub(crate) state: TaskState,
    /// What the task says about its state.
    pub(crate) said: Option<Message>,
    /// ISO 8601.
    pub(crate) updated: String,
    pub(crate) history: History,
    pub(crate) artifacts: Vec<Artifact>,
    /// Calls that wait for approval: their ids and what was sent about them.
    pub(crate) pending: Vec<(String, Value)>,
    pub(crate) settings: AgentSettings,
    pub(crate) workspace: PathBuf,
    pub(crate) owns_workspace: bool,
    pub(crate) model: String,
    /// The session of the agent.
    pub(crate) session: Option<String>,
    /// The number of the last update.
    pub(crate) last: u64,
    /// The name of the task in the index of its owner.
    pub(crate) indexed: Option<String>,
    /// The archive that the workspace is restored from.
    pub(crate) archive: Option<String>,
    /// The checksum of the archive.
    pub(crate) checksum: Option<String>,
    pub(crate) session_pieces: SessionPieces,
    /// The holder that used the workspace last.
    pub(crate) used: Option<u64>,
    /// Why the workspace was not stored at the last rest point, for the client.
    pub(crate) unstored: Option<String>,
}

impl Record {
    pub(crate) fn new(id: &str, context: &str, owner: &str) -> Self {
        Self {
            id: id.to_owned(),
            context: context.to_owned(),
            owner: owner.to_owned(),
            state: TaskState::Submitted,
            said: None,
            updated: SystemClock.now().to_iso(),
            history: History::default(),
            artifacts: Vec::new(),
            pending: Vec::new(),
            settings: AgentSettings::default(),
            workspace: PathBuf::new(),
            owns_workspace: false,
            model: String::new(),
            session: None,
            last: 0,
            indexed: None,
            archive: None,
            checksum: None,
            session_pieces: SessionPieces::default(),
            used: None,
            unstored: None,
        }
    }

    /// Whether the workspace is still the one that upstream's server stored, with a path of its machine.
    pub(crate) fn is_of_upstream(&self) -> bool {
        self.archive.as_deref() == Some(UPSTREAM_ARCHIVE)
    }

    pub(crate) fn ids(&self) -> Ids {
        Ids { context: Some(self.context.clone()), task: Some(self.id.clone()) }
    }

    /// Takes an update in.
    pub(crate) fn apply(&mut self, update: &Update) {
        match update {
            Update::Status(update) => {
                let status = &update.status;
                self.state = status.state;
                if let Some(time) = &status.timestamp {
                    self.updated.clone_from(time);
                }
                let kind =
                    update.metadata.get("coderAgent").and_then(|it| it.get("kind")).and_then(Value::as_str);
                match (kind, &status.message) {
                    (Some("text-content"), Some(message)) => self.history.append(message),
                    (Some("tool-call-confirmation"), Some(message)) => self.wait_for(message),
                    (Some("tool-call-update"), Some(message)) => self.settle(message),
                    (Some("thought" | "citation"), _) => {}
                    (_, message) => self.said.clone_from(message),
                }
            }
            Update::Artifact(update) => self.keep(&update.artifact, update.append),
            Update::Task(task) => {
                self.state = task.status.state;
                self.history.set_messages(&task.history);
            }
            Update::Message(message) => self.history.append(message),
        }
    }

    fn wait_for(&mut self, message: &Message) {
        for part in &message.parts {
            if let (PartBody::Data(data), Some(call)) = (&part.body, call_of(part))
                && !self.answers_itself(data)
            {
                self.pending.push((call, data.clone()));
            }
        }
    }

    /// Whether the task answers this question without its client. It is then not open, even if the server dies before
    /// it has stored the answer.
    fn answers_itself(&self, asked: &Value) -> bool {
        self.settings.auto_execute && is_offered(Outcome::Once, asked)
    }

    fn settle(&mut self, message: &Message) {
        let calls: Vec<String> = message.parts.iter().filter_map(call_of).collect();
        self.pending.retain(|(call, _)| !calls.contains(call));
    }

    fn keep(&mut self, artifact: &Artifact, append: bool) {
        match self.artifacts.iter_mut().find(|known| known.id == artifact.id) {
            Some(known) if append => {
                for part in &artifact.parts {
                    let has_room = known.parts.len() < MAX_PARTS;
                    match (known.parts.last_mut().map(|last| &mut last.body), &part.body) {
                        (Some(PartBody::Text(text)), PartBody::Text(more)) => {
                            text.push_str(more);
                            keep_end(text);
                        }
                        _ if has_room => known.parts.push(kept_part(part)),
                        _ => {}
                    }
                }
            }
            Some(known) => known.parts = artifact.parts.iter().take(MAX_PARTS).map(kept_part).collect(),
            None => {
                let parts = artifact.parts.iter().take(MAX_PARTS).map(kept_part).collect();
                self.artifacts.push(Artifact { parts, ..artifact.clone() });
                let extra = self.artifacts.len().saturating_sub(MAX_ARTIFACTS);
                self.artifacts.drain(..extra);
            }
        }
    }

    /// Takes what an earlier reading of this task has read from the store besides the record.
    pub(super) fn keep_read(&mut self, earlier: &Self) {
        self.history.keep_read(&earlier.history);
        self.session_pieces.keep_read(&earlier.session_pieces);
    }

    /// The task as clients see it, with so much of its history, as far as that was read.
    pub(crate) fn view(&self, history: Option<usize>, artifacts: bool) -> TaskView {
        TaskView {
            ids: self.ids(),
            status: Status {
                state: self.state,
                message: self.with_warning(self.status_message()),
                timestamp: Some(self.updated.clone()),
            },
            artifacts: if artifacts { self.artifacts.clone() } else { Vec::new() },
            history: self.history.newest(history),
            metadata: JsonObject::new(),
        }
    }

    /// What a client that only asks for the task should read: the open questions, or the last answer.
    fn status_message(&self) -> Option<Message> {
        if !self.pending.is_empty() {
            let parts = self.pending.iter().map(|(_, data)| Part::data(data.clone())).collect();
            return Some(self.agent_message("approval", parts));
        }
        let last = self.history.last().filter(|last| last.role == Role::Agent && self.state.is_over());
        self.said.as_ref().or(last).cloned()
    }

    /// An agent's message about this task.
    fn agent_message(&self, name: &str, parts: Vec<Part>) -> Message {
        Message {
            id: format!("{}-{name}", self.id),
            ids: self.ids(),
            role: Role::Agent,
            parts,
            metadata: JsonObject::new(),
        }
    }

    /// Adds why the workspace was not stored to what a client reads about the state.
    pub(crate) fn with_warning(&self, message: Option<Message>) -> Option<Message> {
        let Some(text) = self.unstored.as_ref().filter(|_| self.state.is_over()) else { return message };
        let mut message = message.unwrap_or_else(|| self.agent_message("warning", Vec::new()));
        message.parts.push(Part::text(text));
        Some(message)
    }

    /// Upstream's form, with everything that it does not have in `_pollux`.
    pub(crate) fn to_json(&self) -> Value {
        let artifacts: Vec<Value> =
            self.artifacts.iter().map(|artifact| artifact.to_json(Dialect::Tagged)).collect();
        let pending: Vec<Value> = self.pending.iter().map(|(call, data)| json!([call, data])).collect();
        let state = self.state.word(Dialect::Tagged);
        let mut value = json!({
            "__persistedState": {
                "_agentSettings": {
                    "kind": "agent-settings",
                    "workspacePath": self.workspace,
                    "autoExecute": self.settings.auto_execute,
                },
                "_taskState": state,
            },
            "_contextId": self.context,
            "_pollux": {
                "id": self.id,
                "owner": self.owner,
                "state": state,
                "said": self.said.as_ref().map(|message| message.to_json(Dialect::Tagged)),
                "updated": self.updated,
                "artifacts": artifacts,
                "pending": pending,
                "workspacePath": self.settings.workspace_path,
                "singleTurn": self.settings.single_turn,
                "ownsWorkspace": self.owns_workspace,
                "model": self.model,
                "session": self.session,
                "rev": self.last,
                "indexed": self.indexed,
                "archive": self.archive,
                "checksum": self.checksum,
                "used": self.used,
                "unstored": self.unstored,
            },
        });
        if let Some(own) = value.get_mut("_pollux").and_then(Value::as_object_mut) {
            self.history.write(own);
            self.session_pieces.write(own);
        }
        value
    }

    /// Reads a record; one that only upstream's server wrote belongs to `owner`.
    pub(crate) fn read(id: &str, value: &Value, owner: &str) -> Option<Self> {
        let persisted = value.get("__persistedState")?;
        let settings = persisted.get("_agentSettings").unwrap_or(&Value::Null);
        let context = value.get("_contextId").and_then(Value::as_str).unwrap_or(id);
        let own = value.get("_pollux").unwrap_or(&Value::Null);
        let text = |key: &str| own.get(key).and_then(Value::as_str).map(str::to_owned);
        let list = |key: &str| own.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let is_set = |value: &Value, key: &str| value.get(key).and_then(Value::as_bool).unwrap_or_default();
        let state = persisted.get("_taskState").and_then(Value::as_str).and_then(TaskState::named);
        let mut record = Self::new(id, context, text("owner").as_deref().unwrap_or(owner));
        record.state = state.unwrap_or(TaskState::InputRequired);
        record.said = own.get("said").filter(|said| said.is_object()).map(Message::read);
        if let Some(updated) = text("updated") {
            record.updated = updated;
        }
        record.history = History::read(own);
        record.artifacts = list("artifacts").iter().map(Artifact::read).collect();
        record.pending = list("pending")
            .iter()
            .filter_map(|pair| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.clone())))
            .collect();
        record.settings = AgentSettings {
            workspace_path: text("workspacePath"),
            auto_execute: is_set(settings, "autoExecute"),
            single_turn: is_set(own, "singleTurn"),
        };
        record.workspace = settings.get("workspacePath").and_then(Value::as_str).unwrap_or_default().into();
        record.owns_workspace = is_set(own, "ownsWorkspace");
        record.model = text("model").unwrap_or_default();
        record.session = text("session");
        record.last = own.get("rev").and_then(Value::as_u64).unwrap_or_default();
        record.indexed = text("indexed");
        // What upstream stored is all that there is of its workspace.
        record.archive = text("archive").or_else(|| own.is_null().then(|| UPSTREAM_ARCHIVE.to_owned()));
        record.checksum = text("checksum");
        record.session_pieces = SessionPieces::read(own);
        record.used = own.get("used").and_then(Value::as_u64);
        record.unstored = text("unstored");
        Some(record)
    }
}

/// The call that a part of upstream's conventions is about.
fn call_of(part: &Part) -> Option<String> {
    let PartBody::Data(data) = &part.body else { return None };
    data.pointer("/request/callId").and_then(Value::as_str).map(str::to_owned)
}

/// Whether a question offers this outcome.
pub(crate) fn is_offered(outcome: Outcome, asked: &Value) -> bool {
    let offered = asked.pointer("/confirmationDetails/outcomes").and_then(Value::as_array);
    offered.is_some_and(|offered| offered.iter().any(|word| word == outcome.as_str()))
}

/// About how much memory an update takes.
pub(super) fn size(update: &Update) -> usize {
    let content = match update {
        Update::Message(message) => parts_size(&message.parts),
        Update::Status(update) => {
            update.status.message.as_ref().map_or(0, |message| parts_size(&message.parts))
        }
        Update::Artifact(update) => parts_size(&update.artifact.parts),
        Update::Task(task) => task.history.iter().map(|message| parts_size(&message.parts)).sum(),
    };
    content + 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_store_and_is_readable_by_upstream() {
        let mut record = Record::new("t", "c", "anna");
        record.state = TaskState::InputRequired;
        record.workspace = "/w/t".into();
        record.settings.auto_execute = true;
        record.history.append(&Message {
            id: "m".into(),
            ids: record.ids(),
            role: Role::User,
            parts: vec![Part::text("hi")],
            metadata: JsonObject::new(),
        });
        record.pending.push(("call".into(), json!({"a": 1})));
        record.history.see("x");
        record.last = 7;
        record.used = Some(3);
        record.unstored = Some("too large".into());
        let json = record.to_json();
        assert_eq!(Record::read("t", &json, "other"), Some(record));
        assert_eq!(json["__persistedState"]["_taskState"], "input-required");
        assert_eq!(json["__persistedState"]["_agentSettings"]["workspacePath"], "/w/t");
    }

    #[test]
    fn a_task_that_executes_by_itself_waits_only_for_what_it_cannot_answer() {
        let asked = |outcome: &str| {
            let question =
                json!({"request": {"callId": "c"}, "confirmationDetails": {"outcomes": [outcome]}});
            Message { role: Role::Agent, ..user("m", vec![Part::data(question)]) }
        };
        for (auto_execute, outcome, waits) in
            [(true, "proceed_once", false), (true, "cancel", true), (false, "proceed_once", true)]
        {
            let mut record = Record::new("t", "c", "anna");
            record.settings.auto_execute = auto_execute;
            record.wait_for(&asked(outcome));
            assert_eq!(!record.pending.is_empty(), waits, "{auto_execute} {outcome}");
        }
    }

    fn user(id: &str, parts: Vec<Part>) -> Message {
        let ids = Ids { context: None, task: None };
        Message { id: id.into(), ids, role: Role::User, parts, metadata: JsonObject::new() }
    }

    #[test]
    fn a_client_reads_that_the_workspace_was_not_stored_next_to_the_answer() {
        let mut record = Record::new("t", "c", "anna");
        record.state = TaskState::InputRequired;
        record.history.append(&Message { role: Role::Agent, ..user("a", vec![Part::text("done")]) });
        record.unstored = Some("too large".into());
        let said = record.view(None, false).status.message.unwrap();
        assert_eq!(said.parts, [Part::text("done"), Part::text("too large")]);
        record.state = TaskState::Working;
        assert_eq!(record.view(None, false).status.message, None);
    }

    #[test]
    fn what_upstream_wrote_is_read() {
        let json = json!({
            "__persistedState": {
                "_agentSettings": {"kind": "agent-settings", "workspacePath": "/p", "isTrusted": true},
                "_taskState": "input-required",
            },
            "_contextId": "ctx",
        });
        let record = Record::read("t", &json, "local").unwrap();
        assert_eq!((record.context.as_str(), record.state), ("ctx", TaskState::InputRequired));
        assert_eq!((record.owner.as_str(), record.archive.as_deref()), ("local", Some(UPSTREAM_ARCHIVE)));
        assert_eq!(Record::read("t", &json!({"_contextId": "ctx"}), "local"), None);
    }
}
