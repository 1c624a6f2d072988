//! What the client sends.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::General;
use pollux_domain::content::{Content, FunctionResponse, Part};
use pollux_domain::id::CallId;
use pollux_domain::model::{Dialect, GenerationSettings, Grounding, ModelClient, ModelRequest};
use pollux_model::gemini::{GeminiClient, GeminiSetupError};
use pollux_test_support::{FakeGemini, reply};
use serde_json::json;

use super::fixture::{KEY, ask, drain, gemini, options, prompt, request};

#[tokio::test]
async fn a_prompt_is_one_post_with_the_key_in_its_header() {
    let server = FakeGemini::start([reply().text("hello").usage(3, 4)]).await;
    let told = ask(&server, "hi").await;
    assert_eq!((told.text().as_str(), told.error), ("hello", None));
    let sent = server.request(0);
    assert_eq!(sent.method, "POST");
    assert_eq!(sent.path, "/v1beta/models/gemini-2.5-pro:streamGenerateContent");
    assert_eq!(sent.query, "alt=sse");
    assert_eq!(sent.header("x-goog-api-key"), Some(KEY));
    assert_eq!(sent.header("authorization"), None);
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert!(sent.header("x-goog-api-client").unwrap().starts_with("pollux/"));
    assert_eq!(sent.tool_names(), ["read_file"]);
    assert_eq!(sent.system_text(), "Be kind.");
    assert_eq!(sent.body.get("toolConfig"), None);
    assert_eq!(sent.body["generationConfig"]["thinkingConfig"]["thinkingBudget"], 8192);
    server.assert_valid();
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn nothing_is_sent_before_the_first_next() {
    let server = FakeGemini::start([reply().text("x")]).await;
    let stream = gemini(&server).stream(prompt("hi"));
    tokio::task::yield_now().await;
    assert!(server.requests().is_empty());
    drop(stream);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_tool_round_keeps_signatures_and_sends_the_models_own_ids() {
    let server = FakeGemini::start([
        reply()
            .thought("**Look** first")
            .call_with_id("abc", "read_file", json!({"path": "a"}))
            .signature("c2lnbmVk")
            .call("read_file", json!({"path": "b"})),
        reply().text("done"),
    ])
    .await;
    let client = gemini(&server);
    let first = drain(client.stream(prompt("go"))).await;
    let mut parts: Vec<Part> = first.chunks.into_iter().flat_map(|chunk| chunk.parts).collect();
    let mut answers = Vec::new();
    for (index, part) in parts.iter_mut().enumerate() {
        if let pollux_domain::content::Body::Call(call) = &mut part.body {
            let raw = call.id.clone().unwrap_or_else(|| format!("made-up-{index}"));
            let id = CallId::new(&call.name, &raw).as_str().to_owned();
            call.id = Some(id.clone());
            answers.push(Part::response(FunctionResponse {
                id: Some(id),
                name: call.name.clone(),
                response: json!({"output": "text"}).as_object().unwrap().clone().into(),
                parts: Vec::new(),
            }));
        }
    }
    let history = vec![Content::user_text("go"), Content::model(parts), Content::user(answers)];
    assert_eq!(drain(client.stream(request(history))).await.text(), "done");
    server.assert_valid();
    let model = &server.request(1).contents()[1]["parts"];
    assert_eq!(model[0]["thoughtSignature"], "c2lnbmVk");
    assert_eq!(model[0]["functionCall"]["id"], "abc");
    assert_eq!(model[1].get("thoughtSignature"), None);
    let ids: Vec<_> =
        server.request(1).function_responses().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, ["abc", "made-up-2"]);
}

#[tokio::test]
async fn a_chain_of_requests_uses_one_connection() {
    let server = FakeGemini::start((0..5).map(|_| reply().text("x"))).await;
    let client = gemini(&server);
    for _ in 0..5 {
        drain(client.stream(prompt("hi"))).await;
    }
    let connections: Vec<usize> = server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0; 5]);
}

#[tokio::test]
async fn the_environment_shapes_the_headers_and_the_path() {
    let server = FakeGemini::start([reply().text("x")]).await;
    let vars = [
        ("GOOGLE_GENAI_API_VERSION", "v9"),
        ("GEMINI_CLI_CUSTOM_HEADERS", "X-Team: a, b, X-Two: 2"),
        ("GEMINI_CLI_SURFACE", "vscode"),
    ];
    let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value.to_owned())), PathBuf::new());
    let mut options = options(&server);
    options.auth.base_url = Some(format!("{}/", server.url()));
    options.auth.bearer = true;
    let general = General { max_attempts: 3, ..General::default() };
    let options = options.configured(&env, &general, "1.2.3", "flash");
    assert_eq!(options.max_attempts, 3);
    drain(GeminiClient::new(options).unwrap().stream(prompt("hi"))).await;
    let sent = server.request(0);
    assert_eq!(sent.path, "/v9/models/gemini-2.5-pro:streamGenerateContent");
    assert_eq!(sent.header("x-team"), Some("a, b"));
    assert_eq!(sent.header("x-two"), Some("2"));
    assert_eq!(sent.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let agent = sent.header("user-agent").unwrap();
    assert!(agent.starts_with("GeminiCLI-pollux/1.2.3/gemini-3.8-flash ("), "{agent}");
    assert!(agent.ends_with("; vscode)"), "{agent}");
}

#[tokio::test]
async fn aliases_keep_their_settings_and_a_requests_own_settings_win() {
    let server = FakeGemini::start([reply().text("x")]).await;
    let settings = json!({"maxOutputTokens": 7, "responseMimeType": "application/json"});
    let request = ModelRequest {
        model: "classifier".into(),
        settings: GenerationSettings::in_words_of(Dialect::GEMINI, settings.as_object().unwrap().clone()),
        ..prompt("hi")
    };
    let chunk = gemini(&server).generate(request).await.unwrap();
    assert_eq!(chunk.parts, [Part::text("x")]);
    let sent = server.request(0);
    assert_eq!(sent.path, "/v1beta/models/gemini-3.5-flash-lite:generateContent");
    assert_eq!(sent.query, "");
    assert_eq!(
        sent.body["generationConfig"],
        json!({"temperature": 0, "topP": 1, "maxOutputTokens": 7, "thinkingConfig": {"thinkingBudget": 512},
               "responseMimeType": "application/json"})
    );
}

#[tokio::test]
async fn tokens_are_counted_without_anything_but_the_contents() {
    let server = FakeGemini::start([pollux_test_support::Reply::count_tokens(42)]).await;
    assert_eq!(gemini(&server).count_tokens(prompt("hi")).await, Ok(42));
    let sent = server.request(0);
    assert_eq!(sent.path, "/v1beta/models/gemini-2.5-pro:countTokens");
    assert_eq!(sent.body, json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}));
}

#[tokio::test]
async fn unusable_addresses_and_headers_are_refused_at_once() {
    let server = FakeGemini::start([]).await;
    for address in ["nonsense", "ftp://host", "", "http://"] {
        let mut options = options(&server);
        options.auth.base_url = Some(address.into());
        let error = GeminiClient::new(options).err().expect(address);
        assert_eq!(error.to_string(), format!("Invalid custom base URL: {}", address.trim_end_matches('/')));
    }
    let mut bad_key = options(&server);
    bad_key.auth.key = pollux_config::groups::Secret::new("sec\nret");
    let error = GeminiClient::new(bad_key).err().unwrap();
    assert!(matches!(error, GeminiSetupError::Header(_)));
    assert!(!format!("{error} {error:?}").contains("ret\""), "{error:?}");
    let mut bad_header = options(&server);
    bad_header.custom_headers = vec![("X Y".into(), "1".into())];
    assert!(GeminiClient::new(bad_header).err().unwrap().to_string().contains("`X Y`"));
}

#[tokio::test]
async fn grounded_requests_carry_one_tool_of_the_server_and_nothing_else() {
    let server = FakeGemini::start([reply().text("x"), reply().text("y")]).await;
    for (alias, grounding, tool) in [
        ("web-search", Grounding::Search, json!([{"googleSearch": {}}])),
        ("web-fetch", Grounding::UrlContext, json!([{"urlContext": {}}])),
    ] {
        let request = ModelRequest { model: alias.into(), tools: Arc::from([]), grounding, ..prompt("hi") };
        gemini(&server).generate(request).await.unwrap();
        let sent = server.requests().pop().unwrap();
        assert_eq!(sent.body["tools"], tool, "{alias}");
        assert_eq!(sent.path, "/v1beta/models/gemini-3-flash-preview:generateContent");
    }
}
