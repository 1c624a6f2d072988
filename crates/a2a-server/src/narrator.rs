//! Events of a session as updates of its task, in upstream's conventions.

mod calls;

use std::collections::HashMap;

use pollux_a2a::protocol::{
    Artifact, ArtifactUpdate, Ids, Message, Part, Role, Status, StatusUpdate, TaskState, Update,
};
use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalRequest;
use pollux_domain::event::{CallReport, CallRequest, Event, TurnEnd};
use pollux_domain::id::CallId;
use pollux_domain::model::{ModelErrorKind, Usage};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_domain::time::{Clock as _, SystemClock};
use serde_json::{Value, json};
use uuid::Uuid;

/// The extension that upstream's conventions are declared as.
pub(crate) const EXTENSION: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

/// Turns events into updates.
pub(crate) struct Narrator {
    ids: Ids,
    model: String,
    /// The id of the message that the model writes.
    message: String,
    prompt_id: String,
    calls: HashMap<CallId, CallRequest>,
    /// The calls of this step were announced.
    has_called: bool,
    usage: Usage,
}

impl Narrator {
    pub(crate) fn new(ids: Ids, model: String) -> Self {
        Self {
            ids,
            model,
            message: Uuid::new_v4().to_string(),
            prompt_id: String::new(),
            calls: HashMap::new(),
            has_called: false,
            usage: Usage::default(),
        }
    }

    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// What the turn has used so far.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// The updates of an event; the end of a turn is told by [`Narrator::ended`].
    pub(crate) fn updates(&mut self, event: &Event) -> Vec<Update> {
        match event {
            Event::SessionReady { model, .. } | Event::ModelChanged(model) => {
                self.model.clone_from(model);
                Vec::new()
            }
            Event::PromptAccepted { prompt_id, .. } => {
                self.prompt_id.clone_from(prompt_id);
                self.usage = Usage::default();
                Vec::new()
            }
            Event::StepBegan { message } => {
                self.message.clone_from(message);
                self.has_called = false;
                vec![self.state(TaskState::Working, None, false)]
            }
            Event::Text(text) => vec![self.say("text-content", vec![Part::text(clean(text))], &self.message)],
            Event::Thought(thought) => {
                let data =
                    json!({"subject": clean(&thought.subject), "description": clean(&thought.description)});
                vec![self.say("thought", vec![Part::data(data)], &new_id())]
            }
            Event::AttemptDiscarded(discarded) if discarded.text_was_shown => {
                self.message = new_id();
                let text = format!("[The reply above is replaced: {}]", clean(&discarded.reason));
                vec![self.say("text-content", vec![Part::text(text)], &new_id())]
            }
            Event::RequestEnded(ended) => {
                self.usage.input += ended.usage.input;
                self.usage.output += ended.usage.output;
                self.usage.cached += ended.usage.cached;
                self.usage.reasoning += ended.usage.reasoning;
                self.usage.total += ended.usage.total;
                Vec::new()
            }
            _ => self.call_updates(event),
        }
    }

    fn call_updates(&mut self, event: &Event) -> Vec<Update> {
        match event {
            Event::CallRequested(request) => {
                self.calls.insert(request.call.clone(), (**request).clone());
                let mut updates = Vec::new();
                if !std::mem::replace(&mut self.has_called, true) {
                    updates.push(self.state(TaskState::Working, None, false));
                }
                updates.push(self.call(request, "scheduled", None));
                updates
            }
            Event::CallStarted { call } => self
                .calls
                .get(call)
                .map(|request| self.call(request, "executing", None))
                .into_iter()
                .collect(),
            Event::CallOutput { call, text } => vec![self.output(call, text)],
            Event::CallFinished(report) => vec![self.finished(report)],
            Event::ApprovalWanted(request) => vec![self.wanted(request)],
            _ => Vec::new(),
        }
    }

    /// The last update of a turn.
    pub(crate) fn ended(&mut self, end: &TurnEnd, is_single: bool) -> Update {
        self.calls.clear();
        let (state, text) = match end {
            TurnEnd::Finished(_) if is_single => (TaskState::Completed, None),
            TurnEnd::Finished(_) => (TaskState::InputRequired, None),
            TurnEnd::Cancelled => (TaskState::InputRequired, Some("Execution aborted by client.".to_owned())),
            TurnEnd::TurnLimit => (TaskState::InputRequired, Some("Turn limit reached.".to_owned())),
            TurnEnd::Loop(what) => {
                (TaskState::InputRequired, Some(format!("The model repeated itself and was stopped: {what}")))
            }
            TurnEnd::Overflow { estimated, remaining } => {
                let text =
                    format!("The prompt needs about {estimated} tokens, but only {remaining} are left.");
                (TaskState::InputRequired, Some(text))
            }
            TurnEnd::InvalidReply { message, .. } | TurnEnd::FatalTool { message, .. } => {
                (TaskState::Failed, Some(message.clone()))
            }
            // Tomorrow, or with a higher limit, the task can go on.
            TurnEnd::Failed(error) if error.kind == ModelErrorKind::BudgetExceeded && !is_single => {
                (TaskState::InputRequired, Some(error.to_string()))
            }
            TurnEnd::Failed(error) => (TaskState::Failed, Some(error.to_string())),
        };
        let mut update = self.status(state, text.as_deref(), true, "state-change");
        let fields = &mut update.metadata;
        if let (TaskState::Failed, Some(text)) = (state, &text) {
            fields.insert("error".to_owned(), json!(clean(text)));
        }
        if matches!(end, TurnEnd::Finished(_)) {
            let usage = self.usage;
            fields.insert(
                "usageMetadata".to_owned(),
                json!({
                    "promptTokenCount": usage.input,
                    "candidatesTokenCount": usage.output,
                    "cachedContentTokenCount": usage.cached,
                    "thoughtsTokenCount": usage.reasoning,
                    "totalTokenCount": usage.total,
                }),
            );
        }
        Update::Status(update)
    }

    /// The task has another state.
    pub(crate) fn state(&self, state: TaskState, text: Option<&str>, last: bool) -> Update {
        Update::Status(self.status(state, text, last, "state-change"))
    }

    fn status(&self, state: TaskState, text: Option<&str>, last: bool, kind: &str) -> StatusUpdate {
        let message = text.map(|text| self.message(vec![Part::text(clean(text))], &new_id()));
        let mut metadata = JsonObject::new();
        metadata.insert("coderAgent".to_owned(), json!({"kind": kind}));
        metadata.insert("model".to_owned(), json!(self.model));
        let status = Status { state, message, timestamp: Some(SystemClock.now().to_iso()) };
        StatusUpdate { ids: self.ids.clone(), status, last, metadata }
    }

    fn message(&self, parts: Vec<Part>, id: &str) -> Message {
        Message {
            id: id.to_owned(),
            ids: self.ids.clone(),
            role: Role::Agent,
            parts,
            metadata: JsonObject::new(),
        }
    }

    fn say(&self, kind: &str, parts: Vec<Part>, id: &str) -> Update {
        let mut update = self.status(TaskState::Working, None, false, kind);
        update.status.message = Some(self.message(parts, id));
        Update::Status(update)
    }

    fn call(&self, request: &CallRequest, status: &str, more: Option<JsonObject>) -> Update {
        let mut data = calls::call(request, status, &self.prompt_id);
        data.extend(more.unwrap_or_default());
        self.say("tool-call-update", vec![Part::data(Value::Object(data))], &new_id())
    }

    fn finished(&mut self, report: &CallReport) -> Update {
        let known = self.calls.remove(&report.call);
        let request = known.unwrap_or_else(|| {
            CallRequest::new(report.call.clone(), report.name.clone(), report.args.clone())
        });
        self.call(&request, report.outcome.status().as_str(), Some(calls::result(report)))
    }

    fn wanted(&self, request: &ApprovalRequest) -> Update {
        let known = self.calls.get(&request.call).cloned();
        let call = known.unwrap_or_else(|| {
            CallRequest::new(request.call.clone(), request.tool.clone(), request.args.clone())
        });
        let mut data = calls::call(&call, "awaiting_approval", &self.prompt_id);
        data.insert("confirmationDetails".to_owned(), calls::confirmation(request));
        self.say("tool-call-confirmation", vec![Part::data(Value::Object(data))], &new_id())
    }

    fn output(&self, call: &CallId, text: &str) -> Update {
        let id = format!("tool-{call}-output");
        Update::Artifact(ArtifactUpdate {
            ids: self.ids.clone(),
            artifact: Artifact { id, name: None, parts: vec![Part::text(clean(text))] },
            append: true,
            last_chunk: false,
            metadata: JsonObject::new(),
        })
    }
}

fn new_id() -> String {
    Uuid::new_v4().to_string()
}

/// Text for clients: no terminal controls, no secrets.
pub(crate) fn clean(text: &str) -> String {
    redacted(&plain(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use pollux_domain::event::Thought;

    fn kinds(updates: &[Update]) -> Vec<String> {
        let kind = |update: &Update| match update {
            Update::Status(update) => {
                let kind = update.metadata["coderAgent"]["kind"].as_str().unwrap();
                let data = update.status.message.as_ref().map(|message| message.parts[0].clone());
                match data.map(|part| part.body) {
                    Some(pollux_a2a::protocol::PartBody::Data(data)) if data.get("status").is_some() => {
                        format!("{kind} {}", data["status"].as_str().unwrap())
                    }
                    _ => format!("{kind} {:?}", update.status.state),
                }
            }
            Update::Artifact(update) => format!("artifact {}", update.artifact.id),
            other => format!("{other:?}"),
        };
        updates.iter().map(kind).collect()
    }

    #[test]
    fn a_turn_is_told_in_upstreams_kinds_and_order() {
        let mut narrator = Narrator::new(Ids::default(), "m".into());
        let call = CallId::new("run_shell_command", "1");
        let request = CallRequest::new(call.clone(), "run_shell_command", JsonObject::new());
        let events = [
            Event::StepBegan { message: "a".into() },
            Event::Thought(Thought { subject: "s".into(), description: "d".into() }),
            Event::Text("hello".into()),
            Event::CallRequested(Arc::new(request)),
            Event::CallStarted { call: call.clone() },
            Event::CallOutput { call, text: "out".into() },
            Event::StepBegan { message: "b".into() },
        ];
        let mut updates: Vec<Update> = events.iter().flat_map(|event| narrator.updates(event)).collect();
        updates.push(narrator.ended(&TurnEnd::Finished(None), false));
        assert_eq!(
            kinds(&updates),
            [
                "state-change Working",
                "thought Working",
                "text-content Working",
                "state-change Working",
                "tool-call-update scheduled",
                "tool-call-update executing",
                "artifact tool-run_shell_command__1-output",
                "state-change Working",
                "state-change InputRequired",
            ]
        );
        let Some(Update::Status(last)) = updates.last() else { panic!() };
        assert!(last.last && last.metadata.contains_key("usageMetadata"));
    }
}
