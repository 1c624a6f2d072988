//! What the server answers.

use std::time::Duration;

use serde_json::{Value, json};

/// A scripted reply; build it with [`responses_reply`] or [`ResponsesReply::error`].
#[derive(Debug, Clone)]
pub struct ResponsesReply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) ending: Ending,
    pub(super) pause: Duration,
    body: Body,
    split: Vec<usize>,
    /// The events leave out their places and numbers, as some servers do.
    bare: bool,
    items: Vec<Value>,
    usage: Option<Value>,
}

#[derive(Debug, Clone)]
enum Body {
    Events { events: Vec<Vec<u8>>, sequence: u64, ended: bool },
    Raw(Vec<u8>),
}

/// How a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Whole,
    Close,
    /// The connection stays open and nothing more comes.
    Silence,
}

/// Starts a streamed reply. `text`, `call` and `reasoning` add whole output items with all their events;
/// `response.completed` follows unless the script ends it otherwise.
pub fn responses_reply() -> ResponsesReply {
    let reply = ResponsesReply {
        status: 200,
        headers: vec![("Content-Type".into(), "text/event-stream".into())],
        ending: Ending::Whole,
        pause: Duration::ZERO,
        body: Body::Events { events: Vec::new(), sequence: 0, ended: false },
        split: Vec::new(),
        bare: false,
        items: Vec::new(),
        usage: None,
    };
    let response = reply.response("in_progress");
    reply
        .event("response.created", json!({"response": response}))
        .event("response.in_progress", json!({"response": response}))
}

impl ResponsesReply {
    /// An error in the API's form.
    pub fn error(status: u16, kind: &str, code: &str, message: &str) -> Self {
        let body = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
        Self::http(status, body.to_string())
    }

    /// Any status with any body.
    pub fn http(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".into(), "application/json".into())],
            body: Body::Raw(body.into()),
            ending: Ending::Whole,
            pause: Duration::ZERO,
            split: Vec::new(),
            bare: false,
            items: Vec::new(),
            usage: None,
        }
    }

    /// The answer to a count of tokens.
    pub fn count(tokens: u64) -> Self {
        Self::http(200, json!({"input_tokens": tokens, "object": "response.input_tokens"}).to_string())
    }

    /// Leaves out `output_index` and `sequence_number` from here on.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// One event.
    #[must_use]
    pub fn event(mut self, kind: &str, mut fields: Value) -> Self {
        let bare = self.bare;
        let Body::Events { events, sequence, ended } = &mut self.body else {
            panic!("this reply has no events")
        };
        *ended |= matches!(kind, "response.completed" | "response.incomplete" | "response.failed" | "error");
        fields["type"] = json!(kind);
        if bare {
            fields.as_object_mut().map(|fields| fields.remove("output_index"));
        } else {
            fields["sequence_number"] = json!(*sequence);
            *sequence += 1;
        }
        events.push(format!("event: {kind}\ndata: {fields}\n\n").into_bytes());
        self
    }

    /// Bytes between the events.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        let Body::Events { events, .. } = &mut self.body else { panic!("this reply has no events") };
        events.push(bytes.into());
        self
    }

    /// A message in these pieces.
    #[must_use]
    pub fn text(self, pieces: &[&str]) -> Self {
        self.message(pieces, None)
    }

    /// A message of a phase.
    #[must_use]
    pub fn message(self, pieces: &[&str], phase: Option<&str>) -> Self {
        let text = pieces.concat();
        let mut item = json!({"type": "message", "id": "", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]});
        if let Some(phase) = phase {
            item["phase"] = json!(phase);
        }
        let (index, id) = self.next("msg");
        item["id"] = json!(id);
        let mut reply = self.added(&item, "in_progress", &json!({"content": []})).event(
            "response.content_part.added",
            json!({"item_id": id, "output_index": index, "content_index": 0,
                "part": {"type": "output_text", "text": "", "annotations": []}}),
        );
        let place = json!({"item_id": id, "output_index": index, "content_index": 0});
        let text_place = with(&place, "logprobs", json!([]));
        for piece in pieces {
            reply = reply.event("response.output_text.delta", with(&text_place, "delta", json!(piece)));
        }
        reply
            .event("response.output_text.done", with(&text_place, "text", json!(text)))
            .event("response.content_part.done", with(&place, "part", item["content"][0].clone()))
            .item_done(item)
    }

    /// A refusal.
    #[must_use]
    pub fn refusal(self, text: &str) -> Self {
        let (index, id) = self.next("msg");
        let item = json!({"type": "message", "id": id, "role": "assistant", "status": "completed",
            "content": [{"type": "refusal", "refusal": text}]});
        let place = json!({"item_id": id, "output_index": index, "content_index": 0});
        self.added(&item, "in_progress", &json!({"content": []}))
            .event("response.refusal.delta", with(&place, "delta", json!(text)))
            .event("response.refusal.done", with(&place, "refusal", json!(text)))
            .item_done(item)
    }

    /// A call; the arguments come in pieces of three bytes.
    #[must_use]
    pub fn call(self, call_id: &str, name: &str, arguments: &str) -> Self {
        let (index, id) = self.next("fc");
        let item = json!({"type": "function_call", "id": id, "call_id": call_id, "name": name,
            "arguments": arguments, "status": "completed"});
        let mut reply = self.added(&item, "in_progress", &json!({"arguments": ""}));
        let place = json!({"item_id": id, "output_index": index});
        let letters: Vec<char> = arguments.chars().collect();
        for piece in letters.chunks(3) {
            let piece: String = piece.iter().collect();
            let delta = with(&place, "delta", json!(piece));
            reply = reply.event("response.function_call_arguments.delta", delta);
        }
        reply
            .event("response.function_call_arguments.done", with(&place, "arguments", json!(arguments)))
            .item_done(item)
    }

    /// Reasoning with a summary; sealed if there is encrypted content. What `added` says of it is not the truth.
    #[must_use]
    pub fn reasoning(self, summary: &str, encrypted: Option<&str>) -> Self {
        let (index, id) = self.next("rs");
        let item = json!({"type": "reasoning", "id": id, "encrypted_content": encrypted,
            "summary": [{"type": "summary_text", "text": summary}]});
        let half = json!({"summary": [], "encrypted_content": "incomplete"});
        let place = json!({"item_id": id, "output_index": index, "summary_index": 0});
        self.added(&item, "", &half)
            .event(
                "response.reasoning_summary_part.added",
                with(&place, "part", json!({"type": "summary_text", "text": ""})),
            )
            .event("response.reasoning_summary_text.delta", with(&place, "delta", json!(summary)))
            .event("response.reasoning_summary_text.done", with(&place, "text", json!(summary)))
            .event("response.reasoning_summary_part.done", with(&place, "part", item["summary"][0].clone()))
            .item_done(item)
    }

    /// The id and place of the next item.
    fn next(&self, prefix: &str) -> (usize, String) {
        (self.items.len(), format!("{prefix}_{}", self.items.len()))
    }

    fn added(self, item: &Value, status: &str, unfinished: &Value) -> Self {
        let mut begun = item.clone();
        for (key, value) in unfinished.as_object().into_iter().flatten() {
            begun[key.as_str()] = value.clone();
        }
        if !status.is_empty() {
            begun["status"] = json!(status);
        }
        let index = self.items.len();
        self.event("response.output_item.added", json!({"output_index": index, "item": begun}))
    }

    /// The end of an item.
    #[must_use]
    pub fn item_done(mut self, item: Value) -> Self {
        let index = self.items.len();
        self.items.push(item.clone());
        self.event("response.output_item.done", json!({"output_index": index, "item": item}))
    }

    /// An item that is only in the final output.
    #[must_use]
    pub fn only_in_the_end(mut self, item: Value) -> Self {
        self.items.push(item);
        self
    }

    /// Token counts.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.usage_object(
            json!({"input_tokens": input, "output_tokens": output, "total_tokens": input + output,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0}}),
        )
    }

    /// Token counts in any form.
    #[must_use]
    pub fn usage_object(mut self, usage: Value) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Ends the reply in order.
    #[must_use]
    pub fn completed(self) -> Self {
        let response = self.response("completed");
        self.event("response.completed", json!({"response": response}))
    }

    /// Ends the reply for a reason of the server's.
    #[must_use]
    pub fn incomplete(self, reason: &str) -> Self {
        let mut response = self.response("incomplete");
        response["incomplete_details"] = json!({"reason": reason});
        self.event("response.incomplete", json!({"response": response}))
    }

    /// Ends the reply with an error.
    #[must_use]
    pub fn failed(self, code: &str, message: &str) -> Self {
        let mut response = self.response("failed");
        response["error"] = json!({"code": code, "message": message});
        self.event("response.failed", json!({"response": response}))
    }

    /// The whole reply as one JSON object, in spite of `stream`.
    #[must_use]
    pub fn as_object(self) -> Self {
        Self::http(200, self.response("completed").to_string())
    }

    fn response(&self, status: &str) -> Value {
        json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "gpt-test-2026",
            "error": null, "incomplete_details": null, "output": self.items, "usage": self.usage,
            "tools": [], "tool_choice": "auto", "parallel_tool_calls": true})
    }

    /// A header of the answer; an own `Content-Type` replaces the usual one.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the body in pieces of these sizes, over and over.
    #[must_use]
    pub fn split(mut self, sizes: impl IntoIterator<Item = usize>) -> Self {
        self.split = sizes.into_iter().map(|size| size.max(1)).collect();
        self
    }

    /// Waits between pieces.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Ends the body in order, although the reply is not over.
    #[must_use]
    pub fn stops(mut self) -> Self {
        if let Body::Events { ended, .. } = &mut self.body {
            *ended = true;
        }
        self
    }

    /// Breaks the connection here.
    #[must_use]
    pub fn breaks(mut self) -> Self {
        self.ending = Ending::Close;
        self.stops()
    }

    /// Falls silent here and keeps the connection open.
    #[must_use]
    pub fn falls_silent(mut self) -> Self {
        self.ending = Ending::Silence;
        self.stops()
    }

    /// The bytes of the whole reply.
    pub fn into_bytes(self) -> Vec<u8> {
        Self { split: Vec::new(), ..self }.pieces().concat()
    }

    /// The bytes in the pieces that they are sent in.
    pub(super) fn pieces(self) -> Vec<Vec<u8>> {
        let reply = match &self.body {
            Body::Events { ended: false, .. } => self.completed(),
            _ => self,
        };
        let events = match reply.body {
            Body::Events { events, .. } => events,
            Body::Raw(body) => vec![body],
        };
        let events: Vec<Vec<u8>> = events.into_iter().filter(|piece| !piece.is_empty()).collect();
        if reply.split.is_empty() {
            return events;
        }
        let whole = events.concat();
        let mut rest = whole.as_slice();
        let mut pieces = Vec::new();
        for size in reply.split.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, tail) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece.to_vec());
            rest = tail;
        }
        pieces
    }
}

fn with(fields: &Value, key: &str, value: Value) -> Value {
    let mut fields = fields.clone();
    fields[key] = value;
    fields
}
