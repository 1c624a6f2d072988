//! What is sent and what the scripted servers answer, read by the official SDKs' own types, if
//! `scripts/python-peers.sh` has installed them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pollux_domain::content::{Blob, Body, Content, FunctionResponse, Part};
use pollux_domain::model::{
    Effort, GenerationSettings, ModelClient, ModelRequest, OutputFormat, Setting, ToolChoice,
};
use pollux_domain::tool::{ToolKind, ToolSpec};
use pollux_test_support::chat::{ChatReply, FakeChat};
use pollux_test_support::{FakeMessages, FakeResponses, MessagesReply, responses_reply};
use serde_json::{Value, json};

use super::fixture::{Told, drain};

/// What the SDKs check.
#[derive(Default)]
struct Values(Vec<Value>);

impl Values {
    fn request(&mut self, wire: &str, body: Value) {
        self.0.push(json!({"wire": wire, "kind": "request", "value": body}));
    }

    fn stream(&mut self, wire: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let data =
            text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        for event in data {
            let value: Value = serde_json::from_str(event).unwrap_or_else(|error| panic!("{error}: {event}"));
            self.0.push(json!({"wire": wire, "kind": "event", "value": value}));
        }
    }

    /// Whether the SDKs accept all of it; says so where they are not installed.
    fn check(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = root.join("../../target/sdk-types");
        if !folder.join("installed").exists() {
            let _ =
                writeln!(std::io::stderr(), "skipped: scripts/python-peers.sh has not installed the SDKs");
            return;
        }
        let mut child = Command::new(folder.join("python/bin/python3"))
            .arg(root.join("tests/it/sdk_types.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        for value in &self.0 {
            writeln!(input, "{value}").unwrap();
        }
        drop(input);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        let _ = writeln!(std::io::stderr(), "{said}");
    }
}

fn tools() -> Arc<[Arc<ToolSpec>]> {
    let tool = |name: &str, parameters: Value| {
        Arc::new(ToolSpec {
            name: name.into(),
            display_name: name.into(),
            description: "Reads something.".into(),
            kind: ToolKind::Read,
            parameters,
            output_is_markdown: false,
            offloads_long_output: false,
        })
    };
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": {"path": {"type": "string"}, "deep": {"type": "array", "items": {"type": "integer"}}},
        "required": ["path"]});
    Arc::new([tool("read_file", schema), tool("mcp_srv.do:it", json!({}))])
}

/// A conversation in three requests: with tools and effort, with results of both kinds and pictures, and with a schema
/// or a forced call.
async fn converse(client: &dyn ModelClient, model: &str) {
    let settings = GenerationSettings {
        max_output: Setting::Set(4_096),
        effort: Setting::Set(Effort::High),
        ..GenerationSettings::default()
    };
    let request = |contents: &[Content], settings: GenerationSettings| ModelRequest {
        model: model.into(),
        tools: tools(),
        settings,
        contents: contents.iter().cloned().map(Arc::new).collect(),
        ..super::fixture::request(Vec::new())
    };
    let picture = |mime: &str| -> Part {
        Body::InlineData(Blob { mime_type: mime.into(), data_base64: "iVBORw0KGgo=".into() }).into()
    };
    let mut contents =
        vec![Content::user(vec![Part::text("Look."), picture("image/png"), picture("application/pdf")])];
    let first = drain(client.stream(request(&contents, settings.clone()))).await;
    assert_eq!(first.error, None);
    let (said, results) = turns(&first, picture("image/png"));
    assert_eq!(results.parts.len(), 2, "{first:?}");
    contents.extend([said, results]);
    let forced = GenerationSettings {
        tool_choice: Setting::Set(ToolChoice::Required),
        parallel_calls: Setting::Set(false),
        ..settings.clone()
    };
    let second = drain(client.stream(request(&contents, forced))).await;
    assert_eq!(second.error, None);
    contents.push(turns(&second, picture("image/png")).0);
    contents.push(Content::user_text("And now as JSON."));
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let output = OutputFormat::Json { name: Some("answer".into()), schema: Some(schema), strict: true };
    let settings = GenerationSettings { output: Setting::Set(output), ..settings };
    assert_eq!(drain(client.stream(request(&contents, settings))).await.error, None);
}

/// The model's turn as the agent keeps it, and answers to its calls: a picture and an error.
fn turns(told: &Told, picture: Part) -> (Content, Content) {
    let mut said: Vec<Part> = told.chunks.iter().flat_map(|chunk| chunk.parts.clone()).collect();
    said.retain(|part| !matches!(part.body, Body::Reasoning { seal: None, .. }));
    let calls: Vec<_> = said.iter().filter_map(Part::as_call).cloned().collect();
    let answers = calls.into_iter().enumerate().map(|(number, call)| {
        let (fields, parts) = match number {
            0 => (json!({"output": "see the picture"}), vec![picture.clone()]),
            _ => (json!({"error": "no such thing"}), Vec::new()),
        };
        let response = fields.as_object().unwrap().clone().into();
        Part::response(FunctionResponse { id: call.id, name: call.name, response, parts })
    });
    let answers = Content::user(answers.collect());
    let origin = told.chunks.iter().rev().find_map(|chunk| chunk.origin.clone());
    (Content { origin, ..Content::model(said) }, answers)
}

#[tokio::test]
async fn the_official_sdks_accept_our_requests_and_the_streams_of_our_servers() {
    let mut values = Values::default();
    let args = "{\"path\": \"a\"}";
    let other = |names: &[Value]| names[1]["function"]["name"].as_str().map(str::to_owned);

    let calls = ChatReply::stream().role().text("I look.").call(0, "call_1", "read_file", args);
    let calls = calls.call(1, "call_2", "read_file", "{}").finish("tool_calls").usage(10, 5).done();
    let script = [calls, ChatReply::said("done"), ChatReply::said("{\"a\": \"b\"}")];
    script.iter().for_each(|reply| values.stream("chat", &reply.recording()));
    let server = FakeChat::start(script);
    converse(&super::chat::fixture::client(&server), "m").await;
    (0..3).for_each(|index| values.request("chat", server.body(index)));
    let sent = server.body(0)["tools"].as_array().unwrap().clone();
    assert!(other(&sent).is_some_and(|name| !name.contains(['.', ':'])), "{sent:?}");

    let script = [
        responses_reply()
            .reasoning("I think.", Some("sealed"))
            .text(&["I ", "look."])
            .call("call_1", "read_file", args)
            .call("call_2", "read_file", "{}")
            .usage(10, 5)
            .completed(),
        responses_reply().reasoning("More.", Some("sealed")).text(&["done"]).usage(10, 5).completed(),
        responses_reply().text(&["{\"a\": \"b\"}"]).usage(10, 5).completed(),
    ];
    script.iter().for_each(|reply| values.stream("responses", &reply.clone().into_bytes()));
    let server = FakeResponses::start(script);
    converse(&super::responses::client(&server), super::responses::MODEL).await;
    (0..3).for_each(|index| values.request("responses", server.body(index)));

    let script = [
        MessagesReply::new()
            .thinking(&["I ", "think."], "c2ln")
            .redacted("b3BhcXVl")
            .ping()
            .text(&["I look."])
            .call("toolu_1", "read_file", &json!({"path": "a"}))
            .call("toolu_2", "read_file", &json!({}))
            .stop("tool_use"),
        MessagesReply::new().text(&["done"]).stop("end_turn"),
        MessagesReply::new().text(&["{\"a\": \"b\"}"]).stop("end_turn"),
    ];
    // The SDK takes pings out of a stream before it reads events.
    for reply in &script {
        let text = String::from_utf8(reply.recording()).unwrap();
        let events: Vec<&str> = text.lines().filter(|line| !line.contains("\"ping\"")).collect();
        values.stream("messages", events.join("\n").as_bytes());
    }
    let server = FakeMessages::start(script);
    converse(&super::messages::client(&server), super::messages::SEALED).await;
    (0..3).for_each(|index| values.request("messages", server.request(index).body));
    values.check();
}
