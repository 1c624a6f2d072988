use pollux_domain::remote_agent::{CardSource, RemoteError};
use pollux_test_support::{FakeHttp, HttpAnswer};
use serde_json::json;

use crate::scene::{agent, call, card, result, status, stream, with};

async fn answered(answer: impl Fn() -> HttpAnswer + Send + Sync + 'static) -> Result<String, RemoteError> {
    let server = FakeHttp::start_with_url(move |url, request| match request.path.as_str() {
        "/card.json" => HttpAnswer::json(&card(url, &json!({}))),
        _ => answer(),
    });
    call(&*agent(&format!("{}/card.json", server.url()), None), "go").await.0
}

#[tokio::test]
async fn an_oversized_or_invalid_card_is_refused() {
    for (body, why) in [
        (vec![b' '; 2 * 1024 * 1024], "exceeds the size limit"),
        (b"<html>".to_vec(), "not valid JSON"),
        (b"{\"name\": \"x\"}".to_vec(), "missing the URL"),
        (
            br#"{"url": "https://a.example", "preferredTransport": "GRPC"}"#.to_vec(),
            "unsupported transport GRPC",
        ),
    ] {
        let server = FakeHttp::start(move |_| HttpAnswer::status(200).body(body.clone()));
        let error = agent(&format!("{}/c.json", server.url()), None).about().await.unwrap_err();
        assert!(matches!(&error, RemoteError::Card(text) if text.contains(why)), "{error}");
    }
    for (source, why) in [
        (CardSource::Url("ftp://x".into()), "is not a valid URL"),
        (CardSource::Url("http://127.0.0.1:1/card".into()), "could not reach http://127.0.0.1:1"),
        (CardSource::Json("{".into()), "not valid JSON"),
    ] {
        let error = with(source, None).about().await.unwrap_err();
        assert!(matches!(&error, RemoteError::Card(text) if text.contains(why)), "{error}");
    }
}

#[tokio::test]
async fn an_endless_event_is_refused() {
    let error = answered(|| {
        let mut body = b"data: ".to_vec();
        body.resize(9 * 1024 * 1024, b'x');
        HttpAnswer::status(200).header("content-type", "text/event-stream").body(body)
    })
    .await
    .unwrap_err();
    assert!(error.to_string().contains("exceeds the size limit"), "{error}");
}

#[tokio::test]
async fn a_protocol_violation_is_an_error_without_control_characters() {
    let error = answered(|| {
        stream(&[
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "no\u{1b}[2J task"}}),
        ])
    })
    .await
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not call agent 'helper': the agent returned an error: no task (-32001)"
    );
    let error = answered(|| {
        HttpAnswer::status(200).header("content-type", "text/event-stream").body("data: {oops\n\n")
    });
    assert!(error.await.unwrap_err().to_string().contains("not valid JSON"));
    let error = answered(|| HttpAnswer::status(500).body(r#"{"detail": "broken"}"#)).await.unwrap_err();
    assert!(error.to_string().contains("HTTP 500: broken"), "{error}");
    let error = answered(|| stream(&[])).await.unwrap_err();
    assert_eq!(error, RemoteError::Failed("No response from remote agent.".to_owned()));
}

#[tokio::test]
async fn events_after_the_final_one_are_ignored() {
    let said = answered(|| {
        stream(&[result(&status("completed", "done", true)), result(&status("working", "and on", false))])
    })
    .await;
    assert_eq!(said.unwrap(), "done");
}

#[tokio::test]
async fn output_before_an_error_is_kept() {
    let error = answered(|| {
        stream(&[result(&status("working", "half", false)), json!({"error": {"message": "gone"}})])
    })
    .await
    .unwrap_err();
    assert!(error.to_string().starts_with("half\n\n") && error.to_string().contains("gone"), "{error}");
}
