//! What the server answers.

use std::time::Duration;

use serde_json::{Value, json};

/// A scripted reply; build it with [`MessagesReply::new`] or [`MessagesReply::error`].
#[derive(Debug, Clone)]
pub struct MessagesReply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content: Content,
    pub(super) delay: Duration,
    /// After each piece.
    pub(super) pause: Duration,
    pub(super) end: End,
    sizes: Vec<usize>,
    usage: Value,
    output: Value,
    stop: Option<Value>,
    blocks: usize,
    without_start: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Events(Vec<Event>),
    Raw(Vec<u8>),
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    Json(Value),
    Bytes(Vec<u8>),
}

/// How the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// The connection closes in the middle, before the model says why it stopped.
    Cut,
    /// Nothing more comes, and the connection stays open.
    Silent,
}

impl Default for MessagesReply {
    fn default() -> Self {
        Self::new()
    }
}

impl MessagesReply {
    /// An empty reply, to which blocks are added.
    pub fn new() -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            content: Content::Events(Vec::new()),
            delay: Duration::ZERO,
            pause: Duration::ZERO,
            end: End::Whole,
            sizes: Vec::new(),
            usage: json!({"input_tokens": 3, "output_tokens": 1}),
            output: json!({"output_tokens": 2}),
            stop: None,
            blocks: 0,
            without_start: false,
        }
    }

    /// An error in the API's form.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let body =
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"});
        Self::http(status, body.to_string())
    }

    /// Any status with any body.
    pub fn http(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, content: Content::Raw(body.into()), ..Self::new() }
    }

    /// The answer to a count of tokens.
    pub fn count(tokens: u64) -> Self {
        Self::http(200, json!({"input_tokens": tokens}).to_string())
    }

    /// A text block in these pieces.
    #[must_use]
    pub fn text(self, pieces: &[&str]) -> Self {
        let deltas = pieces.iter().map(|piece| json!({"type": "text_delta", "text": piece}));
        self.block(json!({"type": "text", "text": ""}), deltas.collect())
    }

    /// A thinking block with its signature.
    #[must_use]
    pub fn thinking(self, pieces: &[&str], signature: &str) -> Self {
        let deltas = pieces.iter().map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
        let signed = json!({"type": "signature_delta", "signature": signature});
        let start = json!({"type": "thinking", "thinking": "", "signature": ""});
        self.block(start, deltas.chain([signed]).collect())
    }

    /// A thinking block that only the server can read.
    #[must_use]
    pub fn redacted(self, data: &str) -> Self {
        self.block(json!({"type": "redacted_thinking", "data": data}), Vec::new())
    }

    /// A call with arguments in one piece.
    #[must_use]
    pub fn call(self, id: &str, name: &str, input: &Value) -> Self {
        self.call_in_pieces(id, name, &[&input.to_string()])
    }

    /// A call with the text of its arguments in pieces.
    #[must_use]
    pub fn call_in_pieces(self, id: &str, name: &str, pieces: &[&str]) -> Self {
        let deltas = pieces.iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        self.block(json!({"type": "tool_use", "id": id, "name": name, "input": {}}), deltas.collect())
    }

    /// Any block.
    #[must_use]
    pub fn block(mut self, start: Value, deltas: Vec<Value>) -> Self {
        let index = self.blocks;
        self.blocks += 1;
        let mut reply =
            self.event(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            reply = reply.event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        reply.event(json!({"type": "content_block_stop", "index": index}))
    }

    /// Any event.
    #[must_use]
    pub fn event(self, event: Value) -> Self {
        self.push(Event::Json(event))
    }

    #[must_use]
    pub fn ping(self) -> Self {
        self.event(json!({"type": "ping"}))
    }

    /// Bytes between the events.
    #[must_use]
    pub fn bytes(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.push(Event::Bytes(bytes.into()))
    }

    /// An error inside the stream, after which nothing follows.
    #[must_use]
    pub fn fails(mut self, kind: &str, message: &str) -> Self {
        self.stop = Some(Value::Null);
        self.event(json!({"type": "error", "error": {"type": kind, "message": message}}))
    }

    /// Why the model stopped; without it, `tool_use` if it called and `end_turn` otherwise.
    #[must_use]
    pub fn stop(self, reason: &str) -> Self {
        self.stop_with(json!({"stop_reason": reason, "stop_sequence": null}))
    }

    /// The same with details.
    #[must_use]
    pub fn stop_with(mut self, delta: Value) -> Self {
        self.stop = Some(delta);
        self
    }

    /// The counts of the beginning and of the end.
    #[must_use]
    pub fn usage(mut self, start: Value, end: Value) -> Self {
        (self.usage, self.output) = (start, end);
        self
    }

    /// A header of the answer.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the body in pieces of these sizes, over and over, whatever the events are.
    #[must_use]
    pub fn split_into(mut self, sizes: impl IntoIterator<Item = usize>) -> Self {
        self.sizes = sizes.into_iter().map(|size| size.max(1)).collect();
        self
    }

    /// Waits before it answers.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits after each piece.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Closes the connection after what the script says.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.end = End::Cut;
        self
    }

    /// Says nothing more after what the script says.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.end = End::Silent;
        self
    }

    /// Only what the script says: no beginning and no end.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.without_start = true;
        self.stop = Some(Value::Null);
        self
    }

    /// The bytes of the whole stream, for recordings.
    pub fn recording(&self) -> Vec<u8> {
        self.events().concat()
    }

    fn push(mut self, event: Event) -> Self {
        match &mut self.content {
            Content::Events(events) => events.push(event),
            Content::Raw(_) => panic!("this reply has no events"),
        }
        self
    }

    fn stop_delta(&self) -> Value {
        let Content::Events(events) = &self.content else { return Value::Null };
        let calls = events
            .iter()
            .any(|event| matches!(event, Event::Json(value) if value["content_block"]["type"] == "tool_use"));
        let usual =
            json!({"stop_reason": if calls { "tool_use" } else { "end_turn" }, "stop_sequence": null});
        self.stop.clone().unwrap_or(usual)
    }

    pub(super) fn events(&self) -> Vec<Vec<u8>> {
        let Content::Events(events) = &self.content else { return Vec::new() };
        let mut all = Vec::new();
        if !self.without_start {
            let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-answering",
                "content": [], "stop_reason": null, "stop_sequence": null, "usage": self.usage});
            all.push(written(&json!({"type": "message_start", "message": message})));
        }
        all.extend(events.iter().map(|event| match event {
            Event::Json(value) => written(value),
            Event::Bytes(bytes) => bytes.clone(),
        }));
        let delta = self.stop_delta();
        if self.end == End::Whole && !delta.is_null() {
            all.push(written(&json!({"type": "message_delta", "delta": delta, "usage": self.output})));
            all.push(written(&json!({"type": "message_stop"})));
        }
        all
    }

    /// The reply as one object.
    pub(super) fn whole(&self) -> Value {
        let Content::Events(events) = &self.content else { return Value::Null };
        let mut blocks: Vec<Value> = Vec::new();
        let mut inputs: Vec<String> = Vec::new();
        for event in events {
            let Event::Json(event) = event else { continue };
            if let Some(start) = event.get("content_block") {
                blocks.push(start.clone());
                inputs.push(String::new());
            }
            let Some(delta) = event.get("delta") else { continue };
            let (block, input) = (blocks.last_mut().unwrap(), inputs.last_mut().unwrap());
            for key in ["text", "thinking", "signature"] {
                if let Some(piece) = delta[key].as_str() {
                    block[key] = json!(format!("{}{piece}", block[key].as_str().unwrap_or_default()));
                }
            }
            input.push_str(delta["partial_json"].as_str().unwrap_or_default());
        }
        for (block, input) in blocks.iter_mut().zip(inputs).filter(|(_, input)| !input.is_empty()) {
            block["input"] = serde_json::from_str(&input).unwrap_or_default();
        }
        let mut usage = self.usage.clone();
        for (key, value) in self.output.as_object().into_iter().flatten() {
            usage[key] = value.clone();
        }
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-answering",
            "content": blocks, "stop_reason": self.stop_delta()["stop_reason"], "usage": usage})
    }

    pub(super) fn split(&self, pieces: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        if self.sizes.is_empty() {
            return pieces;
        }
        let all = pieces.concat();
        let (mut split, mut at) = (Vec::new(), 0);
        for size in self.sizes.iter().cycle() {
            if at >= all.len() {
                break;
            }
            let end = (at + size).min(all.len());
            split.push(all[at..end].to_vec());
            at = end;
        }
        split
    }
}

fn written(event: &Value) -> Vec<u8> {
    let name = event["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {event}\n\n").into_bytes()
}
