//! What is sent.

use std::sync::Arc;

use pollux_domain::content::{Blob, Body, Content, Part, Seal, SealKind};
use pollux_domain::model::{
    Dialect, Effort, GenerationSettings, InfoSource, ModelClient, ModelInfo, ModelRequest, Origin,
    OutputFormat, ProviderId, Setting, ToolChoice,
};
use pollux_domain::tool::{ToolKind, ToolSpec};
use pollux_model::chat::ChatClient;
use pollux_test_support::chat::{ChatReply, FakeChat};
use serde_json::{Value, json};

use super::super::fixture::{drain, prompt, request};
use super::fixture::{answer, call, client_of, endpoint, sent, with_model};

fn tool(name: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.into(),
        display_name: name.into(),
        description: "Does it.".into(),
        kind: ToolKind::Other,
        parameters: json!({"$schema": "x", "title": "T", "properties": {"a": {"type": "string"}}}),
        output_is_markdown: false,
        offloads_long_output: false,
    })
}

fn png() -> Part {
    Body::InlineData(Blob { mime_type: "image/png".into(), data_base64: "iVBORw0KGgo=".into() }).into()
}

fn media(mime_type: &str) -> Part {
    Body::InlineData(Blob { mime_type: mime_type.into(), data_base64: "QUJD".into() }).into()
}

/// A turn of the model's as the client would tell it.
fn from_server(server: &FakeChat, provider: &'static str, model: &str, parts: Vec<Part>) -> Content {
    let host = server.url().trim_end_matches("/v1").to_owned();
    let (provider, dialect, model) = (ProviderId::known(provider), Dialect::CHAT, model.to_owned());
    let origin = Origin { provider, dialect, host, model, response_id: None, phase: None };
    Content { origin: Some(Arc::new(origin)), ..Content::model(parts) }
}

#[tokio::test]
async fn a_plain_request_says_no_more_than_it_must() {
    let body = sent("lab", prompt("hi")).await;
    let expected = json!({
        "model": "gemini-2.5-pro", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "read_file", "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {}}}}],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn settings_are_translated_also_from_geminis_words() {
    let words = json!({"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 99, "stopSequences": ["x"],
        "thinkingConfig": {"thinkingBudget": 20_000}, "safetySettings": [], "labels": {},
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}});
    let mut settings = GenerationSettings::in_words_of(Dialect::GEMINI, words.as_object().unwrap().clone());
    settings.sampling.seed = Setting::Set(7);
    settings.parallel_calls = Setting::Set(false);
    settings.cache_key = Setting::Set("session".into());
    let body = sent("lab", ModelRequest { settings, ..prompt("hi") }).await;
    for (key, value) in [
        ("temperature", json!(0.5)),
        ("top_p", json!(0.9)),
        ("max_tokens", json!(99)),
        ("stop", json!(["x"])),
        ("seed", json!(7)),
        ("reasoning_effort", json!("high")),
        ("tool_choice", json!("required")),
        ("parallel_tool_calls", json!(false)),
        ("prompt_cache_key", json!(null)),
        ("store", json!(null)),
    ] {
        assert_eq!(body[key], value, "{key}");
    }
    let mut extra = prompt("hi");
    extra.settings.effort = Setting::Set(Effort::Max);
    extra.settings.extra.insert(Dialect::CHAT, json!({"top_p": 0.1}).as_object().unwrap().clone());
    let body = sent("openrouter", extra).await;
    assert_eq!((&body["reasoning"], &body["top_p"]), (&json!({"effort": "high"}), &json!(0.1)));
}

#[tokio::test]
async fn output_can_be_held_to_a_schema() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let mut asked = prompt("hi");
    asked.settings.output =
        Setting::Set(OutputFormat::Json { name: None, schema: Some(schema.clone()), strict: true });
    let body = sent("lab", asked).await;
    let format = json!({"name": "reply", "schema": schema, "strict": true});
    assert_eq!(body["response_format"], json!({"type": "json_schema", "json_schema": format}));
}

#[tokio::test]
async fn turns_of_one_speaker_are_one_and_empty_ones_are_left_out() {
    let body = sent(
        "lab",
        request(vec![
            Content::user_text("one"),
            Content::user(vec![Part::text(""), Part::text("two")]),
            Content::model(vec![Part::text("")]),
            Content::model(vec![Body::Reasoning { text: "why".into(), summary: false, seal: None }.into()]),
            Content::user_text("three"),
            Content::model(vec![Part::text("a"), Part::text("b")]),
            Content::user_text("four"),
        ]),
    )
    .await;
    let expected = json!([
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": "one\ntwo\nthree"},
        {"role": "assistant", "content": "ab"}, {"role": "user", "content": "four"}
    ]);
    assert_eq!(body["messages"], expected);
}

#[tokio::test]
async fn calls_are_answered_right_after_them_and_pictures_follow_all_answers() {
    let body = sent(
        "lab",
        request(vec![
            Content::user_text("look"),
            Content::model(vec![
                call(Some("read_file__a"), "read_file", json!({"path": "x.png"})),
                call(Some("read_file__b"), "read_file", json!({})),
                call(Some("read_file__c"), "read_file", json!({})),
            ]),
            Content::user(vec![
                Part::text("and hurry"),
                answer(Some("read_file__b"), "read_file", "two", Vec::new()),
                answer(Some("read_file__a"), "read_file", "one", vec![png()]),
            ]),
        ]),
    )
    .await;
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[2]["content"], json!(null));
    let arguments = messages[2]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert_eq!(arguments, "{\"path\":\"x.png\"}");
    let expected = json!([
        {"role": "tool", "tool_call_id": "a", "content": "one\n[attachment: see the next message]"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
        {"role": "tool", "tool_call_id": "c", "content": "[no result: the tool call was interrupted]"},
        {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            {"type": "text", "text": "and hurry"}]},
    ]);
    assert_eq!(Value::from(messages[3..].to_vec()), expected);
}

#[tokio::test]
async fn media_are_sent_as_the_model_takes_them() {
    let parts = ["application/pdf", "audio/mpeg", "video/mp4"].map(media).to_vec();
    let body = sent("lab", request(vec![Content::user(parts)])).await;
    let expected = json!([
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
        {"type": "text", "text": "[video/mp4 attachment omitted: this model does not support it.]"},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
}

#[tokio::test]
async fn a_model_without_pictures_gets_a_note() {
    let server = FakeChat::start([ChatReply::said("ok")]);
    let mut endpoint = endpoint(&server, "lab");
    endpoint.facts = Arc::new(|name| ModelInfo::unknown(name, ProviderId::known("lab"), Dialect::CHAT));
    let history = vec![
        Content::user(vec![png()]),
        Content::model(vec![call(Some("a"), "read_file", json!({}))]),
        Content::user(vec![answer(Some("a"), "read_file", "", vec![png()])]),
    ];
    drain(ChatClient::new(endpoint).unwrap().stream(request(history))).await;
    let note = "[image/png attachment omitted: this model does not support it.]";
    let messages = server.messages(0);
    assert_eq!((&messages[1]["content"], &messages[3]["content"]), (&json!(note), &json!(note)));
    assert!(!server.body(0).to_string().contains("iVBOR"));
}

#[tokio::test]
async fn arguments_that_could_not_be_read_are_replayed_as_none() {
    let bad = pollux_domain::content::FunctionCall::from_text(Some("a".into()), "read_file", "{\"path\": ");
    assert!(bad.bad_args.is_some());
    let history = vec![
        Content::user_text("hi"),
        Content::model(vec![Part::call(bad)]),
        Content::user(vec![answer(Some("a"), "read_file", "not valid", Vec::new())]),
    ];
    let body = sent("lab", request(history)).await;
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["arguments"], json!("{}"));
}

#[tokio::test]
async fn reasoning_goes_back_to_the_server_that_wants_it_and_to_no_other() {
    for (provider, model) in [("deepseek", "deepseek-v4"), ("lab", "kimi-k3")] {
        let thinking = ChatReply::stream()
            .role()
            .delta(&json!({"reasoning_content": "I should "}))
            .delta(&json!({"reasoning_content": "look."}))
            .call(0, "a", "read_file", "{}")
            .finish("tool_calls")
            .done();
        let server = FakeChat::start([thinking, ChatReply::said("ok")]);
        let client = client_of(&server, provider);
        let told = drain(client.stream(with_model(model, vec![Content::user_text("hi")]))).await;
        let origin = told.chunks[0].origin.clone();
        let parts: Vec<Part> = told.chunks.into_iter().flat_map(|chunk| chunk.parts).collect();
        let history = vec![
            Content::user_text("hi"),
            Content { origin, ..Content::model(parts) },
            Content::user(vec![answer(Some("a"), "read_file", "x", Vec::new())]),
            Content::model(vec![call(Some("b"), "read_file", json!({}))]),
            Content::user(vec![answer(Some("b"), "read_file", "y", Vec::new())]),
        ];
        drain(client.stream(with_model(model, history.clone()))).await;
        let messages = server.messages(1);
        assert_eq!(messages[2]["reasoning_content"], json!("I should look."), "{provider}");
        assert_eq!(messages[4]["reasoning_content"], json!(""), "{provider}: there was none");
        let elsewhere = sent("openrouter", with_model("x", history)).await.to_string();
        assert!(!elsewhere.contains("I should") && !elsewhere.contains("reasoning_content"));
    }
}

#[tokio::test]
async fn details_go_back_to_the_model_they_came_from() {
    let server = FakeChat::start([ChatReply::said("ok"), ChatReply::said("ok")]);
    let details = json!([{"type": "reasoning.encrypted", "data": "x"}]);
    let seal = Some(Seal { kind: SealKind::ReasoningDetails, data: details.clone() });
    let sealed: Part = Body::Reasoning { text: String::new(), summary: false, seal }.into();
    let turn = || from_server(&server, "openrouter", "a/b", vec![sealed.clone(), Part::text("so")]);
    let client = client_of(&server, "openrouter");
    for model in ["a/b", "c/d"] {
        let history = vec![Content::user_text("hi"), turn(), Content::user_text("go on")];
        drain(client.stream(with_model(model, history))).await;
    }
    assert_eq!(server.messages(0)[2]["reasoning_details"], details);
    assert_eq!(server.messages(1)[2].get("reasoning_details"), None);
    assert_eq!(server.requests()[0].header("x-title"), Some("Pollux"));
}

#[tokio::test]
async fn nine_character_ids_stay_apart() {
    let history = vec![
        Content::user_text("hi"),
        Content::model(vec![
            call(Some("call_abcdefgh1"), "read_file", json!({})),
            call(Some("call_abcdefgh2"), "read_file", json!({})),
        ]),
        Content::user(vec![
            answer(Some("call_abcdefgh1"), "read_file", "1", Vec::new()),
            answer(Some("call_abcdefgh2"), "read_file", "2", vec![png()]),
        ]),
    ];
    let body = sent("mistral", with_model("devstral", history)).await;
    let calls = body["messages"][2]["tool_calls"].as_array().unwrap();
    let ids: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.len() == 9), "{ids:?}");
    assert_eq!(
        (&body["messages"][3]["tool_call_id"], &body["messages"][4]["tool_call_id"]),
        (&json!(ids[0]), &json!(ids[1]))
    );
    assert_eq!(body["messages"][5]["role"], json!("assistant"), "a person may not follow a tool there");
    assert_eq!(body.get("stream_options"), None);
}

#[tokio::test]
async fn made_ids_are_the_same_after_a_resume() {
    let history = || {
        vec![
            Content::user_text("hi"),
            Content::model(vec![call(None, "read_file", json!({})), call(None, "read_file", json!({}))]),
            Content::user(vec![
                answer(None, "read_file", "1", Vec::new()),
                answer(None, "read_file", "2", Vec::new()),
            ]),
        ]
    };
    let first = sent("lab", request(history())).await;
    let mut longer = history();
    longer.extend([Content::model(vec![Part::text("so")]), Content::user_text("go on")]);
    let second = sent("lab", request(longer)).await;
    let shared = first["messages"].as_array().unwrap().len();
    assert_eq!(first["messages"].as_array().unwrap()[..], second["messages"].as_array().unwrap()[..shared]);
}

#[tokio::test]
async fn names_of_tools_fit_the_wire_and_calls_come_back_to_them() {
    let own = format!("srv.do:it{}", "x".repeat(71));
    let ask = || ModelRequest { tools: Arc::new([tool(&own)]), ..prompt("hi") };
    let wire = sent("lab", ask()).await["tools"][0]["function"]["name"].as_str().unwrap().to_owned();
    assert!(wire.len() <= 64, "{wire}");
    let server = FakeChat::start([ChatReply::stream().call(0, "a", &wire, "{}").finish("tool_calls").done()]);
    let told = drain(client_of(&server, "lab").stream(ask())).await;
    assert_eq!(told.chunks[0].parts[0].as_call().unwrap().name, own);
}

#[tokio::test]
async fn a_choice_of_tools_is_made_as_the_server_knows_it() {
    let ask = |choice: ToolChoice| {
        let mut request = ModelRequest { tools: Arc::new([tool("one"), tool("two")]), ..prompt("hi") };
        request.settings.tool_choice = Setting::Set(choice);
        request
    };
    let only = json!({"type": "function", "function": {"name": "two"}});
    assert_eq!(sent("lab", ask(ToolChoice::Only("two".into()))).await["tool_choice"], only);
    assert_eq!(sent("lab", ask(ToolChoice::None)).await["tool_choice"], json!("none"));
    assert_eq!(sent("mistral", ask(ToolChoice::Required)).await["tool_choice"], json!("any"));
    let some = ToolChoice::Allowed { names: vec!["two".into()], required: true };
    let body = sent("lab", ask(some)).await;
    assert_eq!((body["tools"].as_array().unwrap().len(), &body["tool_choice"]), (1, &json!("required")));
    let body = sent("ollama", ask(ToolChoice::Only("two".into()))).await;
    assert_eq!(body.get("tool_choice"), None);
    let said = body["messages"][1]["content"].as_str().unwrap();
    assert!(said.starts_with("hi\n\n") && said.contains("`two`"), "{said}");
    assert_eq!(sent("ollama", ask(ToolChoice::None)).await.get("tools"), None);
}

#[tokio::test]
async fn strict_tools_are_declared_and_nulls_taken_back() {
    let reply = ChatReply::stream().call(0, "a", "one", "{\"a\":null}").finish("tool_calls").done();
    let server = FakeChat::start([reply]);
    let mut endpoint = endpoint(&server, "lab");
    endpoint.traits.strict_tools = true;
    let request = ModelRequest { tools: Arc::new([tool("one")]), ..prompt("hi") };
    let told = drain(ChatClient::new(endpoint).unwrap().stream(request)).await;
    let function = &server.body(0)["tools"][0]["function"];
    assert_eq!((&function["strict"], &function["parameters"]["required"]), (&json!(true), &json!(["a"])));
    assert!(told.chunks[0].parts[0].as_call().unwrap().args.is_empty());
}

#[tokio::test]
async fn tokens_are_estimated_without_pictures_as_text() {
    let server = FakeChat::start([]);
    let client = client_of(&server, "lab");
    let few = client.count_tokens(prompt("hi")).await.unwrap();
    let many = client.count_tokens(prompt(&"word ".repeat(4000))).await.unwrap();
    let large = Part::from(Body::InlineData(Blob {
        mime_type: "image/png".into(),
        data_base64: "A".repeat(400_000),
    }));
    let picture = client.count_tokens(request(vec![Content::user(vec![large])])).await.unwrap();
    assert!(few > 0 && many > few + 4000 && picture < few + 2000, "{few} {many} {picture}");
    assert!(server.requests().is_empty());
    assert_eq!(client.resolve("x").source, InfoSource::Catalogue);
}
