//! The events of a streamed reply.

use std::collections::VecDeque;
use std::sync::Arc;

use pollux_domain::content::{Body, Part};
use pollux_domain::json::parse_wire;
use pollux_domain::model::{
    Finish, FinishReason, ModelErrorKind, Origin, Refusal, ReplyChunk, ReplyEvent, Usage,
};
use serde_json::Value;

use super::input::phases_word;
use super::items::{Items, Key};
use super::values::{count, text};
use crate::http::{Decoder, Failure};
use crate::shared::fault;
use crate::shared::tool_names::ToolNames;

/// No reply says more than this.
const MAX_REPLY_BYTES: usize = 64 * 1024 * 1024;

/// Reads one reply.
pub(crate) struct ResponsesDecoder {
    /// Who answers, as far as that is known before the answer.
    origin: Arc<Origin>,
    names: Arc<ToolNames>,
    /// The server runs on this machine or next to it.
    local: bool,
    items: Items,
    response_id: Option<String>,
    model_version: Option<String>,
    /// The reply is complete; whatever follows is not part of it.
    ended: bool,
    taken: usize,
}

impl Decoder for ResponsesDecoder {
    fn event(
        &mut self,
        name: Option<&str>,
        data: &[u8],
        events: &mut VecDeque<ReplyEvent>,
    ) -> Result<(), Failure> {
        if self.ended {
            return Ok(());
        }
        self.taken = self.taken.saturating_add(data.len());
        let event: Value = parse_wire(data).map_err(|error| {
            Failure::malformed(format!("an event of the reply is not valid JSON: {error}"))
        })?;
        let kind = text(&event, "type").or(name).unwrap_or_default().to_owned();
        self.read(&kind, event, events)
    }

    fn object(&mut self, value: Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        if let Some(kind) = text(&value, "type").map(str::to_owned) {
            return self.read(&kind, value, events);
        }
        events.push_back(ReplyEvent::Chunk(self.whole(value)?));
        Ok(())
    }

    fn stray(&self, text: &[u8]) -> Option<Failure> {
        let value: Value = serde_json::from_slice(text).ok()?;
        fault::in_reply(&value, self.local)
    }

    fn is_over(&self) -> bool {
        self.ended
    }

    fn end(&mut self, _events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        if self.ended {
            return Ok(());
        }
        let message = "the reply ended before the model finished";
        // As on every wire, the caller asks again: it may have shown some of it.
        Err(Failure::for_good(ModelErrorKind::Cut, None, message))
    }
}

impl ResponsesDecoder {
    pub(crate) fn new(origin: Arc<Origin>, names: Arc<ToolNames>, local: bool) -> Self {
        Self {
            origin,
            names,
            local,
            items: Items::default(),
            response_id: None,
            model_version: None,
            ended: false,
            taken: 0,
        }
    }

    fn read(
        &mut self,
        kind: &str,
        mut event: Value,
        events: &mut VecDeque<ReplyEvent>,
    ) -> Result<(), Failure> {
        let mut parts = Vec::new();
        let delta = || text(&event, "delta").unwrap_or_default();
        let place = |key: &str| count(&event, key);
        match kind {
            "response.created" | "response.queued" | "response.in_progress" => {
                self.note(event.get("response"));
                events.push_back(ReplyEvent::Alive);
            }
            "response.output_item.added" => {
                let key = Key::of_event(&event);
                self.items.open(key, event.get("item").unwrap_or(&Value::Null));
            }
            "response.output_text.delta" => self.items.say(Key::of_event(&event), delta(), &mut parts),
            "response.output_text.annotation.added" => {
                self.items.cite(event.get("annotation").unwrap_or(&Value::Null));
            }
            "response.reasoning_summary_text.delta" => {
                self.items.think(Key::of_event(&event), place("summary_index"), delta());
                events.push_back(ReplyEvent::Alive);
            }
            "response.reasoning_text.delta" => {
                self.items.think(Key::of_event(&event), place("content_index"), delta());
                events.push_back(ReplyEvent::Alive);
            }
            "response.reasoning_summary_text.done" => {
                let (key, place) = (Key::of_event(&event), place("summary_index"));
                self.items.thought(key, place, text(&event, "text"), true, &mut parts);
            }
            "response.reasoning_text.done" => {
                let (key, place) = (Key::of_event(&event), place("content_index"));
                self.items.thought(key, place, text(&event, "text"), false, &mut parts);
            }
            "response.function_call_arguments.delta" => {
                let (index, name, bytes) = self.items.argue(Key::of_event(&event), delta());
                events.push_back(ReplyEvent::CallProgress { index, name: self.names.own(&name), bytes });
            }
            "response.output_item.done" => {
                let item = event.get_mut("item").map(Value::take).unwrap_or_default();
                let id = text(&item, "id").map(str::to_owned);
                let key = Key { id: id.as_deref(), ..Key::of_event(&event) };
                self.items.done(key, item, &mut parts);
            }
            "response.completed" | "response.done" | "response.incomplete" | "response.failed" => {
                let response = event.get_mut("response").map(Value::take).unwrap_or_default();
                let chunk = self.ending(kind, response)?;
                events.push_back(ReplyEvent::Chunk(chunk));
            }
            "error" => return Err(self.failed(&event)),
            tool if is_server_work(tool) => events.push_back(ReplyEvent::Alive),
            _ => {
                if let Some(failure) = fault::in_reply(&event, self.local) {
                    return Err(failure);
                }
            }
        }
        if !parts.is_empty() {
            let parts = self.renamed(parts);
            let origin = Some(Arc::clone(&self.origin));
            events.push_back(ReplyEvent::Chunk(ReplyChunk { parts, origin, ..ReplyChunk::default() }));
        }
        if self.taken > MAX_REPLY_BYTES && !self.ended {
            return Err(Failure::malformed("the reply is longer than 64 MiB"));
        }
        Ok(())
    }

    /// A reply that came as one object.
    pub(super) fn whole(&mut self, response: Value) -> Result<ReplyChunk, Failure> {
        if let Some(failure) = fault::in_reply(&response, self.local) {
            return Err(failure);
        }
        match text(&response, "status") {
            Some("failed" | "cancelled") => self.ending("response.failed", response),
            Some("incomplete") => self.ending("response.incomplete", response),
            _ if response.get("output").is_some() => self.ending("response.completed", response),
            _ => Err(Failure::malformed("the response contains no reply")),
        }
    }

    fn ending(&mut self, kind: &str, mut response: Value) -> Result<ReplyChunk, Failure> {
        self.note(Some(&response));
        if kind == "response.failed" {
            return Err(self.failed(&response));
        }
        self.ended = true;
        let output = match response.get_mut("output").map(Value::take) {
            Some(Value::Array(output)) => output,
            _ => Vec::new(),
        };
        let incomplete = kind == "response.incomplete" || text(&response, "status") == Some("incomplete");
        let mut parts = Vec::new();
        self.items.finish(output, !incomplete, &mut parts);
        let citations = self.items.citations();
        let gathered = &mut self.items.gathered;
        let reason = match response.get("incomplete_details").filter(|_| incomplete) {
            Some(details) => stopped(text(details, "reason").unwrap_or_default()),
            None if incomplete => FinishReason::MaxTokens,
            None => finished(gathered.refusal.take(), gathered.any_call),
        };
        let usage = response.get("usage").filter(|usage| usage.is_object()).map(usage);
        let server_tool_calls = gathered.server_tool_calls;
        let grounding = std::mem::take(&mut gathered.annotated.grounding);
        Ok(ReplyChunk {
            parts: self.renamed(parts),
            finish: Some(Finish { reason, message: None }),
            origin: Some(Arc::new(self.origin())),
            usage: usage.map(|usage| Usage { server_tool_calls, ..usage }),
            model_version: self.model_version.clone(),
            blocked: None,
            citations,
            grounding: (!grounding.sources.is_empty()).then(|| Box::new(grounding)),
        })
    }

    fn failed(&self, said: &Value) -> Failure {
        let failure = fault::in_reply(said, self.local);
        failure
            .unwrap_or_else(|| Failure::passing(ModelErrorKind::Server, "the reply failed without a reason"))
    }

    fn note(&mut self, response: Option<&Value>) {
        let Some(response) = response else { return };
        let taken = |key: &str| text(response, key).map(str::to_owned);
        self.response_id = taken("id").or_else(|| self.response_id.take());
        self.model_version = taken("model").or_else(|| self.model_version.take());
    }

    /// Where the whole reply comes from.
    fn origin(&self) -> Origin {
        Origin {
            response_id: self.response_id.clone(),
            phase: phases_word(&self.items.gathered.phases),
            ..Origin::clone(&self.origin)
        }
    }

    /// The parts with the program's own names of its tools.
    fn renamed(&self, mut parts: Vec<Part>) -> Vec<Part> {
        for part in &mut parts {
            if let Body::Call(call) = &mut part.body {
                call.name = self.names.own(&call.name);
            }
        }
        parts
    }
}

/// Why a server stopped a reply.
fn stopped(reason: &str) -> FinishReason {
    match reason {
        "max_output_tokens" => FinishReason::MaxTokens,
        "content_filter" => FinishReason::ContentFilter,
        "steered" | "max_messages" => FinishReason::Paused,
        "" => FinishReason::Unspecified,
        other => FinishReason::Named(other.to_ascii_uppercase()),
    }
}

fn finished(refusal: Option<String>, any_call: bool) -> FinishReason {
    match refusal {
        Some(refused) => {
            let text = (!refused.is_empty()).then_some(refused);
            FinishReason::Refusal(Box::new(Refusal { category: None, text }))
        }
        None if any_call => FinishReason::ToolCalls,
        None => FinishReason::Stop,
    }
}

/// A tool that runs at the provider, or the provider tidying up.
fn is_server_work(kind: &str) -> bool {
    let work = kind.strip_prefix("response.").unwrap_or_default();
    work.contains("_call.") || work.starts_with("compaction.") || work.starts_with("mcp_list_tools.")
}

/// Reasoning is counted within the output, and what is written into the cache within the input.
fn usage(usage: &Value) -> Usage {
    let nothing = Value::Null;
    let details = |key: &str| usage.get(key).unwrap_or(&nothing);
    let (read, written) = (details("input_tokens_details"), details("output_tokens_details"));
    let (input, output) = (count(usage, "input_tokens"), count(usage, "output_tokens"));
    let reasoning = count(written, "reasoning_tokens").min(output);
    let stored = count(read, "cache_write_tokens");
    let long = read.get("cache_write_tokens_details").map_or(0, |split| count(split, "ttl_12h_tokens"));
    Usage {
        input,
        output: output.saturating_sub(reasoning),
        cached: count(read, "cached_tokens"),
        cache_write_short: stored.saturating_sub(long),
        cache_write_long: long.min(stored),
        reasoning,
        total: input.saturating_add(output),
        ..Usage::default()
    }
}
