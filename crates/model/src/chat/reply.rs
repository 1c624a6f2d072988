//! Replies of this dialect, as many servers write them.

use std::collections::VecDeque;
use std::sync::Arc;

use pollux_domain::content::{Body, Part};
use pollux_domain::json::parse_wire;
use pollux_domain::model::{
    Finish, FinishReason, ModelError, ModelErrorKind, Refusal, ReplyChunk, ReplyEvent, Usage,
};
use pollux_domain::tool::ToolSpec;
use serde_json::Value;

use super::calls::{Calls, lost_piece};
use super::quirks::Echo;
use super::reasoning::{Reasoning, ThinkTags};
use super::usage;
use crate::http::{Decoder, Failure, Retry};
use crate::shared::fault;
use crate::shared::schema;
use crate::shared::tool_names::ToolNames;

/// Reads one reply.
pub(crate) struct ChatDecoder {
    names: ToolNames,
    /// The server runs on this machine or next to it.
    local: bool,
    /// Tools that were declared strictly: the model had to write a null for each property that it left out.
    strict: Option<Arc<[Arc<ToolSpec>]>>,
    calls: Calls,
    reasoning: Reasoning,
    tags: ThinkTags,
    refusal: String,
    model: Option<String>,
    /// The last counts that came.
    usage: Option<Usage>,
    usage_told: bool,
    /// About how many tokens the request had, for servers that do not count.
    asked: u64,
    /// How much of the reply has come.
    bytes: u64,
    finished: bool,
    /// The last word about the end was an empty one.
    blank_finish: bool,
    done: bool,
    /// Counts came on their own, which is the last thing that comes.
    counted: bool,
}

impl ChatDecoder {
    /// `asked` is about how many tokens the request had.
    pub(crate) fn new(names: ToolNames, echo: Echo, think_tags: bool, asked: u64) -> Self {
        Self {
            names,
            local: false,
            strict: None,
            calls: Calls::default(),
            reasoning: Reasoning::new(echo),
            tags: ThinkTags::new(think_tags),
            refusal: String::new(),
            model: None,
            usage: None,
            usage_told: false,
            asked,
            bytes: 0,
            finished: false,
            blank_finish: false,
            done: false,
            counted: false,
        }
    }

    /// The same for a certain server, and for tools that were declared strictly.
    pub(super) fn on_server(mut self, local: bool, strict: Option<Arc<[Arc<ToolSpec>]>>) -> Self {
        (self.local, self.strict) = (local, strict);
        self
    }

    /// The calls that were not told yet.
    fn take_calls(&mut self, cut: bool) -> Vec<Part> {
        let mut parts = self.calls.take(&self.names, cut);
        for part in &mut parts {
            let (Body::Call(call), Some(tools)) = (&mut part.body, &self.strict) else { continue };
            if let Some(tool) = tools.iter().find(|tool| tool.name == call.name) {
                schema::without_nulls(&mut call.args, &tool.parameters);
            }
        }
        parts
    }

    fn read(&mut self, value: &Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        if let Some(failure) = fault::in_reply(value, self.local) {
            return Err(failure);
        }
        let choices = value.get("choices").and_then(Value::as_array);
        let choice = choices.and_then(|choices| {
            choices.iter().find(|choice| choice.get("index").is_none_or(|index| index == 0))
        });
        let counts = [
            value.get("usage"),
            value.get("x_groq").and_then(|groq| groq.get("usage")),
            choice.and_then(|choice| choice.get("usage")),
        ];
        if let Some(usage) = counts.into_iter().flatten().find_map(usage::read) {
            self.usage = Some(usage);
            self.counted |= self.finished && choice.is_none();
        }
        if self.model.is_none() {
            self.model = value.get("model").and_then(Value::as_str).map(str::to_owned);
        }
        match choice {
            Some(choice) => self.read_choice(choice, events)?,
            // A piece of a call whose choice cannot be found; others, such as counts, come without one.
            None if mentions_call(value) && self.calls.under_way() => {
                return Err(lost_piece());
            }
            None => {}
        }
        // Counts after the end are told at once; before it they rise with every piece.
        if self.finished {
            self.tell_usage(events);
        }
        Ok(())
    }

    fn read_choice(&mut self, choice: &Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        let mut parts = Vec::new();
        let none = Value::Null;
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&none);
        if !is_known(delta)
            && choice.get("finish_reason").is_none_or(Value::is_null)
            && mentions_call(choice)
            && self.calls.under_way()
        {
            return Err(lost_piece());
        }
        self.read_reasoning(delta, &mut parts);
        if let Some(content) = delta.get("content") {
            self.read_content(content, &mut parts);
        }
        if let Some(text) = delta.get("refusal").and_then(Value::as_str) {
            self.bytes += text.len() as u64;
            self.refusal.push_str(text);
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        for call in calls.chain(delta.get("function_call").filter(|call| call.is_object())) {
            self.reasoning.pause(&mut parts);
            events.extend(self.calls.delta(call)?);
            self.bytes += 4;
        }
        match choice.get("finish_reason").and_then(Value::as_str) {
            None => self.tell(parts, events),
            Some("") => {
                self.blank_finish = true;
                self.tell(parts, events);
            }
            Some(word) if !self.finished => self.finish(word, parts, events)?,
            Some(_) => self.tell(parts, events),
        }
        Ok(())
    }

    fn read_reasoning(&mut self, delta: &Value, parts: &mut Vec<Part>) {
        let text = |key: &str| delta.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let spoken = text("reasoning_content").or_else(|| text("reasoning"));
        let details = delta.get("reasoning_details").and_then(Value::as_array);
        for detail in details.into_iter().flatten() {
            self.reasoning.detail(detail);
            let said = ["text", "summary"].iter().find_map(|key| detail.get(*key)?.as_str());
            if let (None, Some(said)) = (spoken, said) {
                self.think(said, parts);
            }
        }
        if let Some(spoken) = spoken {
            self.think(spoken, parts);
        }
    }

    fn think(&mut self, text: &str, parts: &mut Vec<Part>) {
        self.bytes += text.len() as u64;
        self.reasoning.push(text, parts);
    }

    /// A text, or a list of texts and reasoning.
    fn read_content(&mut self, content: &Value, parts: &mut Vec<Part>) {
        match content {
            Value::String(text) => self.speak(text, parts),
            Value::Array(pieces) => {
                for piece in pieces {
                    match piece.get("thinking") {
                        Some(Value::String(text)) => self.think(text, parts),
                        Some(Value::Array(inner)) => {
                            for text in inner.iter().filter_map(|inner| inner.get("text")?.as_str()) {
                                self.think(text, parts);
                            }
                        }
                        _ => {
                            let text = piece.get("text").or(Some(piece)).and_then(Value::as_str);
                            self.speak(text.unwrap_or_default(), parts);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn speak(&mut self, text: &str, parts: &mut Vec<Part>) {
        if text.is_empty() {
            return;
        }
        self.bytes += text.len() as u64;
        let said = self.tags.push(text);
        self.say(said, parts);
    }

    fn say(&mut self, said: super::reasoning::Said, parts: &mut Vec<Part>) {
        if !said.reasoning.is_empty() {
            self.reasoning.push(&said.reasoning, parts);
        }
        if !said.text.is_empty() {
            self.reasoning.pause(parts);
            parts.push(Part::text(said.text));
        }
    }

    fn tell(&self, parts: Vec<Part>, events: &mut VecDeque<ReplyEvent>) {
        if !parts.is_empty() {
            events.push_back(ReplyEvent::Chunk(ReplyChunk { parts, ..ReplyChunk::default() }));
        }
    }

    /// The model has said why it stopped. Its calls decide what that means, not the word alone.
    fn finish(
        &mut self,
        word: &str,
        mut parts: Vec<Part>,
        events: &mut VecDeque<ReplyEvent>,
    ) -> Result<(), Failure> {
        let reason = match word {
            "length" | "max_tokens" | "model_length" => FinishReason::MaxTokens,
            "model_context_window_exceeded" => FinishReason::ContextWindow,
            "content_filter" | "sensitive" => FinishReason::ContentFilter,
            "stop" | "eos" | "eos_token" | "end_turn" | "tool_calls" | "tool_call" | "function_call"
            | "tool_use" => FinishReason::Stop,
            "stop_sequence" => FinishReason::StopSequence,
            "insufficient_system_resource" => {
                return Err(Failure::passing(ModelErrorKind::Overloaded, "the server ran out of resources"));
            }
            "error" => {
                return Err(Failure::passing(
                    ModelErrorKind::Server,
                    "the server stopped the reply with an error",
                ));
            }
            other => FinishReason::Named(other.to_owned()),
        };
        self.finished = true;
        let held = self.tags.end();
        self.say(held, &mut parts);
        self.reasoning.end(&mut parts);
        let calls = self.take_calls(reason == FinishReason::MaxTokens);
        let reason = match reason {
            _ if !self.refusal.is_empty() => {
                let text = Some(std::mem::take(&mut self.refusal));
                FinishReason::Refusal(Box::new(Refusal { category: None, text }))
            }
            FinishReason::Stop if !calls.is_empty() => FinishReason::ToolCalls,
            reason => reason,
        };
        parts.extend(calls);
        let finish = Some(Finish { reason, message: None });
        let model_version = self.model.clone();
        events.push_back(ReplyEvent::Chunk(ReplyChunk {
            parts,
            finish,
            model_version,
            ..ReplyChunk::default()
        }));
        Ok(())
    }

    fn tell_usage(&mut self, events: &mut VecDeque<ReplyEvent>) {
        if let Some(usage) = self.usage.take() {
            self.usage_told = true;
            events.push_back(ReplyEvent::Chunk(ReplyChunk { usage: Some(usage), ..ReplyChunk::default() }));
        }
    }

    /// Counts of our own, where the server has none.
    fn estimate(&self) -> Usage {
        let output = self.bytes.div_ceil(4);
        let (input, total) = (self.asked, self.asked + output);
        Usage { input, output, total, estimated: true, ..Usage::default() }
    }
}

/// Whether something in it may be a piece of a call: a damaged name leaves the others. Servers add chunks of their own,
/// such as the results of content filters.
fn mentions_call(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            matches!(name.as_str(), "tool_calls" | "function_call" | "function" | "arguments")
                || mentions_call(value)
        }),
        Value::Array(values) => values.iter().any(mentions_call),
        _ => false,
    }
}

/// Whether a delta says something that is understood, or nothing.
fn is_known(delta: &Value) -> bool {
    const FIELDS: [&str; 8] = [
        "role",
        "content",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "refusal",
        "tool_calls",
        "function_call",
    ];
    let fields = delta.as_object();
    fields.is_some_and(|fields| fields.is_empty() || fields.keys().any(|key| FIELDS.contains(&key.as_str())))
}

impl Decoder for ChatDecoder {
    fn event(
        &mut self,
        _name: Option<&str>,
        data: &[u8],
        events: &mut VecDeque<ReplyEvent>,
    ) -> Result<(), Failure> {
        let value: Value = parse_wire(data).map_err(|error| {
            Failure::malformed(format!("an event of the reply is not valid JSON: {error}"))
        })?;
        self.read(&value, events)
    }

    fn object(&mut self, value: Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        self.read(&value, events)?;
        // A whole reply may leave out why it ended.
        self.done = true;
        self.blank_finish |= value.get("choices").is_some();
        Ok(())
    }

    fn stray(&self, text: &[u8]) -> Option<Failure> {
        let value: Value = serde_json::from_slice(text).ok()?;
        fault::in_reply(&value, self.local)
    }

    fn done(&mut self) {
        self.done = true;
    }

    fn is_over(&self) -> bool {
        self.done || self.counted
    }

    fn end(&mut self, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        if !self.finished {
            let whole = self.done && (self.blank_finish || self.calls.any_ever() && self.calls.can_be_read());
            if !whole {
                let message = "the reply ended before the model finished";
                let error = ModelError::new(ModelErrorKind::Cut, None, message);
                return Err(Failure::new(error, Retry::Never));
            }
            self.finish("stop", Vec::new(), events)?;
        }
        if self.calls.any() {
            let parts = self.take_calls(true);
            self.tell(parts, events);
        }
        self.tell_usage(events);
        if !self.usage_told {
            self.usage = Some(self.estimate());
            self.tell_usage(events);
        }
        Ok(())
    }
}
