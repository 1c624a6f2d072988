//! Tools for models that have none, over the Chat Completions client.

use std::sync::Arc;

use pollux_domain::content::{Content, FunctionResponse, Part};
use pollux_domain::model::{FinishReason, ModelClient, ModelRequest};
use pollux_domain::tool::{ToolKind, ToolSpec};
use pollux_model::prompt_tools::{PromptTools, ToolStyle};
use pollux_test_support::chat::{ChatReply, FakeChat};
use serde_json::{Value, json};

use super::chat::fixture::{answer, call, client};
use super::fixture::{Told, drain, request};

fn asked(contents: Vec<Content>) -> ModelRequest {
    let tool = ToolSpec {
        name: "read_file".into(),
        display_name: "ReadFile".into(),
        description: "Reads a file.".into(),
        kind: ToolKind::Read,
        parameters: json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}),
        output_is_markdown: false,
        offloads_long_output: false,
    };
    ModelRequest { tools: Arc::new([Arc::new(tool)]), ..request(contents) }
}

fn wrapped(server: &FakeChat, style: ToolStyle) -> PromptTools {
    PromptTools::new(Arc::new(client(server)), style)
}

fn pieces(pieces: &[&str]) -> ChatReply {
    pieces.iter().fold(ChatReply::stream().role(), |reply, piece| reply.text(piece)).finish("stop").done()
}

fn called(told: &Told) -> Vec<(String, Value)> {
    let parts = told.chunks.iter().flat_map(|chunk| &chunk.parts);
    parts
        .filter_map(Part::as_call)
        .filter(|call| call.bad_args.is_none())
        .map(|call| (call.name.clone(), Value::Object(call.args.clone())))
        .collect()
}

async fn told(style: ToolStyle, reply: ChatReply) -> (Told, FakeChat) {
    let server = FakeChat::start([reply]);
    let told = drain(wrapped(&server, style).stream(asked(vec![Content::user_text("hi")]))).await;
    (told, server)
}

#[tokio::test]
async fn a_call_in_a_fence_is_run_once_and_not_shown() {
    let reply = pieces(&[
        "I look",
        ".\n\n`",
        "``tool",
        "_call\n{\"name\": \"read_",
        "file\", \"arguments\": {\"path\": \"a\"}}\n`",
        "``",
        "\n",
    ]);
    let (told, server) = told(ToolStyle::Prompt, reply).await;
    assert_eq!(told.text().trim_end(), "I look.");
    assert_eq!(called(&told), [("read_file".to_owned(), json!({"path": "a"}))]);
    let finish = told.chunks.iter().find_map(|chunk| chunk.finish.clone()).unwrap();
    assert_eq!(finish.reason, FinishReason::ToolCalls);
    let body = server.body(0);
    assert_eq!(body.get("tools"), None);
    let system = body["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("Be kind.\n\n") && system.contains("## read_file\nReads a file."), "{system}");
}

#[tokio::test]
async fn calls_are_read_as_small_models_write_them() {
    for block in [
        "<tool_call>{'name': 'read_file', 'parameters': {'path': 'a',}}</tool_call>",
        "```tool_call\n{\"name\": \"functions.read_file\", \"input\": {\"path\": \"a\"}}",
        "<tool_call>\n{\"tool\": \"read_file\", \"arguments\": \"{\\\"path\\\": \\\"a\\\"}\"}\n</tool_call>",
        "```tool_call\n[{\"function\": {\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}}]\n```",
    ] {
        let (told, _server) = told(ToolStyle::Prompt, pieces(&[block])).await;
        assert_eq!(called(&told), [("read_file".to_owned(), json!({"path": "a"}))], "{block}");
        assert_eq!(told.text(), "", "{block}");
    }
}

#[tokio::test]
async fn history_is_told_in_words() {
    let server = FakeChat::start([ChatReply::said("ok")]);
    let history = vec![
        Content::user_text("hi"),
        Content::model(vec![Part::text("I look."), call(Some("1"), "read_file", json!({"path": "a"}))]),
        Content::user(vec![answer(Some("1"), "read_file", "x</tool_result>y", Vec::new())]),
    ];
    drain(wrapped(&server, ToolStyle::Prompt).stream(asked(history))).await;
    let messages = server.messages(0);
    assert_eq!(
        messages[2]["content"],
        json!("I look.\n```tool_call\n{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}\n```")
    );
    let result = "<tool_result name=\"read_file\" id=\"1\">\nx<\\/tool_result>y\n</tool_result>";
    assert_eq!(messages[3]["content"], json!(result));
}

#[tokio::test]
async fn invalid_calls_are_explained_and_the_third_in_a_row_ends_the_turn() {
    let invalid = || pieces(&["<tool_call>{\"name\": \"read_file\", \"arguments\": {}}</tool_call>"]);
    let server = FakeChat::start([invalid(), invalid(), invalid()]);
    let client = wrapped(&server, ToolStyle::Prompt);
    let mut history = vec![Content::user_text("hi")];
    for round in 1..=3 {
        let told = drain(client.stream(asked(history.clone()))).await;
        let finish = told.chunks.iter().find_map(|chunk| chunk.finish.clone()).unwrap().reason;
        let part = told.chunks.iter().flat_map(|chunk| &chunk.parts).next().unwrap().clone();
        if round == 3 {
            assert!(told.text().starts_with("The model wrote three invalid tool calls"), "{}", told.text());
            assert_eq!((part.as_call(), finish), (None, FinishReason::Stop));
            break;
        }
        let bad = part.as_call().unwrap().bad_args.clone().unwrap();
        assert!(bad.error.contains("`path` is missing; the schema is {"), "{}", bad.error);
        let Value::Object(error) = json!({"error": format!("not run ({})", bad.error)}) else { panic!() };
        let response = FunctionResponse {
            id: None,
            name: "read_file".into(),
            response: error.into(),
            parts: Vec::new(),
        };
        history.extend([Content::model(vec![part]), Content::user(vec![Part::response(response)])]);
    }
}

#[tokio::test]
async fn a_server_that_refuses_tools_is_asked_in_words_from_then_on() {
    let refusal = "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set";
    let call =
        || pieces(&["<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>"]);
    let server = FakeChat::start([ChatReply::error(400, refusal), call(), call()]);
    let client = wrapped(&server, ToolStyle::Native);
    for _ in 0..2 {
        let told = drain(client.stream(asked(vec![Content::user_text("hi")]))).await;
        assert_eq!((called(&told).len(), told.error), (1, None));
    }
    let with_tools: Vec<bool> = (0..3).map(|index| server.body(index).get("tools").is_some()).collect();
    assert_eq!(with_tools, [true, false, false]);
}

#[tokio::test]
async fn calls_that_leak_into_the_text_of_a_native_model_are_calls() {
    let leaked = pieces(&[
        "so <tool_",
        "call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>",
    ]);
    let (told, _server) = told_native(leaked).await;
    assert_eq!((told.text().as_str(), called(&told).len()), ("so ", 1));
    let prose = "write <tool_call>{\"name\": \"x\"}</tool_call> like this";
    let (told, _server) = told_native(pieces(&[prose])).await;
    assert_eq!(told.text(), "write <tool_call>{\"name\": \"x\"}</tool_call> like this");
    let (told, _server) = told_native(pieces(&["```tool_call\n{}\n```"])).await;
    assert_eq!(told.text(), "```tool_call\n{}\n```");
}

async fn told_native(reply: ChatReply) -> (Told, FakeChat) {
    told(ToolStyle::Native, reply).await
}

#[tokio::test]
async fn whole_replies_and_requests_without_tools_work_too() {
    let call =
        || pieces(&["a\n```tool_call\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```"]);
    let server = FakeChat::start([call(), call()]);
    let client = wrapped(&server, ToolStyle::Prompt);
    let chunk = client.generate(asked(vec![Content::user_text("hi")])).await.unwrap();
    assert_eq!((chunk.parts.len(), chunk.parts[0].spoken_text()), (2, Some("a\n")));
    let plain = ModelRequest { tools: Arc::new([]), ..request(vec![Content::user_text("hi")]) };
    let chunk = client.generate(plain).await.unwrap();
    assert!(chunk.parts[0].spoken_text().unwrap().contains("```tool_call"));
    assert!(client.resolve("x").caps.tools);
}
