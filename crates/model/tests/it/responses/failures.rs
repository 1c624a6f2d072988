//! What the client does when things go wrong.

use std::time::{Duration, Instant};

use pollux_domain::model::{ModelClient, ModelErrorKind, ReplyEvent};
use pollux_test_support::{FakeResponses, ResponsesReply, responses_reply};
use serde_json::json;

use super::{ask, client, options, prompt};
use crate::it::fixture::drain;
use pollux_model::responses::ResponsesClient;

/// Delays are scaled down to a ten-thousandth.
fn scaled(millis: u64) -> Duration {
    Duration::from_millis(millis).mul_f64(0.0001)
}

#[tokio::test]
async fn a_failed_reply_says_in_its_text_when_to_come_back() {
    let message = "Rate limit reached for gpt-5.6-sol. Please try again in 1.5s. Visit your account page.";
    let server = FakeResponses::start([
        responses_reply().failed("rate_limit_exceeded", message),
        responses_reply().text(&["good"]),
    ]);
    let told = ask(&server).await;
    assert_eq!((told.text().as_str(), &told.error), ("good", &None));
    let [wait] = told.waits.as_slice() else { panic!("one wait was due: {:?}", told.waits) };
    assert_eq!(wait.delay, scaled(1500));
}

#[tokio::test]
async fn an_error_event_after_the_start_is_tried_again() {
    let server = FakeResponses::start([
        responses_reply()
            .event("error", json!({"code": "server_is_overloaded", "message": "busy", "param": null})),
        responses_reply().event("error", json!({"error": {"code": "slow_down", "message": "busy"}})),
        responses_reply()
            .bytes("data: {\"error\": {\"message\": \"oops\", \"code\": \"server_error\"}}\n\n")
            .stops(),
        responses_reply().text(&["good"]),
    ]);
    let told = ask(&server).await;
    assert_eq!((told.text().as_str(), told.waits.len(), &told.error), ("good", 3, &None));
}

#[tokio::test]
async fn an_error_after_text_is_for_the_caller_to_retry() {
    let busy = json!({"code": "server_is_overloaded", "message": "busy", "param": null});
    let server = FakeResponses::start([responses_reply().text(&["half"]).event("error", busy)]);
    let told = ask(&server).await;
    assert_eq!(told.text(), "half");
    assert_eq!(told.error().kind, ModelErrorKind::Overloaded);
    assert!(told.error().stream_may_restart());
}

#[tokio::test]
async fn an_account_without_credit_is_told_and_not_asked_again() {
    let message = "You exceeded your current quota, please check your plan and billing details.";
    let server = FakeResponses::start([
        ResponsesReply::error(429, "insufficient_quota", "insufficient_quota", message),
        responses_reply().failed("insufficient_quota", message),
    ]);
    for count in 1..=2 {
        let told = ask(&server).await;
        assert_eq!(told.error().kind, ModelErrorKind::Billing);
        assert!(told.error().message.contains("billing"), "{}", told.error().message);
        assert_eq!((told.waits.len(), server.requests().len()), (0, count));
    }
}

#[tokio::test]
async fn codes_of_failed_replies_have_their_meaning() {
    let cases = [
        ("context_length_exceeded", ModelErrorKind::ContextOverflow { asked: None, limit: None }),
        ("bio_policy", ModelErrorKind::PolicyBlocked),
        ("cyber_policy", ModelErrorKind::PolicyBlocked),
        ("invalid_prompt", ModelErrorKind::BadRequest),
    ];
    let server = FakeResponses::start(cases.iter().map(|(code, _)| responses_reply().failed(code, "no")));
    for (code, kind) in &cases {
        let told = ask(&server).await;
        assert_eq!(&told.error().kind, kind, "{code}");
        assert_eq!(told.error().details.code.as_deref(), Some(*code));
    }
}

#[tokio::test]
async fn a_stream_that_just_ends_is_a_cut() {
    let server = FakeResponses::start([responses_reply().text(&["half"]).stops(), responses_reply().stops()]);
    let told = ask(&server).await;
    assert_eq!((told.text().as_str(), &told.error().kind), ("half", &ModelErrorKind::Cut));
    let told = ask(&server).await;
    let kind = &told.error().kind;
    assert_eq!(
        (kind, told.waits.len()),
        (&ModelErrorKind::Cut, 0),
        "the caller asks again, as on every wire"
    );
}

#[tokio::test]
async fn a_reply_ends_with_its_last_event_although_the_connection_stays_open() {
    let server = FakeResponses::start([responses_reply().text(&["x"]).completed().falls_silent()]);
    let started = Instant::now();
    let told = ask(&server).await;
    assert_eq!((told.text().as_str(), told.error), ("x", None));
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn the_servers_wish_is_kept_in_every_form() {
    let busy = || ResponsesReply::error(429, "rate_limit_error", "rate_limit_exceeded", "slow down");
    let server = FakeResponses::start([
        busy().header("retry-after", "2"),
        busy().header("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT"),
        busy().header("retry-after", "7").header("retry-after-ms", "750"),
        responses_reply().text(&["good"]),
    ]);
    let told = ask(&server).await;
    assert_eq!(told.text(), "good");
    let delays: Vec<Duration> = told.waits.iter().map(|wait| wait.delay).collect();
    assert_eq!(delays, [scaled(2000), scaled(500), scaled(750)]);
}

#[tokio::test]
async fn a_wish_that_is_too_long_and_a_no_are_final() {
    let server = FakeResponses::start([
        ResponsesReply::error(429, "rate_limit_error", "rate_limit_exceeded", "slow down")
            .header("retry-after", "3600"),
        ResponsesReply::error(500, "server_error", "server_error", "oops").header("x-should-retry", "false"),
    ]);
    let told = ask(&server).await;
    assert_eq!(told.error().kind, ModelErrorKind::QuotaExhausted);
    assert!(told.error().message.contains("60 minutes"), "{}", told.error().message);
    let told = ask(&server).await;
    assert_eq!((&told.error().kind, told.waits.len()), (&ModelErrorKind::Server, 0));
}

#[tokio::test]
async fn an_overflow_is_known_in_errors_and_in_the_stream() {
    let message =
        "Your input exceeds the context window of this model. Please adjust your input and try again.";
    let server = FakeResponses::start([
        ResponsesReply::error(400, "invalid_request_error", "context_length_exceeded", message),
        ResponsesReply::error(400, "invalid_request_error", "", message),
        responses_reply().failed("context_length_exceeded", message),
        ResponsesReply::error(
            429,
            "tokens",
            "rate_limit_exceeded",
            "Rate limit reached: maximum context length",
        ),
        responses_reply().text(&["good"]),
    ]);
    for _ in 0..3 {
        let told = ask(&server).await;
        assert!(matches!(told.error().kind, ModelErrorKind::ContextOverflow { .. }), "{:?}", told.error());
    }
    assert_eq!(ask(&server).await.text(), "good", "a rate limit is never an overflow");
}

#[tokio::test]
async fn a_parameter_that_the_server_does_not_know_is_left_out_from_then_on() {
    let unknown = ResponsesReply::http(
        400,
        json!({"error": {"message": "Unknown parameter: 'truncation'.", "type": "invalid_request_error",
            "param": "truncation", "code": "unknown_parameter"}})
        .to_string(),
    );
    let server =
        FakeResponses::start([unknown, responses_reply().text(&["one"]), responses_reply().text(&["two"])]);
    let client = client(&server);
    for expected in ["one", "two"] {
        assert_eq!(drain(client.stream(prompt("hi"))).await.text(), expected);
    }
    let sent: Vec<bool> =
        server.requests().iter().map(|request| request.body.get("truncation").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
}

#[tokio::test]
async fn a_key_that_the_server_quotes_is_hidden() {
    let server = FakeResponses::start([ResponsesReply::error(
        401,
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided: sk-secret-0123456789.",
    )]);
    let told = ask(&server).await;
    assert_eq!(told.error().kind, ModelErrorKind::Auth);
    assert!(!format!("{:?}", told.error()).contains("sk-secret-0123456789"), "{:?}", told.error());
}

#[tokio::test]
async fn an_event_that_is_too_long_is_refused() {
    let long = "x".repeat(1024 * 1024);
    let mut reply = responses_reply().bytes("event: response.output_text.delta\ndata: {\"delta\": \"");
    for _ in 0..65 {
        reply = reply.bytes(long.clone());
    }
    let server = FakeResponses::start([reply.stops()]);
    let told = ask(&server).await;
    assert_eq!(told.error().kind, ModelErrorKind::Malformed);
}

#[tokio::test]
async fn very_many_pieces_become_one_reply() {
    let piece =
        json!({"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "ab"});
    let pieces = format!("data: {piece}\n\n").repeat(100_000);
    let server = FakeResponses::start([responses_reply().bytes(pieces)]);
    let told = ask(&server).await;
    assert_eq!((told.text().len(), told.error), (200_000, None));
}

#[tokio::test]
async fn a_dropped_stream_closes_its_connection_in_the_middle_of_arguments() {
    let item =
        json!({"type": "function_call", "id": "fc_0", "call_id": "c", "name": "read_file", "arguments": ""});
    let delta = json!({"item_id": "fc_0", "output_index": 0, "delta": "{\"path\""});
    let server = FakeResponses::start([
        responses_reply()
            .event("response.output_item.added", json!({"output_index": 0, "item": item}))
            .event("response.function_call_arguments.delta", delta)
            .falls_silent(),
        responses_reply().text(&["next"]),
    ]);
    let client = client(&server);
    let mut stream = client.stream(prompt("hi"));
    loop {
        if let Some(Ok(ReplyEvent::CallProgress { name, bytes, .. })) = stream.next().await {
            assert_eq!((name.as_str(), bytes), ("read_file", 7));
            break;
        }
    }
    drop(stream);
    let dropped = Instant::now();
    while server.hang_ups() == 0 {
        assert!(dropped.elapsed() < Duration::from_secs(20), "the connection is still open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(drain(client.stream(prompt("hi"))).await.text(), "next");
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let server = FakeResponses::start([responses_reply().text(&["x"]).falls_silent()]);
    let mut options = options(&server);
    options.timing.stall = Duration::from_secs(2);
    let told = drain(ResponsesClient::new(options).unwrap().stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::Cut);
}
