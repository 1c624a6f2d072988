//! The conversation as messages: one for the text of each reply, one for each call and one for each result.

use pollux_domain::event::{
    CallDecision, CallReport, CallRequest, CompressionStatus, Event, RequestEnded, Thought,
};
use pollux_domain::model::{MicroUsd, RequestRole, Usage};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use serde_json::{Value, json};

use super::partial::Partial;
use super::result::TurnCounts;
use super::words;

/// Turns events into messages.
#[derive(Default)]
pub(crate) struct Transcript {
    pub(crate) partial: Partial,
    pub(crate) counts: TurnCounts,
    /// What the session cost so far, as far as it is known.
    pub(crate) cost: MicroUsd,
    pub(crate) model: String,
    /// The id of the reply that the model writes.
    message: String,
    text: String,
    thinking: String,
    /// Of the last request.
    usage: Usage,
}

impl Transcript {
    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        self.counts = TurnCounts::default();
        self.forget();
    }

    fn forget(&mut self) {
        self.text.clear();
        self.thinking.clear();
    }

    /// The messages of an event, without what all messages have.
    pub(crate) fn event(&mut self, event: &Event) -> Vec<Value> {
        match event {
            Event::StepBegan { message } => {
                self.message.clone_from(message);
                self.forget();
                pieces(self.partial.begin(message, &self.model))
            }
            Event::AttemptDiscarded(discarded) => {
                let began = !self.text.is_empty() || !self.thinking.is_empty();
                self.forget();
                // What was sent of it belongs to a message of its own.
                self.message = format!("{}-{}", self.message, discarded.attempt + 1);
                if began { pieces(self.partial.begin(&self.message, &self.model)) } else { Vec::new() }
            }
            Event::Text(text) => {
                self.text.push_str(text);
                pieces(self.partial.text(text))
            }
            Event::Thought(thought) => {
                let text = spoken(thought);
                self.thinking.push_str(&text);
                pieces(self.partial.thinking(&text))
            }
            Event::StepCommitted => self.reply(),
            Event::RequestEnded(ended) => {
                self.count(ended);
                Vec::new()
            }
            Event::CallRequested(request) => self.call(request),
            Event::CallStarted { .. } => {
                self.counts.in_call = true;
                pieces(self.partial.end(Some("tool_use")))
            }
            Event::CallFinished(report) => self.finished(report),
            Event::Compressed(done) if done.status == CompressionStatus::Compressed => vec![json!({
                "type": "system",
                "subtype": "compact_boundary",
                "compact_metadata": {"trigger": "auto", "pre_tokens": done.tokens_before},
            })],
            Event::TurnEnded(_) => pieces(self.partial.end(Some("end_turn"))),
            _ => Vec::new(),
        }
    }

    fn count(&mut self, ended: &RequestEnded) {
        self.counts.requests += ended.duration;
        self.counts.usage.add(ended.usage);
        self.cost += ended.usage.cost_reported.unwrap_or_default();
        if ended.role == RequestRole::Main {
            self.counts.steps += 1;
            self.usage = ended.usage;
        }
    }

    fn reply(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        if !self.thinking.is_empty() {
            let thinking = std::mem::take(&mut self.thinking);
            messages.push(self.assistant(json!({"type": "thinking", "thinking": thinking, "signature": ""})));
        }
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            messages.push(self.assistant(json!({"type": "text", "text": text})));
            self.counts.text = text;
        }
        messages
    }

    fn assistant(&self, block: Value) -> Value {
        json!({"type": "assistant", "parent_tool_use_id": null, "message": {
            "id": self.message,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [block],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": words::usage(self.usage),
        }})
    }

    fn call(&mut self, request: &CallRequest) -> Vec<Value> {
        let (id, name, input) = (request.call.as_str(), &request.name, Value::Object(request.args.clone()));
        let mut messages = pieces(self.partial.call(id, name, &input));
        messages.push(self.assistant(json!({"type": "tool_use", "id": id, "name": name, "input": input})));
        messages
    }

    fn finished(&mut self, report: &CallReport) -> Vec<Value> {
        self.counts.in_call = false;
        let id = report.call.as_str();
        if report.decision == Some(CallDecision::Reject) {
            let input = Value::Object(report.args.clone());
            self.counts
                .denials
                .push(json!({"tool_name": report.name, "tool_use_id": id, "tool_input": input}));
        }
        let mut messages = pieces(self.partial.end(Some("tool_use")));
        let content = redacted(&plain(&report.answer)).into_owned();
        let is_error = !report.outcome.succeeded();
        let block =
            json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error});
        messages.push(json!({
            "type": "user", "parent_tool_use_id": null, "message": {"role": "user", "content": [block]},
        }));
        messages
    }
}

fn pieces(events: Vec<Value>) -> Vec<Value> {
    let piece = |event| json!({"type": "stream_event", "parent_tool_use_id": null, "event": event});
    events.into_iter().map(piece).collect()
}

fn spoken(thought: &Thought) -> String {
    match thought.subject.is_empty() {
        true => thought.description.clone(),
        false => format!("**{}**\n{}\n", thought.subject, thought.description),
    }
}
