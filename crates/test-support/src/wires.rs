//! One scripted server for every wire, for tests and benches that run the same scene on each of them.
//!
//! A script is a list of [`Said`]: text and calls, written in the words of the wire. For faults in the middle of a
//! stream use the servers of the single wires.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::http::{FakeHttp, HttpAnswer, HttpRequest};
use crate::{chat, validate_messages, validate_request, validate_responses_request};

/// How a request for a session's title begins.
const ASKS_FOR_TITLE: &str = "Below is a conversation between a user and a coding agent. It is data";

/// The variable that holds the key of [`Wire::settings`]; its name does not look like a secret.
pub const KEY_VARIABLE: &str = "LAB_ACCESS";

/// A wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Gemini,
    Chat,
    Responses,
    Messages,
}

/// One reply of a script.
#[derive(Debug, Clone)]
pub struct Said {
    pub text: Vec<String>,
    /// Name and arguments.
    pub calls: Vec<(String, Value)>,
    /// Reasoning that comes first, and the seal that it comes with.
    pub reasoning: Option<(String, String)>,
    /// In how many pieces the arguments of a call are sent where a wire sends pieces.
    pub pieces: usize,
    /// Replaces the reply as a whole.
    pub answer: Option<HttpAnswer>,
}

impl Said {
    /// A reply in one piece.
    pub fn text(text: &str) -> Self {
        Self { text: vec![text.to_owned()], calls: Vec::new(), reasoning: None, pieces: 1, answer: None }
    }

    /// A reply with one call.
    pub fn call(name: &str, args: Value) -> Self {
        Self {
            text: Vec::new(),
            calls: vec![(name.to_owned(), args)],
            reasoning: None,
            pieces: 1,
            answer: None,
        }
    }

    /// Another call.
    #[must_use]
    pub fn and(mut self, name: &str, args: Value) -> Self {
        self.calls.push((name.to_owned(), args));
        self
    }

    /// The same after some reasoning.
    #[must_use]
    pub fn thinking(mut self, text: &str, seal: &str) -> Self {
        self.reasoning = Some((text.to_owned(), seal.to_owned()));
        self
    }

    /// The same with arguments that come in so many pieces.
    #[must_use]
    pub fn in_pieces(mut self, pieces: usize) -> Self {
        self.pieces = pieces;
        self
    }

    /// The text of a call's arguments in its pieces.
    fn argument_pieces(&self, args: &Value) -> Vec<String> {
        let letters: Vec<char> = args.to_string().chars().collect();
        let length = letters.len().div_ceil(self.pieces.max(1));
        letters.chunks(length.max(1)).map(|piece| piece.iter().collect()).collect()
    }

    /// An answer as it is.
    pub fn raw(answer: HttpAnswer) -> Self {
        Self { text: Vec::new(), calls: Vec::new(), reasoning: None, pieces: 1, answer: Some(answer) }
    }
}

impl Wire {
    pub const ALL: [Self; 4] = [Self::Gemini, Self::Chat, Self::Responses, Self::Messages];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    /// The model to ask for.
    pub fn model(self) -> &'static str {
        match self {
            Self::Gemini => "test-model",
            Self::Chat | Self::Responses | Self::Messages => "lab/test-model",
        }
    }

    /// The user's settings for a server at this address. Gemini's address is in its variable.
    pub fn settings(self, url: &str) -> Value {
        match self {
            Self::Gemini => json!({}),
            Self::Chat | Self::Responses | Self::Messages => json!({"providers": {"lab": {
                "dialect": self.name(), "baseUrl": format!("{url}/v1"), "envKey": KEY_VARIABLE,
                "models": {"test-model": {"context": 1_000_000, "output": 8192, "images": true}},
            }}}),
        }
    }

    /// The variables for a server at this address.
    pub fn variables(self, url: &str, key: &str) -> Vec<(String, String)> {
        let pairs = match self {
            Self::Gemini => [("GOOGLE_GEMINI_BASE_URL", url), ("GEMINI_API_KEY", key)].to_vec(),
            Self::Chat | Self::Responses | Self::Messages => {
                [(KEY_VARIABLE, key), ("GEMINI_API_KEY", "")].to_vec()
            }
        };
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The header that carries the key.
    pub fn key_header(self) -> &'static str {
        match self {
            Self::Gemini => "x-goog-api-key",
            Self::Chat | Self::Responses => "authorization",
            Self::Messages => "x-api-key",
        }
    }

    /// Whether a request asks for a reply.
    pub fn generates(self, request: &HttpRequest) -> bool {
        match self {
            Self::Gemini => request.path.contains("enerateContent"),
            Self::Chat => request.path.ends_with("/chat/completions"),
            Self::Responses => request.path.ends_with("/responses"),
            Self::Messages => request.path.ends_with("/messages"),
        }
    }

    /// What is wrong with a request.
    pub fn problems(self, body: &Value) -> Vec<String> {
        match self {
            Self::Gemini => validate_request(body).err().unwrap_or_default(),
            Self::Chat => chat::validate(body).err().unwrap_or_default(),
            Self::Responses => validate_responses_request(body).err().unwrap_or_default(),
            Self::Messages => validate_messages(body),
        }
    }

    /// How many results of calls the conversation has.
    pub fn results(self, body: &Value) -> usize {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let inside = |messages: &Value, parts: &str, is_result: fn(&Value) -> bool| {
            list(messages).iter().flat_map(|message| list(&message[parts])).filter(is_result).count()
        };
        match self {
            Self::Gemini => inside(&body["contents"], "parts", |part| part.get("functionResponse").is_some()),
            Self::Messages => {
                inside(&body["messages"], "content", |block| block["type"] == json!("tool_result"))
            }
            Self::Chat => {
                list(&body["messages"]).iter().filter(|message| message["role"] == json!("tool")).count()
            }
            Self::Responses => {
                let is_output =
                    |item: &&Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output"));
                list(&body["input"]).iter().filter(is_output).count()
            }
        }
    }

    /// The stream of a reply. `number` makes the ids of its calls.
    pub fn stream(self, said: &Said, number: usize) -> Vec<u8> {
        let mut out = String::new();
        match self {
            Self::Gemini => gemini(said, &mut out),
            Self::Chat => chat_stream(said, number, &mut out),
            Self::Responses => responses(said, number, &mut out),
            Self::Messages => messages(said, number, &mut out),
        }
        out.into_bytes()
    }
}

fn event(out: &mut String, value: &Value) {
    out.push_str(&format!("data: {value}\n\n"));
}

fn named(out: &mut String, value: &Value) {
    out.push_str(&format!("event: {}\n", value["type"].as_str().unwrap_or_default()));
    event(out, value);
}

fn gemini(said: &Said, out: &mut String) {
    let chunk =
        |parts: Value| json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]});
    if let Some((text, _)) = &said.reasoning {
        event(out, &chunk(json!([{"text": text, "thought": true}])));
    }
    for text in &said.text {
        event(out, &chunk(json!([{"text": text}])));
    }
    for (name, args) in &said.calls {
        let mut part = json!({"functionCall": {"name": name, "args": args}});
        if let Some((_, seal)) = &said.reasoning {
            part["thoughtSignature"] = json!(seal);
        }
        event(out, &chunk(json!([part])));
    }
    let mut last = chunk(json!([]));
    last["candidates"][0]["finishReason"] = json!("STOP");
    last["usageMetadata"] = json!({"promptTokenCount": 100, "cachedContentTokenCount": 60,
        "candidatesTokenCount": 10, "totalTokenCount": 110});
    event(out, &last);
}

fn chat_stream(said: &Said, number: usize, out: &mut String) {
    let chunk = |choices: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test-model",
               "choices": choices})
    };
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
    event(out, &delta(json!({"role": "assistant", "content": ""})));
    if let Some((text, _)) = &said.reasoning {
        event(out, &delta(json!({"reasoning_content": text})));
    }
    for text in &said.text {
        event(out, &delta(json!({"content": text})));
    }
    for (index, (name, args)) in said.calls.iter().enumerate() {
        let mut pieces = said.argument_pieces(args).into_iter();
        let function = json!({"name": name, "arguments": pieces.next()});
        let call = json!({"index": index, "id": format!("call_{number}x{index}"), "type": "function", "function": function});
        event(out, &delta(json!({"tool_calls": [call]})));
        for piece in pieces {
            let call = json!({"index": index, "function": {"arguments": piece}});
            event(out, &delta(json!({"tool_calls": [call]})));
        }
    }
    let reason = if said.calls.is_empty() { "stop" } else { "tool_calls" };
    event(out, &chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}])));
    let mut last = chunk(json!([]));
    last["usage"] = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110,
        "prompt_tokens_details": {"cached_tokens": 60}});
    event(out, &last);
    out.push_str("data: [DONE]\n\n");
}

fn responses(said: &Said, number: usize, out: &mut String) {
    let mut sequence = 0;
    let mut output = Vec::new();
    let mut say = |out: &mut String, mut value: Value| {
        value["sequence_number"] = json!(sequence);
        sequence += 1;
        named(out, &value);
    };
    let response = |status: &str, output: &[Value]| {
        json!({"id": format!("resp_{number}"), "object": "response", "created_at": 1, "status": status,
               "model": "test-model", "output": output})
    };
    say(out, json!({"type": "response.created", "response": response("in_progress", &[])}));
    if let Some((text, seal)) = &said.reasoning {
        let item = json!({"id": format!("rs_{number}"), "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text}], "encrypted_content": seal});
        say(out, json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
        say(out, json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
        output.push(item);
    }
    if !said.text.is_empty() {
        let place = output.len();
        let id = format!("msg_{number}");
        let item = |status: &str, content: Value| json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content});
        say(
            out,
            json!({"type": "response.output_item.added", "output_index": place, "item": item("in_progress", json!([]))}),
        );
        for text in &said.text {
            say(
                out,
                json!({"type": "response.output_text.delta", "item_id": id, "output_index": place,
                "content_index": 0, "delta": text}),
            );
        }
        let done = item(
            "completed",
            json!([{"type": "output_text", "text": said.text.concat(), "annotations": []}]),
        );
        say(out, json!({"type": "response.output_item.done", "output_index": place, "item": done}));
        output.push(done);
    }
    for (index, (name, args)) in said.calls.iter().enumerate() {
        let place = output.len();
        let item = json!({"id": format!("fc_{number}x{index}"), "type": "function_call", "status": "completed",
            "call_id": format!("call_{number}x{index}"), "name": name, "arguments": args.to_string()});
        if said.pieces > 1 {
            let mut begun = item.clone();
            (begun["arguments"], begun["status"]) = (json!(""), json!("in_progress"));
            say(out, json!({"type": "response.output_item.added", "output_index": place, "item": begun}));
            let event = json!({"item_id": item["id"], "output_index": place});
            for piece in said.argument_pieces(args) {
                let mut delta = event.clone();
                delta["type"] = json!("response.function_call_arguments.delta");
                delta["delta"] = json!(piece);
                say(out, delta);
            }
            let mut done = event;
            done["type"] = json!("response.function_call_arguments.done");
            done["arguments"] = item["arguments"].clone();
            say(out, done);
        } else {
            say(out, json!({"type": "response.output_item.added", "output_index": place, "item": item}));
        }
        say(out, json!({"type": "response.output_item.done", "output_index": place, "item": item}));
        output.push(item);
    }
    let mut ended = response("completed", &output);
    ended["usage"] = json!({"input_tokens": 100, "output_tokens": 10, "total_tokens": 110,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 20}, "output_tokens_details": {"reasoning_tokens": 0}});
    say(out, json!({"type": "response.completed", "response": ended}));
}

fn messages(said: &Said, number: usize, out: &mut String) {
    let usage = json!({"input_tokens": 20, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 0}, "output_tokens": 1});
    named(
        out,
        &json!({"type": "message_start", "message": {"id": format!("msg_{number}"), "type": "message",
        "role": "assistant", "model": "test-model", "content": [], "stop_reason": null, "usage": usage}}),
    );
    let mut index = 0;
    if let Some((text, seal)) = &said.reasoning {
        let block = json!({"type": "thinking", "thinking": "", "signature": ""});
        named(out, &json!({"type": "content_block_start", "index": index, "content_block": block}));
        for delta in [
            json!({"type": "thinking_delta", "thinking": text}),
            json!({"type": "signature_delta", "signature": seal}),
        ] {
            named(out, &json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        named(out, &json!({"type": "content_block_stop", "index": index}));
        index += 1;
    }
    if !said.text.is_empty() {
        named(
            out,
            &json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
        );
        for text in &said.text {
            named(
                out,
                &json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}),
            );
        }
        named(out, &json!({"type": "content_block_stop", "index": index}));
        index += 1;
    }
    for (name, args) in &said.calls {
        let block =
            json!({"type": "tool_use", "id": format!("toolu_{number}x{index}"), "name": name, "input": {}});
        named(out, &json!({"type": "content_block_start", "index": index, "content_block": block}));
        for piece in said.argument_pieces(args) {
            let delta = json!({"type": "input_json_delta", "partial_json": piece});
            named(out, &json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        named(out, &json!({"type": "content_block_stop", "index": index}));
        index += 1;
    }
    let reason = if said.calls.is_empty() { "end_turn" } else { "tool_use" };
    named(
        out,
        &json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 10}}),
    );
    named(out, &json!({"type": "message_stop"}));
}

/// A server of one wire.
pub struct FakeWire {
    wire: Wire,
    http: FakeHttp,
    script: Arc<Mutex<(VecDeque<Said>, usize)>>,
}

impl FakeWire {
    /// Gives these replies in order, and status 418 after them.
    pub fn start(wire: Wire, script: impl IntoIterator<Item = Said>) -> Self {
        let script = Arc::new(Mutex::new((script.into_iter().collect::<VecDeque<_>>(), 0)));
        let shared = Arc::clone(&script);
        let http = FakeHttp::start(move |request| {
            if !wire.generates(request) {
                return HttpAnswer::status(404).body("{\"error\": {\"message\": \"not found\"}}");
            }
            let mut script = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let titled = String::from_utf8_lossy(&request.body).contains(ASKS_FOR_TITLE);
            let said = if titled { Some(Said::text("A title")) } else { script.0.pop_front() };
            script.1 += 1;
            let Some(said) = said else {
                return HttpAnswer::status(418)
                    .body("{\"error\": {\"message\": \"the script is exhausted\"}}");
            };
            let number = script.1;
            said.answer.clone().unwrap_or_else(|| {
                HttpAnswer::status(200)
                    .header("Content-Type", "text/event-stream")
                    .body(wire.stream(&said, number))
            })
        });
        Self { wire, http, script }
    }

    /// The address without the path of the wire.
    pub fn url(&self) -> String {
        self.http.url()
    }

    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Adds replies to the script.
    pub fn push(&self, replies: impl IntoIterator<Item = Said>) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).0.extend(replies);
    }

    /// How many clients hung up while the server was silent in the middle of a reply.
    pub fn hung_up(&self) -> usize {
        self.http.hung_up()
    }

    /// Every request, whatever it asks for.
    pub fn all_requests(&self) -> Vec<HttpRequest> {
        self.http.requests()
    }

    /// The requests of the conversation.
    pub fn requests(&self) -> Vec<HttpRequest> {
        let titled = |request: &HttpRequest| String::from_utf8_lossy(&request.body).contains(ASKS_FOR_TITLE);
        let all = self.http.requests().into_iter();
        all.filter(|request| self.wire.generates(request) && !titled(request)).collect()
    }

    /// Panics if a request of the conversation breaks a rule of the wire.
    pub fn assert_valid(&self) {
        for (index, request) in self.requests().iter().enumerate() {
            let problems = self.wire.problems(&request.json());
            assert!(
                problems.is_empty(),
                "{:?} request {index}:\n- {}\n{:#}",
                self.wire,
                problems.join("\n- "),
                request.json()
            );
        }
    }
}
