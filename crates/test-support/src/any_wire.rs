//! One server for every wire that answers by what a request contains, for programs whose requests a fixed script
//! cannot foresee: they ask for titles, summaries and judgements in between, in any order.
//!
//! Start at [`FakeModel::start`]. For tests that know each request use [`crate::wires::FakeWire`].

use std::sync::Arc;

use serde_json::{Value, json};

use crate::http::{FakeHttp, HttpAnswer, HttpRequest};
use crate::wires::{Said, Wire};

/// What the model does when it is asked.
#[derive(Debug, Clone)]
pub struct ModelTask {
    /// The tool that runs shell commands, and the name of its argument.
    pub shell: (String, String),
    /// Commands to run, one after the other.
    pub commands: Vec<String>,
    /// The pieces of the answer after them.
    pub answer: Vec<String>,
}

/// What a program sent in the course of a conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelTraffic {
    /// All requests to the model, also for titles and the like.
    pub requests: usize,
    /// Bytes of all their bodies.
    pub bytes: usize,
    /// Requests that belong to the conversation: those that declare the shell tool.
    pub steps: usize,
    /// The part of the conversation's later requests that repeats the beginning of the request before; a provider can
    /// take it from its cache. Nothing if there was only one request.
    pub repeated: Option<f64>,
    /// Bytes of the other part.
    pub new_bytes: usize,
}

/// A model behind every wire. Stops when dropped.
pub struct FakeModel {
    http: FakeHttp,
    task: Arc<ModelTask>,
}

impl FakeModel {
    pub fn start(task: ModelTask) -> Self {
        let task = Arc::new(task);
        let shared = Arc::clone(&task);
        let http = FakeHttp::start(move |request| match wire_of(request) {
            Some(wire) => answer(wire, request, &shared),
            None => HttpAnswer::status(404).body("{\"error\": {\"message\": \"not found\"}}"),
        });
        Self { http, task }
    }

    /// The address without the path of a wire.
    pub fn url(&self) -> String {
        self.http.url()
    }

    /// What arrived so far.
    pub fn traffic(&self) -> ModelTraffic {
        let all: Vec<(Wire, HttpRequest)> = self
            .http
            .requests()
            .into_iter()
            .filter_map(|request| wire_of(&request).map(|wire| (wire, request)))
            .collect();
        let steps: Vec<String> = all
            .iter()
            .map(|(wire, request)| (wire, request.json()))
            .filter(|(_, body)| declares(body, &self.task.shell.0))
            .map(|(wire, body)| cached_text(*wire, &body))
            .collect();
        let (same, total) = compared(&steps);
        ModelTraffic {
            requests: all.len(),
            bytes: all.iter().map(|(_, request)| request.body.len()).sum(),
            steps: steps.len(),
            repeated: (total > 0).then(|| same as f64 / total as f64),
            new_bytes: total - same,
        }
    }
}

fn wire_of(request: &HttpRequest) -> Option<Wire> {
    Wire::ALL.into_iter().find(|wire| request.method == "POST" && wire.generates(request))
}

fn answer(wire: Wire, request: &HttpRequest, task: &ModelTask) -> HttpAnswer {
    let body = request.json();
    let done = wire.results(&body);
    let said = if !declares(&body, &task.shell.0) {
        Said::text(&judgement())
    } else if let Some(command) = task.commands.get(done) {
        let (tool, argument) = &task.shell;
        Said::call(tool, json!({argument: command, "description": "Print a line"}))
    } else {
        Said { text: task.answer.clone(), ..Said::text("") }
    };
    answer_with(wire, request, &said, done + 1)
}

/// A reply in the form that the request asks for: a stream, or the text in one piece. `number` makes the ids of calls.
pub fn answer_with(wire: Wire, request: &HttpRequest, said: &Said, number: usize) -> HttpAnswer {
    let streams = match wire {
        Wire::Gemini => request.path.contains("stream"),
        Wire::Chat | Wire::Responses | Wire::Messages => request.json()["stream"] == json!(true),
    };
    if streams {
        let events = wire.stream(said, number);
        return HttpAnswer::status(200).header("Content-Type", "text/event-stream").body(events);
    }
    HttpAnswer::json(&whole(wire, &said.text.concat()))
}

/// A text for everything that is not the conversation: a title, and the fields that programs ask for when they want a
/// judgement as JSON.
fn judgement() -> String {
    json!({"title": "A title", "reasoning": "It goes on.", "next_speaker": "user", "model_choice": "flash",
        "unproductive_state_analysis": "None.", "unproductive_state_confidence": 0.0})
    .to_string()
}

/// An answer in one piece.
fn whole(wire: Wire, text: &str) -> Value {
    match wire {
        Wire::Gemini => json!({"candidates": [{"index": 0, "finishReason": "STOP",
                "content": {"role": "model", "parts": [{"text": text}]}}],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}}),
        Wire::Chat => {
            json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "test-model",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}})
        }
        Wire::Responses => {
            json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed",
            "model": "test-model", "output": [{"id": "msg_1", "type": "message", "role": "assistant",
                "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}],
            "usage": {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}})
        }
        Wire::Messages => {
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "test-model",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 100, "output_tokens": 10}})
        }
    }
}

/// Whether a tool of that name is declared, in any wire's form.
fn declares(body: &Value, tool: &str) -> bool {
    let named = |value: &Value| value["name"] == json!(tool) || value["function"]["name"] == json!(tool);
    let declared = |value: &Value| {
        let nested = value["functionDeclarations"].as_array();
        named(value) || nested.is_some_and(|functions| functions.iter().any(named))
    };
    body["tools"].as_array().is_some_and(|tools| tools.iter().any(declared))
}

/// What a provider compares with its cache, in the order in which it does: tools, instructions, messages. Marks that
/// only say what to cache are left out.
fn cached_text(wire: Wire, body: &Value) -> String {
    let fields: &[&str] = match wire {
        Wire::Gemini => &["tools", "systemInstruction", "contents"],
        Wire::Chat => &["tools", "messages"],
        Wire::Responses => &["tools", "instructions", "input"],
        Wire::Messages => &["tools", "system", "messages"],
    };
    let mut text = String::new();
    for field in fields {
        let mut value = body[*field].clone();
        remove_marks(&mut value);
        // The bracket that closes a list would differ from the comma that continues it.
        text.push_str(value.to_string().trim_end_matches(']'));
    }
    text
}

fn remove_marks(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(remove_marks);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_marks),
        _ => {}
    }
}

/// Of all texts but the first: the bytes that repeat the beginning of the text before, and all bytes.
fn compared(texts: &[String]) -> (usize, usize) {
    let common = |one: &str, other: &str| one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let same = texts.windows(2).map(|pair| common(&pair[0], &pair[1])).sum();
    (same, texts.iter().skip(1).map(String::len).sum())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    fn task(commands: &[&str]) -> ModelTask {
        ModelTask {
            shell: ("sh".into(), "cmd".into()),
            commands: commands.iter().map(|&command| command.to_owned()).collect(),
            answer: vec!["All ".into(), "done.".into()],
        }
    }

    fn post(model: &FakeModel, path: &str, body: &Value) -> String {
        let body = body.to_string();
        let mut socket = TcpStream::connect(model.url().trim_start_matches("http://")).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all((head + &body).as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    }

    /// A path and a request of each wire, with a call that has its result where `results` is set.
    fn requests(results: usize) -> [(&'static str, Value); 4] {
        let calls = |call: Value| std::iter::repeat_n(call, results);
        let gemini: Vec<Value> =
            calls(json!({"role": "user", "parts": [{"functionResponse": {"name": "sh"}}]})).collect();
        let chat: Vec<Value> = calls(json!({"role": "tool", "content": "x"})).collect();
        let responses: Vec<Value> = calls(json!({"type": "function_call_output", "output": "x"})).collect();
        let messages: Vec<Value> =
            calls(json!({"role": "user", "content": [{"type": "tool_result"}]})).collect();
        [
            (
                "/v1beta/models/m:streamGenerateContent?alt=sse",
                json!({"tools": [{"functionDeclarations": [{"name": "sh"}]}], "contents": gemini}),
            ),
            (
                "/v1/chat/completions",
                json!({"stream": true, "tools": [{"function": {"name": "sh"}}], "messages": chat}),
            ),
            ("/v1/responses", json!({"stream": true, "tools": [{"name": "sh"}], "input": responses})),
            (
                "/v1/messages?beta=true",
                json!({"stream": true, "tools": [{"name": "sh"}], "messages": messages}),
            ),
        ]
    }

    #[test]
    fn commands_come_one_after_the_other_and_then_the_answer_on_every_wire() {
        let model = FakeModel::start(task(&["first", "second"]));
        for (done, expected) in [(0, "first"), (1, "second"), (2, "done.")] {
            for (path, body) in requests(done) {
                let reply = post(&model, path, &body);
                assert!(reply.contains("text/event-stream") && reply.contains(expected), "{path}: {reply}");
            }
        }
        let traffic = model.traffic();
        assert_eq!((traffic.requests, traffic.steps), (12, 12));
    }

    #[test]
    fn a_request_without_the_tool_gets_a_judgement_and_does_not_count_as_a_step() {
        let model = FakeModel::start(task(&["first"]));
        let reply = post(&model, "/v1beta/models/m:generateContent", &json!({"contents": []}));
        assert!(reply.contains("next_speaker") && !reply.contains("event-stream"), "{reply}");
        assert!(post(&model, "/v1/messages/count_tokens", &json!({})).starts_with("HTTP/1.1 404"));
        let traffic = model.traffic();
        assert_eq!((traffic.requests, traffic.steps, traffic.repeated), (1, 0, None));
        assert_eq!(traffic.bytes, json!({"contents": []}).to_string().len());
    }

    #[test]
    fn a_repeated_beginning_is_found_wherever_cache_marks_stand() {
        let turn = |text: &str, marked: bool| {
            let mut block = json!({"type": "text", "text": text});
            if marked {
                block["cache_control"] = json!({"type": "ephemeral"});
            }
            json!({"role": "user", "content": [block]})
        };
        let body =
            |messages: &[Value]| json!({"system": "s".repeat(1_000), "tools": [], "messages": messages});
        let texts = [
            cached_text(Wire::Messages, &body(&[turn("a", true)])),
            cached_text(Wire::Messages, &body(&[turn("a", false), turn("b", true)])),
        ];
        let (same, total) = compared(&texts);
        assert_eq!((same, total), (texts[0].len(), texts[1].len()), "only the second message is new");
        let changed = [texts[0].replace('s', "t"), texts[1].clone()];
        assert!(compared(&changed).0 < 10);
        assert_eq!(compared(&texts[..1]), (0, 0));
    }
}
