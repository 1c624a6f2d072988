//! What the client sends.

use std::sync::Arc;

use pollux_config::groups::Secret;
use pollux_domain::content::{Blob, Body, Content, FunctionCall, FunctionResponse, Part};
use pollux_domain::id::CallId;
use pollux_domain::model::{
    Capabilities, Dialect, Effort, GenerationSettings, Grounding, ModelClient, ModelRequest, Origin,
    OutputFormat, Setting, ToolChoice,
};
use pollux_domain::tool::ToolSpec;
use pollux_model::responses::ResponsesClient;
use pollux_test_support::{FakeResponses, ResponsesReply, responses_reply};
use serde_json::{Value, json};

use super::{Told, client, info, options, prompt, request};
use crate::it::fixture::drain;

/// The model's turn as the agent keeps it, and answers to all of its calls.
fn turns(told: &Told) -> Vec<Content> {
    let mut said: Vec<Part> = Vec::new();
    for part in told.chunks.iter().flat_map(|chunk| &chunk.parts) {
        match (&part.body, said.last_mut().map(|last| &mut last.body)) {
            (Body::Reasoning { seal: None, .. }, _) => {}
            (Body::Text(more), Some(Body::Text(text))) => text.push_str(more),
            _ => said.push(part.clone()),
        }
    }
    let mut answers = Vec::new();
    for (number, part) in said.iter_mut().enumerate() {
        if let Body::Call(call) = &mut part.body {
            let raw = call.id.clone().unwrap_or_else(|| format!("made-up-{number}"));
            let id = CallId::new(&call.name, &raw).as_str().to_owned();
            call.id = Some(id.clone());
            answers.push(answer(&id, &call.name, json!({"output": "text"}), Vec::new()));
        }
    }
    let origin = told.chunks.iter().rev().find_map(|chunk| chunk.origin.clone());
    let model = Content { origin, ..Content::model(said) };
    if answers.is_empty() { vec![model] } else { vec![model, Content::user(answers)] }
}

fn answer(id: &str, name: &str, fields: Value, parts: Vec<Part>) -> Part {
    let response = fields.as_object().unwrap().clone().into();
    Part::response(FunctionResponse { id: Some(id.into()), name: name.into(), response, parts })
}

fn items(body: &Value) -> Vec<&str> {
    body["input"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

/// Asks once, then again with the conversation so far.
async fn ask_twice(
    server: &FakeResponses,
    client: &ResponsesClient,
    second: &dyn ModelClient,
) -> (Told, Value) {
    let first = drain(client.stream(prompt("go"))).await;
    let mut history = vec![Content::user_text("go")];
    history.extend(turns(&first));
    if history.len() == 2 {
        history.push(Content::user_text("and now?"));
    }
    let told = drain(second.stream(request(history))).await;
    let sent = server.requests().pop().unwrap().body;
    (told, sent)
}

#[tokio::test]
async fn a_request_says_all_it_must_and_nothing_is_kept_on_the_server() {
    let server = FakeResponses::start([responses_reply().text(&["x"])]);
    let mut asked = prompt("hi");
    asked.settings.cache_key = Setting::Set("session-1".into());
    asked.settings.effort = Setting::Set(Effort::Max);
    asked.settings.max_output = Setting::Set(4000);
    asked.settings.sampling.temperature = Setting::Set(1.into());
    drain(client(&server).stream(asked)).await;
    let expected = json!({
        "model": "gpt-5.6-sol",
        "instructions": "Be kind.",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "tools": [{"type": "function", "name": "read_file", "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {}}, "strict": false}],
        "parallel_tool_calls": true,
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
        "max_output_tokens": 4000,
        "prompt_cache_key": "session-1",
        "truncation": "disabled",
    });
    assert_eq!(server.body(0), expected);
    let sent = server.requests().remove(0);
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/responses"));
    assert_eq!(sent.header("authorization"), Some("Bearer sk-secret-0123456789"));
}

#[tokio::test]
async fn choices_of_tools_and_forms_of_replies_are_written_flat() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let json_of = |schema| OutputFormat::Json { name: None, schema, strict: true };
    let allowed = |required| ToolChoice::Allowed { names: vec!["read_file".into()], required };
    let named = json!([{"type": "function", "name": "read_file"}]);
    let cases = [
        (Some(ToolChoice::Auto), None, json!("auto"), Value::Null),
        (Some(ToolChoice::None), None, json!("none"), Value::Null),
        (Some(ToolChoice::Required), None, json!("required"), Value::Null),
        (Some(ToolChoice::Only("read_file".into())), None, named[0].clone(), Value::Null),
        (
            Some(allowed(true)),
            None,
            json!({"type": "allowed_tools", "mode": "required", "tools": named}),
            Value::Null,
        ),
        (
            Some(allowed(false)),
            None,
            json!({"type": "allowed_tools", "mode": "auto", "tools": named}),
            Value::Null,
        ),
        (None, Some(json_of(None)), Value::Null, json!({"type": "json_object"})),
        (
            None,
            Some(json_of(Some(schema.clone()))),
            Value::Null,
            json!({"type": "json_schema", "name": "reply", "schema": schema, "strict": true}),
        ),
    ];
    let server = FakeResponses::start(cases.iter().map(|_| responses_reply().text(&["x"])));
    for (number, (choice, output, sent_choice, format)) in cases.into_iter().enumerate() {
        let mut asked = prompt("hi");
        asked.settings.tool_choice = choice.map_or(Setting::Inherit, Setting::Set);
        asked.settings.output = output.map_or(Setting::Inherit, Setting::Set);
        asked.settings.parallel_calls = Setting::Set(false);
        drain(client(&server).stream(asked)).await;
        let body = server.body(number);
        assert_eq!((&body["tool_choice"], &body["text"]["format"]), (&sent_choice, &format));
        assert_eq!(body["parallel_tool_calls"], false);
    }
}

#[tokio::test]
async fn geminis_words_are_translated_and_own_words_are_added() {
    let server = FakeResponses::start([responses_reply().text(&["x"])]);
    let words = |value: Value| value.as_object().unwrap().clone();
    let mut settings = GenerationSettings::in_words_of(
        Dialect::GEMINI,
        words(json!({"maxOutputTokens": 99, "temperature": 0.5, "safetySettings": [], "labels": {"a": "b"},
            "thinkingConfig": {"thinkingLevel": "LOW"}})),
    );
    settings.lay(GenerationSettings::in_words_of(
        Dialect::RESPONSES,
        words(
            json!({"service_tier": "flex", "store": true, "previous_response_id": "x", "truncation": null}),
        ),
    ));
    drain(client(&server).stream(ModelRequest { settings, ..prompt("hi") })).await;
    let body = server.body(0);
    assert_eq!(body["max_output_tokens"], 99);
    assert_eq!(body["reasoning"]["effort"], "low");
    assert_eq!((&body["service_tier"], &body["store"]), (&json!("flex"), &json!(false)));
    for absent in ["temperature", "labels", "safetySettings", "previous_response_id", "truncation"] {
        assert_eq!(body.get(absent), None, "{absent}");
    }
}

#[tokio::test]
async fn a_model_without_reasoning_or_tools_is_not_asked_for_them() {
    let server = FakeResponses::start([responses_reply().text(&["x"])]);
    let mut endpoint = options(&server);
    endpoint.facts = Arc::new(|name| {
        let caps = Capabilities { tools: true, sampling: true, ..Capabilities::default() };
        pollux_domain::model::ModelInfo { caps, ..info(name) }
    });
    let mut asked = ModelRequest { tools: Arc::new([]), system: None, ..prompt("hi") };
    asked.settings.sampling.temperature = Setting::Set(1.into());
    asked.settings.tool_choice = Setting::Set(ToolChoice::Auto);
    drain(ResponsesClient::new(endpoint).unwrap().stream(asked)).await;
    let body = server.body(0);
    let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
    let expected = ["input", "model", "store", "stream", "temperature", "truncation"];
    assert!(keys.len() == expected.len() && expected.iter().all(|key| body.get(*key).is_some()), "{body}");
    assert_eq!(body["temperature"], json!(1));
}

#[tokio::test]
async fn reasoning_goes_back_as_received_directly_before_what_it_led_to() {
    let server = FakeResponses::start([
        responses_reply()
            .reasoning("first", Some("seal-1"))
            .text(&["I look."])
            .reasoning("unsealed", None)
            .reasoning("second", Some("seal-2"))
            .call("call_1", "read_file", "{}"),
        responses_reply().text(&["done"]),
    ]);
    let client = client(&server);
    let (told, body) = ask_twice(&server, &client, &client).await;
    assert_eq!(told.text(), "done");
    let expected = ["message", "reasoning", "message", "reasoning", "function_call", "function_call_output"];
    assert_eq!(items(&body), expected);
    let received = json!({"type": "reasoning", "id": "rs_3", "encrypted_content": "seal-2",
        "summary": [{"type": "summary_text", "text": "second"}]});
    assert_eq!(body["input"][3], received);
    assert_eq!(
        body["input"][4],
        json!({"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": "{}"})
    );
    assert_eq!(
        body["input"][5],
        json!({"type": "function_call_output", "call_id": "call_1", "output": "text"})
    );
}

#[tokio::test]
async fn reasoning_does_not_go_to_other_accounts_servers_or_families() {
    let script =
        || [responses_reply().reasoning("x", Some("seal")).text(&["hi"]), responses_reply().text(&["ok"])];
    let with_account = |server: &FakeResponses, organisation: &str| {
        let mut endpoint = options(server);
        endpoint.headers = vec![("OpenAI-Organization".into(), Secret::new(organisation))];
        ResponsesClient::new(endpoint).unwrap()
    };
    let with_model = |server: &FakeResponses, model: &'static str| {
        let mut endpoint = options(server);
        endpoint.facts = Arc::new(move |_| info(model));
        ResponsesClient::new(endpoint).unwrap()
    };
    let server = FakeResponses::start((0..4).flat_map(|_| script()));
    let second: [(&str, ResponsesClient, bool); 4] = [
        ("the same account", with_account(&server, "org-a"), true),
        ("another account", with_account(&server, "org-b"), false),
        ("a sister model", with_model(&server, "gpt-5.6-luna"), false),
        ("another family", with_model(&server, "gpt-6.1-sol"), false),
    ];
    for (what, second, kept) in &second {
        let (_, body) = ask_twice(&server, &with_account(&server, "org-a"), second).await;
        assert_eq!(items(&body).contains(&"reasoning"), *kept, "{what}");
        assert!(items(&body).contains(&"message"));
    }
    let plain = client(&server);
    server.push(script());
    let (_, body) = ask_twice(&server, &plain, &with_model(&server, "gpt-5.6-luna")).await;
    assert!(items(&body).contains(&"reasoning"), "a sister model on the same account");
}

#[tokio::test]
async fn refused_reasoning_is_left_out_once_and_for_all() {
    let missing = "Item with id 'rs_0' not found. Items are not persisted when `store` is set to false.";
    let refuse = || ResponsesReply::error(404, "invalid_request_error", "", missing);
    let server = FakeResponses::start([
        responses_reply().reasoning("x", Some("seal")).text(&["hi"]),
        refuse(),
        responses_reply().text(&["ok"]),
        responses_reply().reasoning("y", Some("seal-2")).text(&["hi"]),
        refuse(),
        refuse(),
    ]);
    let client = client(&server);
    let (told, body) = ask_twice(&server, &client, &client).await;
    assert_eq!((told.text().as_str(), told.waits.len()), ("ok", 1));
    assert!(told.waits[0].cause.contains("without it"), "people are told: {:?}", told.waits);
    assert!(!items(&body).contains(&"reasoning"));
    assert!(items(&server.body(1)).contains(&"reasoning"));
    // The same seals are known now, so a second refusal is an error and no loop.
    let (told, _) = ask_twice(&server, &client, &client).await;
    assert_eq!(told.error().status, Some(404));
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn phases_go_back_with_their_texts() {
    let server = FakeResponses::start([
        responses_reply().message(&["I look."], Some("commentary")).call("call_1", "read_file", "{}"),
        responses_reply().text(&["ok"]),
        responses_reply()
            .message(&["I look."], Some("commentary"))
            .call("call_1", "read_file", "{}")
            .message(&["There."], Some("final_answer")),
        responses_reply().text(&["ok"]),
    ]);
    let client = client(&server);
    let phases = |body: &Value| -> Vec<Value> {
        let texts = body["input"].as_array().unwrap().iter().filter(|item| item["role"] == "assistant");
        texts.map(|item| item["phase"].clone()).collect()
    };
    let (_, body) = ask_twice(&server, &client, &client).await;
    assert_eq!(phases(&body), ["commentary"]);
    let (_, body) = ask_twice(&server, &client, &client).await;
    assert_eq!(phases(&body), ["commentary", "final_answer"]);
}

#[tokio::test]
async fn results_carry_pictures_and_files_and_say_what_they_cannot() {
    let blob = |mime_type: &str| {
        let blob = Blob { mime_type: mime_type.into(), data_base64: "AAAA".into() };
        Part::from(Body::InlineData(blob))
    };
    let call = |id: &str| Part::call(FunctionCall::new(Some(id.into()), "read_file", Default::default()));
    let history = vec![
        Content::user(vec![
            Part::text("look"),
            blob("image/png"),
            Part::text(""),
            Body::FileData { mime_type: "application/pdf".into(), uri: "https://x/y.pdf".into() }.into(),
        ]),
        Content::model(vec![call("a"), call("b"), call("c"), Part::text("")]),
        Content::user(vec![
            answer(
                "a",
                "read_file",
                json!({"output": "seen"}),
                vec![blob("image/png"), blob("application/pdf")],
            ),
            answer("b", "read_file", json!({"error": "no such file"}), vec![]),
            answer("c", "read_file", json!({"output": "heard"}), vec![blob("audio/wav")]),
        ]),
    ];
    let server = FakeResponses::start([responses_reply().text(&["x"])]);
    drain(client(&server).stream(request(history))).await;
    let body = server.body(0);
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"});
    let file = json!({"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,AAAA"});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    assert_eq!(
        body["input"][0]["content"],
        json!([text("look"), image, {"type": "input_file", "file_url": "https://x/y.pdf"}])
    );
    let outputs: Vec<&Value> = (4..7).map(|at| &body["input"][at]["output"]).collect();
    assert_eq!(*outputs[0], json!([text("seen"), image, file]));
    assert_eq!(*outputs[1], json!("{\"error\":\"no such file\"}"));
    assert_eq!(
        *outputs[2],
        json!([text("heard"), text("[audio/wav content is not supported by this model]")])
    );
}

#[tokio::test]
async fn a_model_that_sees_nothing_is_told_so() {
    let server = FakeResponses::start([responses_reply().text(&["x"])]);
    let mut endpoint = options(&server);
    endpoint.facts = Arc::new(|name| {
        let mut info = info(name);
        info.caps.images = false;
        info
    });
    let blob = Blob { mime_type: "image/png".into(), data_base64: "QUJD".into() };
    let asked = request(vec![Content::user(vec![Body::InlineData(blob).into()])]);
    drain(ResponsesClient::new(endpoint).unwrap().stream(asked)).await;
    let body = server.body(0).to_string();
    assert!(!body.contains("QUJD") && body.contains("not supported by this model"), "{body}");
}

#[tokio::test]
async fn names_that_the_wire_does_not_allow_lead_back_to_their_tools() {
    let name = format!("srv.do:it{}", "x".repeat(71));
    let first = prompt("hi");
    let tool = ToolSpec { name: name.clone(), ..ToolSpec::clone(&first.tools[0]) };
    let asked = ModelRequest { tools: Arc::new([Arc::new(tool)]), ..first };
    let probe = FakeResponses::start([responses_reply().text(&["x"])]);
    drain(client(&probe).stream(asked.clone())).await;
    let wire = probe.body(0)["tools"][0]["name"].as_str().unwrap().to_owned();
    let server =
        FakeResponses::start([responses_reply().call("call_1", &wire, "{}"), responses_reply().text(&["x"])]);
    let told = drain(client(&server).stream(asked.clone())).await;
    assert_eq!(super::calls(&told)[0].name, name);
    let mut history = vec![Content::user_text("hi")];
    history.extend(turns(&told));
    let contents = history.into_iter().map(Arc::new).collect();
    drain(client(&server).stream(ModelRequest { contents, ..asked })).await;
    assert_eq!(server.body(1)["input"][1]["name"], json!(wire));
}

#[tokio::test]
async fn a_conversation_from_elsewhere_is_made_valid() {
    let call = |id: Option<&str>| {
        Part::call(FunctionCall::new(id.map(str::to_owned), "read_file", Default::default()))
    };
    let mut signed = call(Some("read_file__x"));
    signed.seal = Some(pollux_domain::content::Seal::gemini("sig"));
    let gemini = Origin {
        provider: pollux_domain::model::ProviderId::GEMINI,
        dialect: Dialect::GEMINI,
        host: "https://g".into(),
        model: "gemini-2.5-pro".into(),
        response_id: None,
        phase: None,
    };
    let thought = Body::Reasoning { text: "hm".into(), summary: true, seal: None };
    let model = Content::model(vec![thought.into(), Part::text("I look."), signed, call(Some("lost"))]);
    let history = vec![
        Content::user_text("go"),
        Content { origin: Some(Arc::new(gemini)), ..model },
        Content::user(vec![
            answer("read_file__x", "read_file", json!({"output": "1"}), vec![]),
            answer("never-asked", "read_file", json!({"output": "2"}), vec![]),
        ]),
    ];
    let server = FakeResponses::start([responses_reply().text(&["x"])]);
    drain(client(&server).stream(request(history))).await;
    let body = server.body(0);
    assert_eq!(items(&body), ["message", "message", "function_call", "function_call_output"]);
    assert!(!body.to_string().contains("sig") && !body.to_string().contains("hm"), "{body}");
}

#[tokio::test]
async fn a_search_of_the_providers_is_asked_for() {
    let server = FakeResponses::start([responses_reply().text(&["x"])]);
    let asked = ModelRequest { tools: Arc::new([]), grounding: Grounding::Search, ..prompt("hi") };
    client(&server).generate(asked).await.unwrap();
    assert_eq!(server.body(0)["tools"], json!([{"type": "web_search"}]));
}

#[tokio::test]
async fn tokens_are_counted_and_models_are_listed() {
    let models = json!({"object": "list", "data": [{"id": "gpt-5.6-sol"}, {"id": "o3"}, {"no": "id"}]});
    let server = FakeResponses::start([
        ResponsesReply::count(42),
        ResponsesReply::http(200, models.to_string()),
        ResponsesReply::http(200, "{}"),
    ]);
    let client = client(&server);
    assert_eq!(client.count_tokens(prompt("hi")).await, Ok(42));
    let ids: Vec<String> = client.list_models().await.unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!(ids, ["gpt-5.6-sol", "o3"]);
    assert!(client.count_tokens(prompt("hi")).await.is_err());
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/v1/responses/input_tokens", "/v1/models", "/v1/responses/input_tokens"]);
}
