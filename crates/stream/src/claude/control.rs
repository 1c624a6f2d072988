//! Requests in both directions, and their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pollux_domain::redact::redacted;
use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_text::plain;
use pollux_domain::{BoxFuture, JsonObject};
use pollux_front::stdio::InputLine;
use pollux_host::request::{CallbackError, CallbackPort};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::limits::{MAX_LINE, fitting, is_too_long};
use super::note;
use crate::incoming::read_object;
use crate::wire::Wire;

/// The host left, so nobody answers.
pub(crate) const GONE: &str = "the host has closed its input";

/// A message of the host that needs more than an answer to a request.
pub(crate) enum Message {
    Request(HostRequest),
    User(JsonObject),
}

/// A `control_request` of the host.
pub(crate) struct HostRequest {
    pub(crate) id: String,
    pub(crate) subtype: String,
    pub(crate) fields: JsonObject,
}

type Answered = Result<JsonObject, String>;

/// The host's end, for everything that asks it.
pub(crate) struct Control {
    wire: Wire,
    waiting: Mutex<Waiting>,
    next: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    answers: HashMap<String, oneshot::Sender<Answered>>,
    /// The host sends nothing more.
    input_ended: bool,
}

impl Control {
    pub(crate) fn new(wire: Wire) -> Arc<Self> {
        Arc::new(Self { wire, waiting: Mutex::default(), next: AtomicU64::new(1) })
    }

    /// Sends a message, shortened if it is too long for the host to read.
    pub(crate) fn send(&self, message: Value) {
        self.wire.send_json(&fitting(message));
    }

    /// Asks the host. Fails at once if it cannot answer, or could not read the whole question.
    pub(crate) fn ask(self: &Arc<Self>, request: Value) -> Result<Asked, String> {
        let id = format!("pollux-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let message = json!({"type": "control_request", "request_id": id, "request": request});
        if is_too_long(&message) {
            return Err(format!("the message exceeds {} kB", MAX_LINE / 1000));
        }
        let (sender, answer) = oneshot::channel();
        let mut waiting = self.waiting.locked();
        if waiting.input_ended {
            return Err(GONE.to_owned());
        }
        waiting.answers.insert(id.clone(), sender);
        drop(waiting);
        self.wire.send_json(&message);
        Ok(Asked { id, control: Arc::clone(self), answer })
    }

    /// Answers a request of the host.
    pub(crate) fn answer(&self, id: &str, response: &Value) {
        let response = json!({"subtype": "success", "request_id": id, "response": response});
        self.send(json!({"type": "control_response", "response": response}));
    }

    /// Refuses a request of the host.
    pub(crate) fn refuse(&self, id: &str, why: &str) {
        let why = redacted(&plain(why)).into_owned();
        let response = json!({"subtype": "error", "request_id": id, "error": why});
        self.send(json!({"type": "control_response", "response": response}));
    }

    /// Takes a question back, unless it is answered.
    pub(crate) fn withdraw(&self, id: &str) {
        if self.waiting.locked().answers.remove(id).is_some() {
            self.send(json!({"type": "control_cancel_request", "request_id": id}));
        }
    }

    /// The host sends nothing more: what waits for it fails.
    pub(crate) fn input_ended(&self) {
        let mut waiting = self.waiting.locked();
        waiting.input_ended = true;
        waiting.answers.clear();
    }

    /// Reads a line. Answers to our requests are delivered, and what cannot be used is reported.
    pub(crate) fn read(&self, line: InputLine) -> Option<Message> {
        let InputLine::Whole(line) = line else {
            note("ignored input: the line is too long");
            return None;
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let (word, fields) = match read_object(&line) {
            Ok(read) => read,
            Err(unusable) => {
                note(&format!("ignored input: {}", unusable.message));
                return None;
            }
        };
        match word.as_str() {
            "user" => return Some(Message::User(fields)),
            "control_request" => return self.request(fields),
            "control_response" => self.deliver(fields),
            // The host gave up on a request, which is answered all the same.
            "control_cancel_request" | "keep_alive" => {}
            other => {
                let other: String = other.chars().take(100).collect();
                note(&format!("ignored input: unknown message type `{other}`"));
            }
        }
        None
    }

    fn request(&self, mut message: JsonObject) -> Option<Message> {
        let Some(Value::String(id)) = message.shift_remove("request_id") else {
            note("ignored input: a `control_request` needs a `request_id`, which is a string");
            return None;
        };
        let Some(Value::Object(mut fields)) = message.shift_remove("request") else {
            self.refuse(&id, "`request` must be an object");
            return None;
        };
        let Some(Value::String(subtype)) = fields.shift_remove("subtype") else {
            self.refuse(&id, "`request` needs a `subtype`, which is a string");
            return None;
        };
        Some(Message::Request(HostRequest { id, subtype, fields }))
    }

    fn deliver(&self, message: JsonObject) {
        let response = message.get("response").and_then(Value::as_object);
        let text = |key: &str| response.and_then(|response| response.get(key)).and_then(Value::as_str);
        let Some(id) = text("request_id") else {
            return note("ignored input: a `control_response` needs a `response` with a `request_id`");
        };
        // A second answer, or one to a request that was withdrawn, changes nothing.
        let Some(waiting) = self.waiting.locked().answers.remove(id) else { return };
        let answer = match (text("subtype"), response.and_then(|response| response.get("response"))) {
            (Some("success"), Some(Value::Object(answer))) => Ok(answer.clone()),
            (Some("success"), _) => Err("the host's answer is not an object".to_owned()),
            _ => Err(text("error").unwrap_or("the host gave no reason").to_owned()),
        };
        let _ = waiting.send(answer);
    }
}

/// A question to the host. Withdrawn when it is dropped before its answer.
pub(crate) struct Asked {
    pub(crate) id: String,
    control: Arc<Control>,
    answer: oneshot::Receiver<Answered>,
}

impl Asked {
    pub(crate) async fn answer(mut self) -> Answered {
        (&mut self.answer).await.unwrap_or_else(|_| Err(GONE.to_owned()))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.control.withdraw(&self.id);
    }
}

/// The functions of the host that run as hooks.
pub(crate) struct HostFunctions(pub(crate) Arc<Control>);

impl CallbackPort for HostFunctions {
    fn call<'a>(
        &'a self,
        id: &'a str,
        call: Option<&'a str>,
        input: JsonObject,
    ) -> BoxFuture<'a, Result<JsonObject, CallbackError>> {
        let request =
            json!({"subtype": "hook_callback", "callback_id": id, "input": input, "tool_use_id": call});
        Box::pin(async move {
            let asked = self.0.ask(request).map_err(CallbackError::NotAsked)?;
            asked.answer().await.map_err(|why| match why == GONE {
                true => CallbackError::NotAsked(why),
                false => CallbackError::Failed(why),
            })
        })
    }
}
