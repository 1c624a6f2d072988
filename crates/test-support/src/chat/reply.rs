//! Replies of the scripted server.

use std::time::Duration;

use serde_json::{Value, json};

/// One reply: what is sent when, and how it ends.
#[derive(Debug, Clone)]
pub struct ChatReply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
    pub(super) close: Close,
    pub(super) split: Vec<usize>,
}

/// One thing that happens while a reply is sent.
#[derive(Debug, Clone)]
pub enum Step {
    Wait(Duration),
    Bytes(Vec<u8>),
}

/// How a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// In order; the connection serves the next request.
    End,
    /// The connection breaks without the end of the body.
    Drop,
    /// Nothing happens any more, and the connection stays open.
    Hold,
}

impl ChatReply {
    /// A stream without any event yet.
    pub fn stream() -> Self {
        Self {
            status: 200,
            headers: vec![("Content-Type".into(), "text/event-stream; charset=utf-8".into())],
            steps: Vec::new(),
            close: Close::End,
            split: Vec::new(),
        }
    }

    /// A reply that does not stream.
    pub fn http(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".into(), content_type.into())],
            steps: vec![Step::Bytes(body.into())],
            ..Self::stream()
        }
    }

    /// JSON with a status.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::http(status, "application/json", body.to_string())
    }

    /// An error in OpenAI's form.
    pub fn error(status: u16, message: &str) -> Self {
        Self::json(status, &json!({"error": {"message": message, "type": null, "param": null, "code": null}}))
    }

    /// A whole stream with this text.
    pub fn said(text: &str) -> Self {
        Self::stream().role().text(text).finish("stop").usage(10, 5).done()
    }

    /// The bytes of its body.
    pub fn recording(&self) -> Vec<u8> {
        let bytes = self.steps.iter().filter_map(|step| match step {
            Step::Bytes(bytes) => Some(bytes.as_slice()),
            Step::Wait(_) => None,
        });
        bytes.flatten().copied().collect()
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Bytes as they are.
    #[must_use]
    pub fn raw(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Bytes(bytes.into()));
        self
    }

    #[must_use]
    pub fn wait(mut self, millis: u64) -> Self {
        self.steps.push(Step::Wait(Duration::from_millis(millis)));
        self
    }

    /// One event.
    #[must_use]
    pub fn event(self, value: &Value) -> Self {
        self.raw(format!("data: {value}\n\n"))
    }

    /// A chunk with this delta.
    #[must_use]
    pub fn delta(self, delta: &Value) -> Self {
        self.event(&chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}])))
    }

    /// The chunk that most servers begin with.
    #[must_use]
    pub fn role(self) -> Self {
        self.delta(&json!({"role": "assistant", "content": ""}))
    }

    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.delta(&json!({"content": text}))
    }

    /// Elements of `tool_calls`.
    #[must_use]
    pub fn calls(self, calls: &Value) -> Self {
        self.delta(&json!({"tool_calls": calls}))
    }

    /// A call in one piece.
    #[must_use]
    pub fn call(self, index: u64, id: &str, name: &str, arguments: &str) -> Self {
        let function = json!({"name": name, "arguments": arguments});
        self.calls(&json!([{"index": index, "id": id, "type": "function", "function": function}]))
    }

    #[must_use]
    pub fn finish(self, reason: &str) -> Self {
        self.event(&chunk(&json!([{"index": 0, "delta": {}, "finish_reason": reason}])))
    }

    #[must_use]
    pub fn usage(self, prompt: u64, completion: u64) -> Self {
        let mut value = chunk(&json!([]));
        value["usage"] = json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
        self.event(&value)
    }

    #[must_use]
    pub fn done(self) -> Self {
        self.raw("data: [DONE]\n\n")
    }

    #[must_use]
    pub fn close(mut self, close: Close) -> Self {
        self.close = close;
        self
    }

    /// Sends bytes in pieces of these sizes, over and over.
    #[must_use]
    pub fn split(mut self, sizes: &[usize]) -> Self {
        self.split = sizes.to_vec();
        self
    }
}

fn chunk(choices: &Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served-model", "choices": choices})
}
