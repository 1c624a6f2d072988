//! What the client does when a server refuses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::content::{Content, Part};
use pollux_domain::model::{FinishReason, ModelClient, ModelErrorKind, Setting};
use pollux_model::chat::ChatClient;
use pollux_model::prompt_tools::LocalProbe;
use pollux_test_support::chat::{ChatReply, Close, FakeChat};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::fixture::{KEY, drain, prompt};
use super::fixture::{call, client, client_of, endpoint, impatient, with_model};

#[tokio::test]
async fn a_parameter_that_is_not_known_is_renamed_and_remembered() {
    let refusal = json!({"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "type": "invalid_request_error", "param": "max_tokens", "code": "unsupported_parameter"}});
    let server =
        FakeChat::start([ChatReply::json(400, &refusal), ChatReply::said("one"), ChatReply::said("two")]);
    let client = client(&server);
    for text in ["one", "two"] {
        let mut request = prompt("hi");
        request.settings.max_output = Setting::Set(100);
        let told = drain(client.stream(request)).await;
        assert_eq!((told.text().as_str(), told.waits.len()), (text, 0));
    }
    let sent: Vec<(Value, Value)> = (0..3)
        .map(|index| server.body(index))
        .map(|body| (body["max_tokens"].clone(), body["max_completion_tokens"].clone()))
        .collect();
    assert_eq!(sent, [(json!(100), json!(null)), (json!(null), json!(100)), (json!(null), json!(100))]);
}

#[tokio::test]
async fn a_server_without_stream_options_is_asked_without_them() {
    let detail = json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]});
    let answer = || ChatReply::stream().role().text("ok").finish("stop").done();
    let server = FakeChat::start([ChatReply::json(422, &detail), answer(), answer()]);
    let client = client(&server);
    for _ in 0..2 {
        let told = drain(client.stream(prompt("hi"))).await;
        assert_eq!(told.error, None);
        assert!(told.chunks.iter().any(|chunk| chunk.usage.is_some_and(|usage| usage.estimated)));
    }
    let sent: Vec<bool> = (0..3).map(|index| server.body(index).get("stream_options").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
}

#[tokio::test]
async fn a_parameter_that_was_not_sent_is_an_error_at_once() {
    let server = FakeChat::start([ChatReply::error(400, "Unsupported parameter: 'top_p'")]);
    let told = drain(client(&server).stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::Unsupported { param: "top_p".into() });
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn at_most_three_parameters_are_given_up() {
    let refuse = |name: &str| ChatReply::error(400, &format!("Unsupported parameter: '{name}'"));
    let names = ["stream_options", "max_tokens", "max_completion_tokens", "stop"];
    let server = FakeChat::start(names.map(refuse));
    let mut request = prompt("hi");
    request.settings.max_output = Setting::Set(5);
    request.settings.sampling.stop = Setting::Set(vec!["x".into()]);
    let told = drain(client(&server).stream(request)).await;
    assert_eq!(told.error().kind, ModelErrorKind::Unsupported { param: "stop".into() });
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn messages_are_found_in_bodies_of_any_form() {
    let cases = [
        (ChatReply::json(422, &json!({"detail": [{"msg": "x"}]})), "x"),
        (ChatReply::json(400, &json!({"error": "x"})), "x"),
        (
            ChatReply::http(403, "text/html", "<html><title>x</title>"),
            "the server sent a web page instead of an API error: x",
        ),
    ];
    for (reply, message) in cases {
        let server = FakeChat::start([reply]);
        let told = drain(client(&server).stream(prompt("hi"))).await;
        assert_eq!(told.error().message, message);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn the_servers_wishes_about_time_are_kept() {
    let cases = [
        (ChatReply::error(429, "x").header("retry-after", "2"), 200_u64),
        (ChatReply::error(429, "x").header("retry-after", "2").header("retry-after-ms", "900"), 90),
        (ChatReply::error(429, "x").header("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT"), 50),
        (ChatReply::error(429, "Please try again in 1.5s."), 150),
    ];
    for (reply, micros) in cases {
        let server = FakeChat::start([reply, ChatReply::said("ok")]);
        let told = drain(client(&server).stream(prompt("hi"))).await;
        assert_eq!(told.waits[0].delay, Duration::from_micros(micros), "scaled to a ten-thousandth");
    }
    let server = FakeChat::start([ChatReply::error(429, "x").header("retry-after", "3600")]);
    let told = drain(client(&server).stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::QuotaExhausted);
    assert!(told.error().message.contains("60 minutes"));
    let server = FakeChat::start([ChatReply::error(500, "x")
        .header("x-should-retry", "false")
        .header("x-request-id", "r1")]);
    let told = drain(client(&server).stream(prompt("hi"))).await;
    assert_eq!((server.requests().len(), told.waits.len()), (1, 0));
    assert_eq!(told.error().details.request_id.as_deref(), Some("r1"));
}

#[tokio::test]
async fn a_used_up_rate_limit_delays_the_next_request() {
    let used_up = ChatReply::said("one")
        .header("x-ratelimit-remaining-requests", "0")
        .header("x-ratelimit-reset-requests", "30s");
    let server = FakeChat::start([used_up, ChatReply::said("two"), ChatReply::said("three")]);
    let mut endpoint = endpoint(&server, "lab");
    // The wait must outlast the end of the first reply.
    endpoint.timing.backoff.scale = 0.02;
    let client = ChatClient::new(endpoint).unwrap();
    let mut waits = Vec::new();
    for text in ["one", "two", "three"] {
        let told = drain(client.stream(prompt("hi"))).await;
        assert_eq!(told.text(), text);
        waits.push(told.waits.len());
    }
    assert_eq!(waits, [0, 1, 0]);
}

#[tokio::test]
async fn money_is_no_matter_of_waiting() {
    let body = json!({"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}});
    let server = FakeChat::start([ChatReply::json(429, &body)]);
    let told = drain(client(&server).stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::Billing);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn redirects_to_other_servers_are_not_followed_and_keys_not_shown() {
    let trap = FakeChat::start([]);
    let server = FakeChat::start([
        ChatReply::http(307, "text/plain", "")
            .header("Location", &format!("{}/chat/completions", trap.url())),
        ChatReply::error(401, &format!("wrong key {KEY}")),
    ]);
    let client = client(&server);
    let told = drain(client.stream(prompt("hi"))).await;
    assert!(told.error().message.contains("redirect") && trap.requests().is_empty(), "{:?}", told.error);
    let told = drain(client.stream(prompt("hi"))).await;
    assert_eq!(
        (told.error().kind.clone(), told.error().message.as_str()),
        (ModelErrorKind::Auth, "wrong key ***")
    );
    assert_eq!(server.requests()[1].header("authorization"), Some(&*format!("Bearer {KEY}")));
}

#[tokio::test]
async fn a_local_server_that_is_not_there_is_said_at_once() {
    let gone = FakeChat::start([]);
    let mut endpoint = endpoint(&gone, "llamacpp");
    drop(gone);
    endpoint.traits.local = true;
    endpoint.traits.start_command = Some("llama-server -m model.gguf".into());
    let told = drain(ChatClient::new(endpoint).unwrap().stream(prompt("hi"))).await;
    assert_eq!((told.error().kind.clone(), told.waits.len()), (ModelErrorKind::Network, 0));
    assert!(
        told.error().details.advice.as_deref() == Some("start the server with `llama-server -m model.gguf`"),
        "{:?}",
        told.error
    );
}

#[tokio::test]
async fn a_server_that_loads_its_model_is_waited_for() {
    let loading = || {
        ChatReply::json(
            503,
            &json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}),
        )
    };
    let mut script: Vec<ChatReply> = (0..8).map(|_| loading()).collect();
    script.push(ChatReply::said("ready"));
    let server = FakeChat::start(script);
    let told = drain(client(&server).stream(prompt("hi"))).await;
    assert_eq!((told.text().as_str(), told.waits.len()), ("ready", 8), "more than the attempts of a failure");
    assert!(told.waits.iter().all(|wait| wait.attempt == 1));
}

#[tokio::test]
async fn a_call_the_server_cannot_parse_is_retried_at_a_lower_temperature_and_then_reported_to_the_model() {
    let failed = json!({"error": {"message": "Failed to call a function.", "type": "invalid_request_error",
        "code": "tool_use_failed", "failed_generation": "<function=read_file>{\"path\": </function>"}});
    let refused = || ChatReply::json(400, &failed);
    let server = FakeChat::start([refused(), refused()]);
    let told = drain(client_of(&server, "groq").stream(prompt("hi"))).await;
    assert_eq!(told.error, None);
    assert_eq!(
        (server.body(0).get("temperature"), server.body(1).get("temperature")),
        (None, Some(&json!(0.2)))
    );
    let call = told.chunks[0].parts[0].as_call().unwrap();
    assert_eq!(call.name, "read_file");
    assert!(call.bad_args.as_ref().unwrap().raw.starts_with("<function=read_file>"));
    assert_eq!(told.chunks[0].finish.as_ref().unwrap().reason, FinishReason::ToolCalls);
    assert!(told.chunks[0].origin.is_some());
}

#[tokio::test]
async fn a_server_that_wants_reasoning_back_gets_it_from_then_on() {
    let refused =
        ChatReply::error(400, "The `reasoning_content` in the thinking mode must be passed back to the API.");
    let server = FakeChat::start([refused, ChatReply::said("ok")]);
    let history = vec![
        Content::user_text("hi"),
        Content::model(vec![call(Some("a"), "read_file", json!({}))]),
        Content::user(vec![super::fixture::answer(Some("a"), "read_file", "x", Vec::new())]),
    ];
    let told = drain(client(&server).stream(with_model("some-model", history))).await;
    assert_eq!((told.text().as_str(), told.waits.len()), ("ok", 0));
    assert_eq!(server.messages(0)[2].get("reasoning_content"), None);
    assert_eq!(server.messages(1)[2]["reasoning_content"], json!(""));
}

#[tokio::test]
async fn a_whole_reply_that_breaks_off_is_asked_for_again() {
    let broken = || ChatReply::stream().role().text("half").close(Close::Drop);
    let silent = ChatReply::stream().role().text("half");
    let server = FakeChat::start([broken(), silent, ChatReply::said("whole")]);
    let chunk = impatient(&server).generate(prompt("hi")).await.unwrap();
    assert_eq!(chunk.parts, [Part::text("whole")]);
    assert_eq!(chunk.usage.unwrap().total, 15);
}

#[tokio::test]
async fn local_servers_are_asked_about_their_models() {
    let server = FakeChat::start([
        ChatReply::json(200, &json!({"model_info": {"x.context_length": 40960}, "capabilities": ["tools"]})),
        ChatReply::json(200, &json!({"models": [{"model": "m", "context_length": 4096}]})),
    ]);
    let facts = client_of(&server, "ollama").local_facts("m").await.unwrap().unwrap();
    assert_eq!((facts.context_window, facts.tools, facts.advice.is_some()), (Some(4096), Some(true), true));
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/api/show", "/api/ps"]);
    assert_eq!(server.body(0), json!({"model": "m"}));
    assert_eq!(client(&server).local_facts("m").await.unwrap(), None);
}

#[tokio::test]
async fn models_are_listed() {
    let list = json!({"object": "list", "data": [{"id": "a", "context_length": 9000}, {"id": "b"}]});
    let server = FakeChat::start([ChatReply::json(200, &list)]);
    let models = client(&server).list_models().await.unwrap();
    let seen: Vec<_> = models.iter().map(|info| (info.id.as_str(), info.context_window)).collect();
    assert_eq!(seen, [("a", 9000), ("b", 128_000)]);
    assert_eq!(server.requests()[0].path, "/v1/models");
}

/// Serves a fixed reply; a connection ends without an answer when it is used again.
async fn one_reply_per_connection(listener: tokio::net::TcpListener, heads: Arc<Mutex<Vec<String>>>) {
    const REPLY: &str = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n"
    );
    while let Ok((mut socket, _)) = listener.accept().await {
        let heads = Arc::clone(&heads);
        tokio::spawn(async move {
            for is_first in [true, false] {
                let mut text = Vec::new();
                // Bodies of these requests are objects, so their last byte ends them.
                while !(text.ends_with(b"}") && text.windows(4).any(|bytes| bytes == b"\r\n\r\n")) {
                    if socket.read_buf(&mut text).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                heads.lock().unwrap().push(String::from_utf8_lossy(&text).to_lowercase());
                if is_first {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length";
                    let answer = format!("{head}: {}\r\n\r\n{REPLY}", REPLY.len());
                    socket.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        });
    }
}

#[tokio::test]
async fn a_local_server_that_ends_connections_silently_is_found_out_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let heads = Arc::new(Mutex::new(Vec::new()));
    tokio::spawn(one_reply_per_connection(listener, Arc::clone(&heads)));
    let mut endpoint = endpoint(&FakeChat::start([]), "lab");
    endpoint.base_url = url;
    endpoint.traits.local = true;
    let client = ChatClient::new(endpoint).unwrap();
    for _ in 0..4 {
        let told = drain(client.stream(prompt("hi"))).await;
        assert_eq!((told.error, told.waits.len()), (None, 0), "nothing of it is an error");
    }
    let closes: Vec<bool> =
        heads.lock().unwrap().iter().map(|head| head.contains("connection: close")).collect();
    assert_eq!(closes, [false, false, true, true, true], "the second request was sent twice");
}
