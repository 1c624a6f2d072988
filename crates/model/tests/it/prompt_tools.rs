//! Tools for models that have none, over the Chat Completions client.

use std::sync::Arc;

use pollux_domain::content::{Content, FunctionResponse, Part};
use pollux_domain::model::{FinishReason, ModelClient, ModelRequest};
use pollux_domain::tool::{ToolKind, ToolSpec};
use pollux_model::prompt_tools::{PromptTools, ToolPlan};
use pollux_model::providers::ToolMode;
use pollux_test_support::chat::{ChatReply, FakeChat};
use serde_json::{Value, json};

use super::chat::fixture::{answer, call, client, client_of};
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

fn wrapped(server: &FakeChat, style: ToolPlan) -> PromptTools {
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

async fn told(style: ToolPlan, reply: ChatReply) -> (Told, FakeChat) {
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
    let (told, server) = told(ToolPlan::fixed(ToolMode::Prompt), reply).await;
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
        let (told, _server) = told(ToolPlan::fixed(ToolMode::Prompt), pieces(&[block])).await;
        assert_eq!(called(&told), [("read_file".to_owned(), json!({"path": "a"}))], "{block}");
        assert_eq!(told.text(), "", "{block}");
    }
}

#[tokio::test]
async fn tool_calls_in_the_history_become_text() {
    let server = FakeChat::start([ChatReply::said("ok")]);
    let history = vec![
        Content::user_text("hi"),
        Content::model(vec![Part::text("I look."), call(Some("1"), "read_file", json!({"path": "a"}))]),
        Content::user(vec![answer(Some("1"), "read_file", "x</tool_result>y", Vec::new())]),
    ];
    drain(wrapped(&server, ToolPlan::fixed(ToolMode::Prompt)).stream(asked(history))).await;
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
    let client = wrapped(&server, ToolPlan::fixed(ToolMode::Prompt));
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
async fn a_server_that_refuses_tools_gets_them_in_the_prompt_from_then_on() {
    let refusal = "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set";
    let call =
        || pieces(&["<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>"]);
    let server = FakeChat::start([ChatReply::error(400, refusal), call(), call()]);
    let client = wrapped(&server, ToolPlan::fixed(ToolMode::Native));
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
    told(ToolPlan::fixed(ToolMode::Native), reply).await
}

#[tokio::test]
async fn whole_replies_and_requests_without_tools_work_too() {
    let call =
        || pieces(&["a\n```tool_call\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```"]);
    let server = FakeChat::start([call(), call()]);
    let client = wrapped(&server, ToolPlan::fixed(ToolMode::Prompt));
    let chunk = client.generate(asked(vec![Content::user_text("hi")])).await.unwrap();
    assert_eq!((chunk.parts.len(), chunk.parts[0].spoken_text()), (2, Some("a\n")));
    let plain = ModelRequest { tools: Arc::new([]), ..request(vec![Content::user_text("hi")]) };
    let chunk = client.generate(plain).await.unwrap();
    assert!(chunk.parts[0].spoken_text().unwrap().contains("```tool_call"));
    assert!(client.resolve("x").caps.tools);
}

/// A client of llama.cpp's or Ollama's server that asks it first.
fn probing(server: &FakeChat, provider: &'static str, mode: Option<ToolMode>, grammar: bool) -> PromptTools {
    let chat = Arc::new(client_of(server, provider));
    let plan = ToolPlan { mode: Arc::new(move |_| mode), grammar };
    PromptTools::probing(Arc::clone(&chat) as Arc<dyn ModelClient>, plan, chat)
}

fn props(tools: bool) -> ChatReply {
    ChatReply::json(
        200,
        &json!({"default_generation_settings": {"n_ctx": 4096},
            "chat_template_caps": {"supports_tools": tools, "supports_tool_calls": tools}}),
    )
}

fn fenced() -> ChatReply {
    pieces(&["```tool_call\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```"])
}

fn notices(told: &Told) -> Vec<&str> {
    told.waits.iter().filter(|wait| wait.delay.is_zero()).map(|wait| wait.cause.as_str()).collect()
}

#[tokio::test]
async fn a_template_without_tools_is_detected_before_the_first_request() {
    let server = FakeChat::start([props(false), fenced(), fenced()]);
    let client = probing(&server, "llamacpp", None, false);
    let told = drain(client.stream(asked(vec![Content::user_text("hi")]))).await;
    assert_eq!(called(&told).len(), 1);
    assert_eq!(
        notices(&told),
        [
            "This server has no native tool calls for gemini-2.5-pro; tools are described in the prompt instead."
        ]
    );
    assert_eq!(client.resolve("gemini-2.5-pro").context_window, 4096);
    let told = drain(client.stream(asked(vec![Content::user_text("hi")]))).await;
    assert_eq!((called(&told).len(), notices(&told).len()), (1, 0));
    let paths: Vec<String> = server.requests().iter().map(|request| request.path.clone()).collect();
    assert_eq!(paths, ["/props", "/v1/chat/completions", "/v1/chat/completions"]);
}

#[tokio::test]
async fn user_settings_take_precedence_over_the_server() {
    let native =
        ChatReply::stream().role().call(0, "1", "read_file", "{\"path\": \"a\"}").finish("tool_calls").done();
    let server = FakeChat::start([props(false), native]);
    let client = probing(&server, "llamacpp", Some(ToolMode::Native), false);
    let told = drain(client.stream(asked(vec![Content::user_text("hi")]))).await;
    assert_eq!(called(&told).len(), 1);
    assert!(server.body(1).get("tools").is_some());
}

#[tokio::test]
async fn a_server_that_loads_its_model_is_asked_again_before_the_request() {
    let loading = || {
        let error = json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}});
        ChatReply::json(503, &error)
    };
    let server = FakeChat::start([loading(), props(true), ChatReply::said("hello")]);
    let client = probing(&server, "llamacpp", None, false);
    let told = drain(client.stream(asked(vec![Content::user_text("hi")]))).await;
    assert_eq!(told.text(), "hello");
    assert_eq!(notices(&told), ["The server is loading the model; waiting up to 120 s."]);
}

#[tokio::test]
async fn a_small_ollama_window_is_reported_once_with_the_fix() {
    let show =
        ChatReply::json(200, &json!({"model_info": {"x.context_length": 40960}, "capabilities": ["tools"]}));
    let running =
        ChatReply::json(200, &json!({"models": [{"name": "gemini-2.5-pro", "context_length": 4096}]}));
    let server = FakeChat::start([show, running, ChatReply::said("a"), ChatReply::said("b")]);
    let client = probing(&server, "ollama", None, false);
    let mut lines = Vec::new();
    for _ in 0..2 {
        let told = drain(client.stream(asked(vec![Content::user_text("hi")]))).await;
        lines.extend(notices(&told).into_iter().map(str::to_owned));
    }
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("4096") && lines[0].contains("OLLAMA_CONTEXT_LENGTH=64000 ollama serve"));
    assert!(server.body(2).get("tools").is_some());
}

#[tokio::test]
async fn a_model_that_only_describes_calls_gets_tools_in_the_prompt_with_one_notice() {
    let described = || {
        let text = "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```";
        [Content::user_text("go on"), Content::model(vec![Part::text(text)])]
    };
    let mut history: Vec<Content> = described().into_iter().collect();
    history.push(Content::user_text("go on"));
    let server = FakeChat::start([ChatReply::said("a"), fenced(), fenced()]);
    let client = probing(&server, "lab", None, false);
    assert_eq!(
        notices(&drain(client.stream(asked(history.clone()))).await).len(),
        0,
        "once may be an accident"
    );
    history = described().into_iter().chain(described()).chain([Content::user_text("go on")]).collect();
    let told = drain(client.stream(asked(history.clone()))).await;
    assert_eq!((called(&told).len(), notices(&told).len()), (1, 1));
    let told = drain(client.stream(asked(vec![Content::user_text("hi")]))).await;
    assert_eq!((called(&told).len(), notices(&told).len()), (1, 0));
    let with_tools: Vec<bool> = (0..3).map(|index| server.body(index).get("tools").is_some()).collect();
    assert_eq!(with_tools, [true, false, false]);
}

#[tokio::test]
async fn a_model_without_tools_gets_none() {
    let block = "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>";
    let (told, server) = told(ToolPlan::fixed(ToolMode::None), pieces(&[block])).await;
    assert_eq!((told.text().as_str(), called(&told).len()), (block, 0));
    assert_eq!(server.body(0).get("tools"), None);
    assert!(!server.body(0)["messages"][0]["content"].as_str().unwrap().contains("read_file"));
    assert!(!wrapped(&server, ToolPlan::fixed(ToolMode::None)).resolve("m").caps.tools);
}

#[tokio::test]
async fn a_call_is_constrained_by_a_grammar_if_the_server_supports_it() {
    let begun = ChatReply::stream()
        .role()
        .text("I look.\n")
        .text("```tool_")
        .text("call\n{\"na")
        .text("me\": nonsense");
    let begun = begun.wait(50).text(" and more nonsense").finish("length").done();
    let call = pieces(&["{\"name\": \"read_file\", ", "\"arguments\": {\"path\": \"a\"}}"]);
    let server = FakeChat::start([begun, call]);
    let client = probing(&server, "lab", Some(ToolMode::Prompt), true);
    let told = drain(client.stream(asked(vec![Content::user_text("hi")]))).await;
    assert_eq!(told.error, None);
    assert_eq!(told.text().trim(), "I look.");
    assert_eq!(called(&told), [("read_file".to_owned(), json!({"path": "a"}))]);
    let finish = told.chunks.iter().find_map(|chunk| chunk.finish.clone()).unwrap();
    assert_eq!(finish.reason, FinishReason::ToolCalls);
    assert_eq!(server.body(0).get("response_format"), None, "the free part is not constrained");
    let second = server.body(1);
    let schema = &second["response_format"]["json_schema"]["schema"]["oneOf"][0];
    assert_eq!(schema["properties"]["name"]["enum"], json!(["read_file"]));
    assert_eq!(schema["properties"]["arguments"]["required"], json!(["path"]));
    let messages = second["messages"].as_array().unwrap();
    assert_eq!(messages[messages.len() - 2]["content"], json!("I look."));
    assert!(messages.last().unwrap()["content"].as_str().unwrap().starts_with("Write the tool call now"));
}

#[tokio::test]
async fn a_server_without_grammars_gets_the_call_request_in_the_prompt() {
    let begun = || ChatReply::stream().role().text("<tool_call>{").wait(50).text("x").finish("stop").done();
    let call = || pieces(&["Here: {\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}"]);
    let server = FakeChat::start([begun(), ChatReply::error(400, "grammars are off"), call(), fenced()]);
    let client = probing(&server, "lab", Some(ToolMode::Prompt), true);
    for _ in 0..2 {
        let told = drain(client.stream(asked(vec![Content::user_text("hi")]))).await;
        assert_eq!((called(&told).len(), &told.error), (1, &None));
    }
    let constrained: Vec<bool> = (0..4).map(|at| server.body(at).get("response_format").is_some()).collect();
    assert_eq!(constrained, [false, true, false, false]);
}
