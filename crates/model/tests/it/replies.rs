//! What the client makes of good and odd streams.

use pollux_domain::model::{FinishReason, ModelErrorKind, Usage};
use pollux_test_support::{FakeGemini, Reply, reply};
use serde_json::json;

use super::fixture::ask;

#[tokio::test]
async fn a_reply_is_the_same_in_whatever_pieces_it_arrives() {
    let script = || reply().thought("hm").text("Grüße, ").text("世界").usage(5, 6);
    let server = FakeGemini::start([
        script(),
        script().split([1]),
        script().split([7, 2]),
        script().until_close(),
        script().bytes(": a comment\n\n").bytes("data: [DONE]\n\n"),
    ])
    .await;
    let whole = ask(&server, "hi").await;
    assert_eq!(whole.text(), "Grüße, 世界");
    assert_eq!(whole.chunks.last().unwrap().finish.as_ref().unwrap().reason, FinishReason::Stop);
    for _ in 0..4 {
        let told = ask(&server, "hi").await;
        assert_eq!(told.error, None);
        assert_eq!(told.text(), whole.text());
    }
}

#[tokio::test]
async fn chunks_without_candidates_or_content_do_no_harm() {
    let server = FakeGemini::start([reply()
        .text("one ")
        .chunk(json!({"usageMetadata": {"totalTokenCount": 1}}))
        .chunk(json!({"candidates": [{"index": 0}]}))
        .chunk(json!({}))
        .text("two")
        .finish("STOP")
        .chunk(
            json!({"usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 9}, "modelVersion": "v"}),
        )])
    .await;
    let told = ask(&server, "hi").await;
    assert_eq!(told.text(), "one two");
    assert_eq!(told.error, None);
    let last = told.chunks.last().unwrap();
    assert_eq!(last.usage, Some(Usage { input: 4, total: 9, ..Usage::default() }));
    assert_eq!(last.model_version.as_deref(), Some("v"));
}

#[tokio::test]
async fn a_stream_without_a_finish_reason_ends_in_order() {
    let server = FakeGemini::start([reply().text("half").without_finish(), reply().without_finish()]).await;
    let told = ask(&server, "hi").await;
    assert_eq!((told.text().as_str(), told.error), ("half", None));
    assert!(told.chunks.iter().all(|chunk| chunk.finish.is_none()));
    let empty = ask(&server, "hi").await;
    assert!(empty.chunks.is_empty() && empty.error.is_none());
}

#[tokio::test]
async fn a_blocked_prompt_says_so() {
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}});
    let server = FakeGemini::start([reply().chunk(blocked)]).await;
    let told = ask(&server, "hi").await;
    assert_eq!(told.chunks[0].blocked.as_deref(), Some("PROHIBITED_CONTENT"));
}

#[tokio::test]
async fn a_gateway_that_answers_with_plain_json_is_understood() {
    let chunk = |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}}]});
    let json_type = |body: serde_json::Value| {
        Reply::http(200, body.to_string()).header("Content-Type", "application/json; charset=utf-8")
    };
    let server = FakeGemini::start([
        json_type(json!([chunk("a"), chunk("b")])),
        json_type(chunk("c")),
        Reply::http(200, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"d\"}]}}]}\n\n"),
    ])
    .await;
    for expected in ["ab", "c", "d"] {
        let told = ask(&server, "hi").await;
        assert_eq!((told.text().as_str(), told.error), (expected, None));
    }
}

#[tokio::test]
async fn what_is_not_the_api_is_named() {
    let page = "<!DOCTYPE html>\n<html><head><title>Hotel Wi-Fi</title></head>\n\n<body>Log in</body></html>";
    let server = FakeGemini::start([
        Reply::http(200, page).header("Content-Type", "text/html"),
        Reply::http(200, page).header("Content-Type", "application/json"),
        Reply::http(200, "Hello there").header("Content-Type", "text/plain"),
    ])
    .await;
    for expected in ["\"Hotel Wi-Fi\"", "\"Hotel Wi-Fi\"", "\"Hello there\""] {
        let told = ask(&server, "hi").await;
        assert_eq!(told.error().kind, ModelErrorKind::BadRequest);
        assert!(told.error().message.contains(expected), "{}", told.error().message);
        assert!(told.error().message.contains("GOOGLE_GEMINI_BASE_URL"));
        assert!(told.waits.is_empty());
    }
}

#[tokio::test]
async fn an_event_that_is_not_json_is_malformed() {
    let server = FakeGemini::start([reply().text("a").bytes("data: {oops}\n\n")]).await;
    let told = ask(&server, "hi").await;
    assert_eq!(told.text(), "a");
    assert_eq!(told.error().kind, ModelErrorKind::Malformed);
}
