//! What the client does when things go wrong.

use std::time::Duration;

use pollux_domain::model::{ModelClient, ModelErrorKind, ModelRequest, ReplyEvent, RequestRole};
use pollux_model::gemini::GeminiClient;
use pollux_test_support::{ClosedPort, Exhausted, FakeGemini, Reply, reply};
use serde_json::json;

use super::fixture::{KEY, Told, ask, drain, gemini, options, options_at, prompt};

fn throttled(delay: &str) -> Reply {
    let details = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]);
    let body = json!({"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": details}});
    Reply::http(429, body.to_string())
}

#[tokio::test]
async fn failures_that_pass_are_waited_out_and_announced() {
    let server = FakeGemini::start([
        Reply::error(500, "INTERNAL", "oops"),
        throttled("2s"),
        Reply::error(503, "UNAVAILABLE", "busy").header("Retry-After", "1"),
        reply().text("good"),
    ])
    .await;
    let told = ask(&server, "hi").await;
    assert_eq!((told.text().as_str(), &told.error), ("good", &None));
    let seen: Vec<_> = told
        .waits
        .iter()
        .map(|wait| (wait.attempt, wait.max_attempts, wait.delay, wait.cause.as_str(), wait.status))
        .collect();
    // The scale of the delays is a ten-thousandth, without jitter.
    let expected = [
        (1, 4, Duration::from_micros(50), "oops", Some(500)),
        (2, 4, Duration::from_micros(200), "slow down", Some(429)),
        (3, 4, Duration::from_micros(100), "busy", Some(503)),
    ];
    assert_eq!(seen, expected);
    let bodies: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "every attempt sends the same");
}

#[tokio::test]
async fn failures_that_stay_are_reported_after_one_request() {
    let cases = [
        (Reply::error(400, "INVALID_ARGUMENT", "bad"), ModelErrorKind::BadRequest),
        (Reply::error(401, "UNAUTHENTICATED", "who"), ModelErrorKind::Auth),
        (Reply::error(403, "PERMISSION_DENIED", "no"), ModelErrorKind::Auth),
        (Reply::error(404, "NOT_FOUND", "what"), ModelErrorKind::NotFound),
        (Reply::error(429, "RESOURCE_EXHAUSTED", "quota, limit: 0"), ModelErrorKind::QuotaExhausted),
        (throttled("301s"), ModelErrorKind::QuotaExhausted),
        (
            Reply::http(307, "").header("Location", "http://elsewhere.invalid/?key=x"),
            ModelErrorKind::BadRequest,
        ),
    ];
    for (reply, kind) in cases {
        let server = FakeGemini::start([reply]).await;
        let told = ask(&server, "hi").await;
        assert_eq!(told.error().kind, kind);
        assert!(told.waits.is_empty());
        assert_eq!(server.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn attempts_end_with_the_last_error() {
    let server = FakeGemini::start_with([Reply::error(503, "UNAVAILABLE", "busy")], Exhausted::RepeatLast);
    let told = ask(&server, "hi").await;
    assert_eq!(told.waits.len(), 3);
    assert_eq!(server.requests().len(), 4);
    assert_eq!(told.error().kind, ModelErrorKind::Server);
    assert_eq!(told.error().status, Some(503));
    let request = ModelRequest { role: RequestRole::LoopDetector, ..prompt("hi") };
    let error = gemini(&server).generate(request).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Server);
    assert_eq!(server.requests().len(), 6, "work beside the conversation is given up sooner");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_network_error() {
    let closed = ClosedPort::new();
    let address = closed.url();
    let client = GeminiClient::new(options_at(address.clone())).unwrap();
    let told = drain(client.stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::Network);
    assert!(told.error().message.starts_with(&format!("could not reach {address}: ")), "{:?}", told.error);
    assert_eq!(told.waits.len(), 2, "a server that is not there is not asked ten times");
}

async fn broken(reply: Reply) -> Told {
    let server = FakeGemini::start([reply]).await;
    let mut options = options(&server);
    options.stall = Duration::from_secs(5);
    drain(GeminiClient::new(options).unwrap().stream(prompt("hi"))).await
}

#[tokio::test]
async fn a_stream_that_breaks_after_a_chunk_is_cut_and_not_tried_again() {
    let script = || reply().text("one").text("two").text("three");
    let cases = [
        ("closed between events", script().cut_after(1)),
        ("closed inside an event", script().cut_inside(1)),
        ("reset", script().reset_after(1)),
        ("ended inside an event", script().end_inside(1)),
        ("ended inside an event by closing", script().until_close().cut_inside(1)),
        ("silent", script().stall_after(1)),
    ];
    for (name, reply) in cases {
        let told = broken(reply).await;
        assert_eq!(told.text(), "one", "{name}");
        assert_eq!(told.error().kind, ModelErrorKind::Cut, "{name}: {:?}", told.error);
        assert!(told.error().stream_may_restart() && told.waits.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_connection_that_just_ends_between_events_is_left_to_the_agent() {
    let told = broken(reply().text("one").text("two").until_close().cut_after(1)).await;
    assert_eq!((told.text().as_str(), told.error), ("one", None));
}

#[tokio::test]
async fn what_breaks_after_the_finish_reason_does_not_spoil_the_reply() {
    let script = || reply().text("all").finish("STOP").chunk(json!({"usageMetadata": {}}));
    for reply in [script().reset_after(1), script().cut_inside(1), script().stall_after(1)] {
        let told = broken(reply).await;
        assert_eq!((told.text().as_str(), told.error), ("all", None));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_first_chunk_is_tried_again() {
    let server = FakeGemini::start([
        reply().text("lost").cut_inside(0),
        reply().text("lost").reset_after(0),
        reply().chunk(json!({"error": {"code": 503, "message": "busy"}})),
        reply().text("good"),
    ])
    .await;
    let told = ask(&server, "hi").await;
    assert_eq!((told.text().as_str(), &told.error), ("good", &None));
    assert_eq!(told.waits.len(), 3);

    let server = FakeGemini::start([reply().text("lost").cut_inside(0)]).await;
    let mut options = options(&server);
    options.retry_broken_streams = false;
    let told = drain(GeminiClient::new(options).unwrap().stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::Cut);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_error_inside_a_stream_is_the_apis_error() {
    let error = json!({"error": {"code": 429, "message": "in the middle", "status": "RESOURCE_EXHAUSTED"}});
    let server = FakeGemini::start([
        reply().text("a").chunk(error.clone()),
        reply().text("a").bytes(format!("{error:#}\n")),
        reply().text("a").bytes(error.to_string()),
    ])
    .await;
    for _ in 0..3 {
        let told = ask(&server, "hi").await;
        assert_eq!(told.text(), "a");
        assert_eq!(told.error().kind, ModelErrorKind::RateLimited);
        assert_eq!(told.error().message, "in the middle");
        assert_eq!(told.error().status, Some(429));
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let server = FakeGemini::start([Reply::never(), reply().text("good")]).await;
    let mut options = options(&server);
    options.first_byte = Duration::from_secs(2);
    let told = drain(GeminiClient::new(options).unwrap().stream(prompt("hi"))).await;
    assert_eq!(told.text(), "good");
    assert!(told.waits[0].cause.contains("no response from"), "{:?}", told.waits);
}

#[tokio::test]
async fn dropping_the_stream_ends_a_long_wait() {
    let server = FakeGemini::start([throttled("290s"), reply().text("never asked for")]).await;
    let mut options = options(&server);
    options.backoff.scale = 1.0;
    let mut stream = GeminiClient::new(options).unwrap().stream(prompt("hi"));
    let Some(Ok(ReplyEvent::Waiting(wait))) = stream.next().await else { panic!("a wait was due") };
    assert_eq!(wait.delay, Duration::from_secs(290));
    // Asking and not waiting for the answer must not start over.
    assert!(tokio::time::timeout(Duration::from_millis(20), stream.next()).await.is_err());
    drop(stream);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn the_key_is_in_no_error_whatever_the_server_quotes() {
    let quoting = format!("key {KEY} is not welcome");
    let cases = [
        Reply::error(400, "INVALID_ARGUMENT", &quoting),
        Reply::http(500, quoting.clone()),
        Reply::http(200, format!("<html><title>{KEY}</title>")).header("Content-Type", "text/html"),
        reply().chunk(json!({"error": {"code": 400, "message": quoting}})),
        reply().bytes(format!("data: {KEY}\n\n")),
        Reply::http(302, "").header("Location", &format!("http://elsewhere.invalid/{KEY}")),
    ];
    for reply in cases {
        let server = FakeGemini::start_with([reply], Exhausted::RepeatLast);
        let told = ask(&server, "hi").await;
        let shown = format!("{:?} {} {:?}", told.error, told.error(), told.waits);
        assert!(!shown.contains(KEY), "{shown}");
        let error = gemini(&server).generate(prompt("hi")).await;
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
    }
}
