//! Replies: events of a stream, or whole messages, become the port's chunks.

mod block;
mod grounding;

use std::collections::VecDeque;
use std::sync::Arc;

use pollux_domain::content::{Body, FunctionCall, Part};
use pollux_domain::json::parse_wire;
use pollux_domain::model::{Finish, FinishReason, ModelErrorKind, Refusal, ReplyChunk, ReplyEvent};
use serde_json::{Value, json};

use self::block::{Block, Closed, is_of_other_kind};
use self::grounding::Sources;
use super::usage::Counts;
use crate::http::{Decoder, Failure};
use crate::shared::fault;
use crate::shared::tool_names::ToolNames;

/// How much more of a call's arguments must have come before that is told again.
const PROGRESS_STEP: usize = 1_024;

/// The events that mean something here.
const EVENTS: [&str; 8] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "message",
];

/// Reads one reply.
pub(crate) struct MessagesDecoder {
    names: Arc<ToolNames>,
    /// The server runs on this machine.
    local: bool,
    counts: Counts,
    /// Known since the last chunk and not told yet.
    model: Option<String>,
    counted: bool,
    /// Blocks under way, by their place.
    open: Vec<(u64, Block)>,
    calls: usize,
    /// A call whose arguments cannot be read: the model's mistake, unless the reply turns out to be cut there.
    unreadable: Option<FunctionCall>,
    sources: Sources,
    finished: bool,
    over: bool,
}

impl MessagesDecoder {
    pub(crate) fn new(names: Arc<ToolNames>, local: bool) -> Self {
        Self {
            names,
            local,
            counts: Counts::default(),
            model: None,
            counted: false,
            open: Vec::new(),
            calls: 0,
            unreadable: None,
            sources: Sources::default(),
            finished: false,
            over: false,
        }
    }

    /// A chunk with all that is known and not told yet.
    fn chunk(&mut self, parts: Vec<Part>) -> ReplyChunk {
        ReplyChunk {
            parts,
            usage: std::mem::take(&mut self.counted).then(|| self.counts.usage()),
            model_version: self.model.take(),
            ..ReplyChunk::default()
        }
    }

    fn tell(&mut self, part: Part, events: &mut VecDeque<ReplyEvent>) {
        let chunk = self.chunk(vec![part]);
        events.push_back(ReplyEvent::Chunk(chunk));
    }

    fn start(&mut self, message: &Value) {
        self.model = message.get("model").and_then(Value::as_str).map(str::to_owned);
        self.count(message);
    }

    fn count(&mut self, value: &Value) {
        if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) {
            self.counts.update(usage);
            self.counted = true;
        }
    }

    fn open(&mut self, place: u64, content: Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        if content.get("type").and_then(Value::as_str).is_none() {
            return Err(Failure::malformed("a block of the reply has no type"));
        }
        if self.open.iter().any(|(open, _)| *open == place) {
            return Err(Failure::malformed("a block of the reply begins twice"));
        }
        // More follows, so the reply was not cut at that call.
        self.tell_unreadable(events);
        let block = Block::open(content, self.calls);
        match &block {
            Block::Text(text) if !text.is_empty() => self.tell(Part::text(text.clone()), events),
            Block::Call { name, .. } => {
                self.calls += 1;
                self.progress(self.calls - 1, &self.names.own(name), 0, events);
            }
            _ => {}
        }
        self.open.push((place, block));
        Ok(())
    }

    fn progress(&self, index: usize, name: &str, bytes: usize, events: &mut VecDeque<ReplyEvent>) {
        events.push_back(ReplyEvent::CallProgress { index, name: name.to_owned(), bytes: bytes as u64 });
    }

    fn delta(&mut self, place: u64, delta: &Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        let Some((_, block)) = self.open.iter_mut().find(|(open, _)| *open == place) else {
            let has_piece = delta.get("partial_json").is_some_and(|piece| !piece.is_null());
            let is_of_call = has_piece || self.has_open_call() && !is_of_other_kind(delta);
            let message = "part of a tool call's arguments is outside any content block";
            return if is_of_call { Err(Failure::malformed(message)) } else { Ok(()) };
        };
        if let Some(citation) = delta.get("citation") {
            self.sources.cite(citation);
        }
        let said = block.delta(delta)?;
        if let Block::Call { index, name, json, told, .. } = block
            && json.len() >= *told + PROGRESS_STEP
        {
            *told = json.len();
            let (index, name, bytes) = (*index, self.names.own(name), json.len());
            self.progress(index, &name, bytes, events);
        }
        if let Some(text) = said {
            self.sources.text(&text);
            self.tell(Part::text(text), events);
        }
        Ok(())
    }

    fn has_open_call(&self) -> bool {
        self.open.iter().any(|(_, block)| matches!(block, Block::Call { .. }))
    }

    fn close(&mut self, place: u64, events: &mut VecDeque<ReplyEvent>) {
        let Some(at) = self.open.iter().position(|(open, _)| *open == place) else { return };
        let (_, block) = self.open.remove(at);
        match block.close() {
            Closed::Nothing => self.sources.text_ends(),
            Closed::Part(part) => {
                if let Body::Other(fields) = &part.body {
                    self.sources.look_at(fields);
                }
                self.tell(*part, events);
            }
            Closed::Call(mut call) => {
                call.name = self.names.own(&call.name);
                if call.bad_args.is_some() {
                    self.tell_unreadable(events);
                    self.unreadable = Some(call);
                } else {
                    self.tell(Part::call(call), events);
                }
            }
        }
    }

    fn tell_unreadable(&mut self, events: &mut VecDeque<ReplyEvent>) {
        if let Some(call) = self.unreadable.take() {
            self.tell(Part::call(call), events);
        }
    }

    /// The model stopped.
    fn finish(&mut self, delta: &Value, events: &mut VecDeque<ReplyEvent>) {
        let Some(reason) = delta.get("stop_reason").and_then(Value::as_str).filter(|_| !self.finished) else {
            if self.counted {
                let chunk = self.chunk(Vec::new());
                events.push_back(ReplyEvent::Chunk(chunk));
            }
            return;
        };
        self.finished = true;
        while let Some((place, _)) = self.open.first() {
            let place = *place;
            self.close(place, events);
        }
        let (reason, message) = ending(reason, delta.get("stop_details"));
        if matches!(reason, FinishReason::MaxTokens | FinishReason::ContextWindow) {
            // Cut in the middle of its arguments: not a call at all.
            self.unreadable = None;
        }
        self.tell_unreadable(events);
        let mut chunk = self.chunk(Vec::new());
        chunk.finish = Some(Finish { reason, message });
        (chunk.citations, chunk.grounding) = std::mem::take(&mut self.sources).told();
        events.push_back(ReplyEvent::Chunk(chunk));
    }

    /// The whole message at once.
    fn message(&mut self, mut message: Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        let blocks = match message.get_mut("content").map(Value::take) {
            Some(Value::Array(blocks)) => blocks,
            _ => return Err(Failure::malformed("the reply has no content")),
        };
        self.start(&message);
        for (place, block) in (0..).zip(blocks) {
            for citation in block.get("citations").and_then(Value::as_array).into_iter().flatten() {
                self.sources.cite(citation);
            }
            if let Some(text) = block.get("text").and_then(Value::as_str) {
                self.sources.text(text);
            }
            self.open(place, block, events)?;
            self.close(place, events);
        }
        let ended = match message.get("stop_reason") {
            Some(Value::String(_)) => message,
            _ => json!({"stop_reason": "end_turn"}),
        };
        self.finish(&ended, events);
        self.over = true;
        Ok(())
    }
}

impl Decoder for MessagesDecoder {
    fn event(
        &mut self,
        name: Option<&str>,
        data: &[u8],
        events: &mut VecDeque<ReplyEvent>,
    ) -> Result<(), Failure> {
        let mut value: Value = parse_wire(data).map_err(|error| {
            Failure::malformed(format!("an event of the reply is not valid JSON: {error}"))
        })?;
        if let Some(failure) = fault::in_reply(&value, self.local) {
            return Err(failure);
        }
        // Both say the same; if one of them was damaged, the other one is still known.
        let named = value.get("type").and_then(Value::as_str);
        // The name that events have by default says nothing.
        let said = [named, name.filter(|name| *name != "message" || named.is_none())];
        let known = said.iter().flatten().find(|kind| EVENTS.contains(kind));
        let kind = known.copied().unwrap_or_default().to_owned();
        let place = value.get("index").and_then(Value::as_u64).unwrap_or(0);
        let mut part = |key: &str| value.get_mut(key).map(Value::take).unwrap_or_default();
        match kind.as_str() {
            "message_start" => self.start(&part("message")),
            "content_block_start" => self.open(place, part("content_block"), events)?,
            "content_block_delta" => self.delta(place, &part("delta"), events)?,
            "content_block_stop" => self.close(place, events),
            "message_delta" => {
                self.count(&value);
                self.finish(&value["delta"], events);
            }
            "message_stop" => {
                if !self.finished {
                    self.finish(&json!({"stop_reason": "end_turn"}), events);
                }
                self.over = true;
            }
            "ping" => events.push_back(ReplyEvent::Alive),
            // A gateway that puts the whole reply into one event.
            "message" => self.message(value, events)?,
            _ => {}
        }
        Ok(())
    }

    fn object(&mut self, value: Value, events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        match fault::in_reply(&value, self.local) {
            Some(failure) => Err(failure),
            None => self.message(value, events),
        }
    }

    fn stray(&self, text: &[u8]) -> Option<Failure> {
        serde_json::from_slice(text).ok().as_ref().and_then(|value| fault::in_reply(value, self.local))
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn end(&mut self, _events: &mut VecDeque<ReplyEvent>) -> Result<(), Failure> {
        if self.finished {
            return Ok(());
        }
        let message = "the reply ended before the model finished";
        Err(Failure::for_good(ModelErrorKind::Cut, None, message))
    }
}

fn ending(reason: &str, details: Option<&Value>) -> (FinishReason, Option<String>) {
    let detail = |key: &str| details.and_then(|details| details.get(key)?.as_str()).map(str::to_owned);
    let reason = match reason {
        "end_turn" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "stop_sequence" => FinishReason::StopSequence,
        "max_tokens" => FinishReason::MaxTokens,
        "model_context_window_exceeded" => FinishReason::ContextWindow,
        "pause_turn" => FinishReason::Paused,
        "refusal" => {
            let refusal = Refusal { category: detail("category"), text: detail("explanation") };
            return (FinishReason::Refusal(Box::new(refusal)), detail("explanation"));
        }
        other => FinishReason::Named(other.to_owned()),
    };
    (reason, None)
}
