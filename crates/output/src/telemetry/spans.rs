//! Spans: turn → step → call, with the steps of a sub-agent below the call that started it.
//!
//! Names and attributes are those of OpenTelemetry's conventions for generative models. Nothing here touches a network
//! or a clock; texts are only added on request, and cleaned by the caller.

use std::collections::HashMap;

use pollux_domain::JsonObject;
use pollux_domain::event::{
    Activity, ActivityKind, CallOutcome, CallReport, Event, RequestEnded, RequestSent, TurnEnd,
};
use pollux_domain::id::CallId;
use pollux_domain::model::{BuiltInProvider, ModelError, RequestRole};
use pollux_domain::time::Timestamp;
use pollux_domain::tool::Display;
use pollux_otlp::{Span, SpanContext, SpanKind};
use serde_json::{Value, json};

use super::record::Texts;
use crate::stats::millis;

/// Spans that can be open at a time; older ones are forgotten. Abandoned requests never end.
const MAX_OPEN: usize = 256;

/// What a turn's span is called; sub-agents have their own names.
const AGENT: &str = "pollux";

/// The type and message of what was stopped.
const CANCELLED: &str = "cancelled";

/// The spans of a session that are open.
pub(super) struct Spans {
    texts: Texts,
    provider: String,
    conversation: String,
    turn: Option<Turn>,
    steps: Vec<Step>,
    calls: HashMap<CallId, Call>,
    agents: HashMap<CallId, Agent>,
    ended: Vec<Span>,
}

struct Turn {
    context: SpanContext,
    start: Timestamp,
    attributes: JsonObject,
    /// The last request: the calls that follow are its.
    step: Option<SpanContext>,
}

struct Step {
    context: SpanContext,
    parent: Option<SpanContext>,
    start: Timestamp,
    model: String,
    role: RequestRole,
    prompt_id: String,
    subagent: Option<CallId>,
}

struct Call {
    context: SpanContext,
    parent: Option<SpanContext>,
    name: String,
    /// When it began to run, if that is told.
    start: Option<Timestamp>,
}

struct Agent {
    context: SpanContext,
    parent: Option<SpanContext>,
    start: Timestamp,
    name: Option<String>,
    step: Option<SpanContext>,
}

impl Spans {
    pub(super) fn new(texts: Texts, provider: String, conversation: String) -> Self {
        Self {
            texts,
            provider,
            conversation,
            turn: None,
            steps: Vec::new(),
            calls: HashMap::new(),
            agents: HashMap::new(),
            ended: Vec::new(),
        }
    }

    /// The turn under way.
    pub(super) fn context(&self) -> Option<SpanContext> {
        self.turn.as_ref().map(|turn| turn.context)
    }

    /// Takes one event and returns the spans that it ends.
    pub(super) fn event(&mut self, event: &Event, now: Timestamp) -> Vec<Span> {
        match event {
            Event::SessionReady { session, .. } => session.as_str().clone_into(&mut self.conversation),
            Event::PromptAccepted { typed, prompt_id, .. } => self.begin_turn(typed, prompt_id, now),
            Event::RequestSent(sent) => self.begin_step(sent, now),
            Event::RequestEnded(ended) => self.end_step(ended, now),
            Event::CallRequested(request) => {
                let parent = self.turn.as_ref().map(|turn| turn.step.unwrap_or(turn.context));
                self.begin_call(&request.call, &request.name, parent);
            }
            Event::CallStarted { call } => {
                if let Some(open) = self.calls.get_mut(call) {
                    open.start = Some(now);
                }
            }
            Event::CallFinished(report) => self.end_call(report, now),
            Event::Activity(activity) => self.activity(activity, now),
            Event::TurnEnded(end) => self.end_turn(end, now),
            _ => {}
        }
        std::mem::take(&mut self.ended)
    }

    /// The program ends: whatever is open ends with it.
    pub(super) fn finish(&mut self, now: Timestamp) -> Vec<Span> {
        if self.turn.is_some() {
            self.end_turn(&TurnEnd::Cancelled, now);
        }
        std::mem::take(&mut self.ended)
    }

    fn begin_turn(&mut self, typed: &str, prompt_id: &str, now: Timestamp) {
        if self.turn.is_some() {
            return;
        }
        let mut attributes = self.attributes("invoke_agent");
        attributes.insert("gen_ai.agent.name".into(), AGENT.into());
        attributes.insert("pollux.prompt.id".into(), prompt_id.into());
        if self.texts == Texts::Written {
            attributes.insert("gen_ai.input.messages".into(), message("user", typed, None));
        }
        self.turn = Some(Turn { context: SpanContext::root(), start: now, attributes, step: None });
    }

    fn begin_step(&mut self, sent: &RequestSent, now: Timestamp) {
        // A turn that goes on without a prompt, such as one with given results.
        if sent.role == RequestRole::Main {
            self.begin_turn("", &sent.prompt_id, now);
        }
        let parent = match &sent.subagent {
            Some(call) => Some(self.agent(call, None, now).context),
            None => self.context(),
        };
        if self.steps.len() >= MAX_OPEN {
            self.steps.remove(0);
        }
        self.steps.push(Step {
            context: child(parent),
            parent,
            start: now,
            model: sent.model.clone(),
            role: sent.role,
            prompt_id: sent.prompt_id.clone(),
            subagent: sent.subagent.clone(),
        });
    }

    fn end_step(&mut self, ended: &RequestEnded, now: Timestamp) {
        let is_its = |step: &Step| {
            step.prompt_id == ended.prompt_id && step.role == ended.role && step.model == ended.model
        };
        let Some(at) = self.steps.iter().position(is_its) else { return };
        let step = self.steps.remove(at);
        match &step.subagent {
            Some(call) => {
                if let Some(agent) = self.agents.get_mut(call) {
                    agent.step = Some(step.context);
                }
            }
            None if step.role == RequestRole::Main => {
                if let Some(turn) = &mut self.turn {
                    turn.step = Some(step.context);
                }
            }
            None => {}
        }
        let mut attributes = self.step_attributes(&step);
        let answered = ended.model_version.as_deref().unwrap_or(&ended.model);
        let usage = &ended.usage;
        attributes.extend(object(json!({
            "gen_ai.response.model": answered,
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cached,
        })));
        let reason = ended.finish.as_ref().map(|finish| finish.reason.as_str().to_lowercase());
        if let Some(reason) = &reason {
            attributes.insert("gen_ai.response.finish_reasons".into(), json!([reason]));
        }
        if self.texts == Texts::Written && !ended.text.is_empty() {
            let said = message("assistant", &ended.text, reason.as_deref());
            attributes.insert("gen_ai.output.messages".into(), said);
        }
        let error = match (&ended.error, &ended.invalid) {
            (Some(error), _) => {
                if let Some(status) = error.status {
                    attributes.insert("http.response.status_code".into(), status.into());
                }
                attributes.insert("error.type".into(), error_type(error).into());
                Some(error.message.clone())
            }
            (None, Some(invalid)) => {
                attributes.insert("error.type".into(), invalid.as_str().into());
                Some("the reply was unusable".to_owned())
            }
            (None, None) => None,
        };
        self.push_step(step, attributes, now, error);
    }

    fn step_attributes(&self, step: &Step) -> JsonObject {
        let mut attributes = self.attributes("chat");
        let provider = provider_name(&step.model, &self.provider);
        attributes.insert("gen_ai.provider.name".into(), provider.into());
        // The name before version 1.37 of the conventions, which many backends still look for.
        attributes.insert("gen_ai.system".into(), provider.into());
        attributes.insert("gen_ai.request.model".into(), step.model.as_str().into());
        attributes.insert("pollux.request.role".into(), step.role.as_str().into());
        attributes
    }

    fn push_step(&mut self, step: Step, attributes: JsonObject, now: Timestamp, error: Option<String>) {
        self.ended.push(Span {
            context: step.context,
            parent: step.parent,
            name: format!("chat {}", step.model),
            kind: SpanKind::Client,
            start: step.start,
            end: now,
            attributes,
            error,
        });
    }

    fn begin_call(&mut self, call: &CallId, name: &str, parent: Option<SpanContext>) {
        if self.calls.len() < MAX_OPEN {
            let open = Call { context: child(parent), parent, name: name.to_owned(), start: None };
            self.calls.insert(call.clone(), open);
        }
    }

    fn call_attributes(&self, call: &CallId, name: &str) -> JsonObject {
        let mut attributes = self.attributes("execute_tool");
        attributes.insert("gen_ai.tool.name".into(), name.into());
        attributes.insert("gen_ai.tool.call.id".into(), call.as_str().into());
        attributes.insert("gen_ai.tool.type".into(), "function".into());
        attributes
    }

    fn end_call(&mut self, report: &CallReport, now: Timestamp) {
        let took = i64::try_from(millis(report.duration)).unwrap_or_default();
        let start = self.calls.get(&report.call).and_then(|call| call.start);
        let start = start.unwrap_or(Timestamp::from_millis(now.millis() - took));
        if let Display::Agent(end) = &report.display {
            // One that runs elsewhere tells nothing before its end.
            self.agent(&report.call, Some(&end.agent), start);
        }
        let open = self.calls.remove(&report.call).unwrap_or_else(|| {
            let parent = self.context();
            Call { context: child(parent), parent, name: String::new(), start: None }
        });
        // Calls of a group are reported together, after the last of them.
        let end = Timestamp::from_millis(start.millis() + took).min(now);
        // A hook may have had another tool run in its place.
        let mut attributes = self.call_attributes(&report.call, &report.name);
        if let Some(decision) = report.decision {
            attributes.insert("pollux.tool.decision".into(), decision.as_str().into());
        }
        if self.texts == Texts::Written {
            let args = Value::Object(report.args.clone()).to_string();
            attributes.insert("gen_ai.tool.call.arguments".into(), args.into());
            attributes.insert("gen_ai.tool.call.result".into(), report.answer.as_str().into());
        }
        let error = match &report.outcome {
            CallOutcome::Succeeded => None,
            CallOutcome::Failed(failure) => Some((failure.kind.as_str(), failure.message.clone())),
            CallOutcome::Cancelled => Some((CANCELLED, CANCELLED.to_owned())),
        };
        if let Some((kind, _)) = &error {
            attributes.insert("error.type".into(), (*kind).into());
        }
        let error = error.map(|(kind, message)| (kind.to_owned(), message));
        self.end_agent(&report.call, now, error.clone());
        self.ended.push(Span {
            context: open.context,
            parent: open.parent,
            name: format!("execute_tool {}", report.name),
            kind: SpanKind::Internal,
            start,
            end: end.max(start),
            attributes,
            error: error.map(|(_, message)| message),
        });
    }

    fn activity(&mut self, activity: &Activity, now: Timestamp) {
        let agent = self.agent(&activity.call, Some(&activity.agent), now);
        let parent = agent.step.unwrap_or(agent.context);
        match &activity.what {
            ActivityKind::CallStarted { call, name, .. } => self.begin_call(call, name, Some(parent)),
            ActivityKind::CallEnded(report) => self.end_call(report, now),
            ActivityKind::Thought(_) | ActivityKind::Error { .. } => {}
        }
    }

    /// The sub-agent that a call started, opened if it is new.
    fn agent(&mut self, call: &CallId, name: Option<&str>, now: Timestamp) -> &mut Agent {
        let parent = self.calls.get(call).map(|call| call.context).or(self.context());
        let agent = self.agents.entry(call.clone()).or_insert_with(|| Agent {
            context: child(parent),
            parent,
            start: now,
            name: None,
            step: None,
        });
        if let Some(name) = name {
            agent.name.get_or_insert_with(|| name.to_owned());
        }
        agent
    }

    fn end_agent(&mut self, call: &CallId, now: Timestamp, error: Option<(String, String)>) {
        let Some(agent) = self.agents.remove(call) else { return };
        let mut attributes = self.attributes("invoke_agent");
        let name = agent.name.unwrap_or_default();
        attributes.insert("gen_ai.agent.name".into(), name.as_str().into());
        if let Some((kind, _)) = &error {
            attributes.insert("error.type".into(), kind.as_str().into());
        }
        self.ended.push(Span {
            context: agent.context,
            parent: agent.parent,
            name: format!("invoke_agent {name}").trim_end().to_owned(),
            kind: SpanKind::Internal,
            start: agent.start,
            end: now,
            attributes,
            error: error.map(|(_, message)| message),
        });
    }

    fn end_turn(&mut self, end: &TurnEnd, now: Timestamp) {
        let Some(turn) = self.turn.take() else { return };
        // What has no end of its own was stopped with the turn. Titles are generated in traces of their own.
        let (stopped, others): (Vec<Step>, Vec<Step>) = std::mem::take(&mut self.steps)
            .into_iter()
            .partition(|step| step.context.same_trace(turn.context));
        self.steps = others;
        for step in stopped {
            let mut attributes = self.step_attributes(&step);
            attributes.insert("error.type".into(), CANCELLED.into());
            self.push_step(step, attributes, now, Some(CANCELLED.to_owned()));
        }
        for (call, open) in std::mem::take(&mut self.calls) {
            let mut attributes = self.call_attributes(&call, &open.name);
            attributes.insert("error.type".into(), CANCELLED.into());
            self.ended.push(Span {
                context: open.context,
                parent: open.parent,
                name: format!("execute_tool {}", open.name),
                kind: SpanKind::Internal,
                start: open.start.unwrap_or(now),
                end: now,
                attributes,
                error: Some(CANCELLED.to_owned()),
            });
        }
        for call in self.agents.keys().cloned().collect::<Vec<_>>() {
            self.end_agent(&call, now, Some((CANCELLED.to_owned(), CANCELLED.to_owned())));
        }
        let mut attributes = turn.attributes;
        let (word, error) = outcome(end);
        attributes.insert("pollux.turn.end".into(), word.into());
        if error.is_some() {
            let kind = match end {
                TurnEnd::Failed(error) => error_type(error),
                _ => word.to_owned(),
            };
            attributes.insert("error.type".into(), kind.into());
        }
        self.ended.push(Span {
            context: turn.context,
            parent: None,
            name: format!("invoke_agent {AGENT}"),
            kind: SpanKind::Internal,
            start: turn.start,
            end: now,
            attributes,
            error,
        });
    }

    fn attributes(&self, operation: &str) -> JsonObject {
        object(json!({
            "gen_ai.operation.name": operation,
            "gen_ai.conversation.id": self.conversation,
        }))
    }
}

fn child(parent: Option<SpanContext>) -> SpanContext {
    parent.map_or_else(SpanContext::root, SpanContext::sibling)
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

/// One message in the form of the conventions, as a JSON text.
fn message(role: &str, text: &str, finish: Option<&str>) -> Value {
    let parts = [json!({"type": "text", "content": text})];
    let mut message = json!({"role": role, "parts": parts});
    if let (Some(finish), Some(fields)) = (finish, message.as_object_mut()) {
        fields.insert("finish_reason".into(), finish.into());
    }
    json!([message]).to_string().into()
}

/// A short word for a failure: the HTTP status, or its kind.
fn error_type(error: &ModelError) -> String {
    let kind = format!("{:?}", error.kind);
    let word = kind.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    error.status.map_or_else(|| word.to_owned(), |status| status.to_string())
}

/// A word for the end of a turn, and the message of one that failed. A person who stops it is not a failure.
fn outcome(end: &TurnEnd) -> (&'static str, Option<String>) {
    match end {
        TurnEnd::Finished(_) => ("finished", None),
        TurnEnd::Cancelled => ("cancelled", None),
        TurnEnd::TurnLimit => ("turn_limit", Some("reached the step limit".to_owned())),
        TurnEnd::Loop(message) => ("loop", Some(message.clone())),
        TurnEnd::InvalidReply { message, .. } => ("invalid_reply", Some(message.clone())),
        TurnEnd::Overflow { .. } => {
            ("overflow", Some("the request does not fit the context window".to_owned()))
        }
        TurnEnd::Failed(error) => ("failed", Some(error.message.clone())),
        TurnEnd::FatalTool { message, .. } => ("fatal_tool", Some(message.clone())),
    }
}

/// The provider by the names of the conventions; others keep their own.
fn provider_name<'a>(model: &'a str, usual: &'a str) -> &'a str {
    let named = model.split_once('/').map(|(provider, _)| provider);
    let provider = named.filter(|provider| BuiltInProvider::find(provider).is_some()).unwrap_or(usual);
    match provider {
        "gemini" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "azure" => "azure.ai.openai",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        "moonshot" => "moonshot_ai",
        other => other,
    }
}

#[cfg(test)]
mod tests;
