//! What the client does when things go wrong.

use std::time::Duration;

use pollux_domain::content::Content;
use pollux_domain::model::{ModelClient, ModelErrorKind, ReplyEvent};
use pollux_domain::time::{Clock, Timestamp};
use pollux_model::messages::{MessagesClient, MessagesOptions};
use pollux_test_support::{FakeMessages, MessagesReply};
use serde_json::json;

use super::super::fixture::{KEY, drain, prompt};
use super::{SEALED, answer, ask, asking, client, endpoint, first_party, turn};

fn error(status: u16, kind: &str, message: &str) -> MessagesReply {
    MessagesReply::error(status, kind, message)
}

#[tokio::test]
async fn an_overloaded_server_is_waited_for() {
    let busy = || error(529, "overloaded_error", "Overloaded");
    let server = FakeMessages::start([busy(), busy(), busy(), MessagesReply::new().text(&["good"])]);
    let told = ask(&client(&server), prompt("hi")).await;
    assert_eq!((told.text().as_str(), told.waits.len()), ("good", 3));
    assert!(told.waits.iter().all(|wait| wait.status == Some(529) && wait.cause == "Overloaded"));
    // The curve of a server that has too much to do: 3.5 s, 7 s, 14 s, at a ten-thousandth.
    let delays: Vec<u128> = told.waits.iter().map(|wait| wait.delay.as_micros()).collect();
    assert_eq!(delays, [350, 700, 1400]);
}

#[tokio::test]
async fn an_error_inside_the_stream_is_known_by_its_word() {
    let cases = [
        ("overloaded_error", ModelErrorKind::Overloaded, true),
        ("api_error", ModelErrorKind::Server, true),
        ("rate_limit_error", ModelErrorKind::RateLimited, true),
        ("authentication_error", ModelErrorKind::Auth, false),
        ("invalid_request_error", ModelErrorKind::BadRequest, false),
    ];
    for (word, kind, restarts) in cases {
        let server = FakeMessages::start([MessagesReply::new().text(&["half"]).fails(word, "no")]);
        let told = ask(&client(&server), prompt("hi")).await;
        assert_eq!((told.text().as_str(), &told.error().kind), ("half", &kind), "{word}");
        assert_eq!(told.error().stream_may_restart(), restarts, "{word}");
        assert_eq!(server.requests().len(), 1, "the agent decides after content: {word}");
    }
    let early = MessagesReply::new().fails("overloaded_error", "busy");
    let server = FakeMessages::start([early, MessagesReply::new().text(&["good"])]);
    let told = ask(&client(&server), prompt("hi")).await;
    assert_eq!((told.text().as_str(), told.waits.len()), ("good", 1));
}

#[tokio::test]
async fn failures_that_stay_are_told_after_one_request() {
    let spend = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "limit",
        "details": {"error_code": "enforced_spend_limit_reached"}}});
    let overflow = ModelErrorKind::ContextOverflow { asked: None, limit: None };
    let cases = [
        (error(401, "authentication_error", "who"), ModelErrorKind::Auth),
        (error(402, "billing_error", "pay"), ModelErrorKind::Billing),
        (MessagesReply::http(400, spend.to_string()), ModelErrorKind::Billing),
        (error(404, "not_found_error", "model: x"), ModelErrorKind::NotFound),
        (error(413, "request_too_large", "Request exceeds the maximum size"), overflow.clone()),
        (MessagesReply::http(413, "<html><h1>413</h1></html>").header("Content-Type", "text/html"), overflow),
        (error(400, "invalid_request_error", "no"), ModelErrorKind::BadRequest),
        (
            error(429, "rate_limit_error", "later").header("retry-after", "3600"),
            ModelErrorKind::QuotaExhausted,
        ),
        (error(500, "api_error", "no").header("x-should-retry", "false"), ModelErrorKind::Server),
    ];
    for (reply, kind) in cases {
        let server = FakeMessages::start([reply]);
        let told = ask(&client(&server), prompt("hi")).await;
        assert_eq!(told.error().kind, kind);
        assert!(!told.error().message.contains('<'), "{}", told.error().message);
        assert!(told.waits.is_empty());
        assert_eq!(server.requests().len(), 1, "{kind:?}");
    }
}

#[derive(Debug)]
struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        // Sun, 06 Nov 1994 08:49:37 GMT
        Timestamp::from_millis(784_111_777_000)
    }
}

#[tokio::test]
async fn the_servers_wish_for_patience_is_read_in_every_form() {
    let cases: &[(&[(&str, &str)], u64)] = &[
        (&[("retry-after", "2")], 200),
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT")], 300),
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:30 GMT")], 50),
        (&[("retry-after", "2"), ("retry-after-ms", "750")], 75),
    ];
    for (headers, micros) in cases {
        let limited = headers
            .iter()
            .fold(error(429, "rate_limit_error", "slow"), |reply, (name, value)| reply.header(name, value));
        let server = FakeMessages::start([limited, MessagesReply::new().text(&["good"])]);
        let mut endpoint = endpoint(&server);
        endpoint.timing.clock = std::sync::Arc::new(Fixed);
        let client = MessagesClient::new(endpoint, MessagesOptions::default()).unwrap();
        let told = ask(&client, prompt("hi")).await;
        assert_eq!(told.text(), "good");
        assert_eq!(told.waits[0].delay, Duration::from_micros(*micros), "{headers:?}");
    }
}

#[tokio::test]
async fn refused_reasoning_is_left_out_at_once_and_from_then_on() {
    let refusal = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a \
                   different conversation";
    let server = FakeMessages::start([
        MessagesReply::new().thinking(&["hm"], "sig1").call("t1", "read_file", &json!({})),
        error(400, "invalid_request_error", refusal),
        MessagesReply::new().thinking(&["more"], "sig2").call("t2", "read_file", &json!({})),
        MessagesReply::new().text(&["done"]),
    ]);
    let client = first_party(&server);
    let mut contents = vec![Content::user_text("hi")];
    let first = ask(&client, asking(SEALED, contents.clone())).await;
    contents.extend([turn(&first), Content::user(vec![answer("t1", "read_file", json!({"output": "x"}))])]);
    let second = ask(&client, asking(SEALED, contents.clone())).await;
    assert_eq!(second.error, None);
    let [wait] = second.waits.as_slice() else { panic!("{:?}", second.waits) };
    assert!(wait.delay.is_zero() && wait.cause.contains("earlier reasoning"), "{wait:?}");
    contents.extend([turn(&second), Content::user(vec![answer("t2", "read_file", json!({"output": "y"}))])]);
    let third = ask(&client, asking(SEALED, contents)).await;
    assert!(third.waits.is_empty());
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests[1].body.to_string().contains("sig1"));
    assert!(!requests[2].body.to_string().contains("sig1"));
    let last = requests[3].body.to_string();
    assert!(!last.contains("sig1") && last.contains("sig2"), "what came later is still good");
}

#[tokio::test]
async fn reasoning_that_is_refused_for_ever_does_not_loop() {
    let refusal = || error(400, "invalid_request_error", "Invalid `signature` in `thinking` block");
    let server =
        FakeMessages::start([MessagesReply::new().thinking(&["hm"], "sig1").text(&["x"])]).forever(refusal());
    let client = first_party(&server);
    let first = ask(&client, asking(SEALED, vec![Content::user_text("hi")])).await;
    let contents = vec![Content::user_text("hi"), turn(&first), Content::user_text("go on")];
    let told = ask(&client, asking(SEALED, contents)).await;
    assert_eq!(told.error().kind, ModelErrorKind::BadRequest);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_field_that_a_server_does_not_know_is_not_sent_again() {
    let unknown = error(400, "invalid_request_error", "thinking: Extra inputs are not permitted");
    let good = || MessagesReply::new().text(&["good"]);
    let server = FakeMessages::start([unknown, good(), good()]);
    let client = client(&server);
    for _ in 0..2 {
        let told = ask(&client, asking("claude-opus-5", vec![Content::user_text("hi")])).await;
        assert_eq!((told.text().as_str(), &told.error), ("good", &None));
    }
    let sent: Vec<bool> =
        server.requests().iter().map(|request| request.body.get("thinking").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
}

#[tokio::test]
async fn dropping_a_reply_in_the_middle_of_a_call_closes_the_connection() {
    let half = MessagesReply::new()
        .event(json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "ls", "input": {}}}))
        .event(json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": "{\"a"}}))
        .silent();
    let server = FakeMessages::start([half, MessagesReply::new().text(&["next"])]);
    let client = client(&server);
    let mut stream = client.stream(prompt("hi"));
    assert!(matches!(stream.next().await, Some(Ok(ReplyEvent::CallProgress { .. }))));
    let waiting = tokio::time::timeout(Duration::from_millis(50), stream.next()).await;
    assert!(waiting.is_err(), "{waiting:?}");
    drop(stream);
    assert_eq!(drain(client.stream(prompt("hi"))).await.text(), "next");
}

#[tokio::test]
async fn the_key_is_in_no_error() {
    let quoting = format!("key {KEY} is not welcome");
    let cases = [
        error(400, "invalid_request_error", &quoting),
        MessagesReply::http(500, quoting.clone()),
        MessagesReply::new().fails("api_error", &quoting),
        MessagesReply::http(200, format!("<html><title>{KEY}</title>")).header("Content-Type", "text/html"),
        MessagesReply::http(307, "").header("Location", &format!("http://elsewhere.invalid/{KEY}")),
    ];
    for reply in cases {
        let server = FakeMessages::start([]).forever(reply);
        let told = ask(&client(&server), prompt("hi")).await;
        let shown = format!("{:?} {} {:?}", told.error, told.error(), told.waits);
        assert!(!shown.contains(KEY), "{shown}");
    }
}
