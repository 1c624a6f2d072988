use std::time::Duration;

use pollux_domain::model::ModelErrorKind;
use pollux_domain::model::ModelErrorKind::{Auth, BadRequest, NotFound, QuotaExhausted, RateLimited, Server};
use serde_json::{Value, json};

use super::*;
use crate::http::Retry;

const NEVER: Option<Option<u64>> = None;
/// Retried without a wish of the server.
const PLAIN: Option<Option<u64>> = Some(None);

fn after(millis: u64) -> Option<Option<u64>> {
    Some(Some(millis))
}

fn api(code: u16, message: &str, details: Value) -> String {
    json!({"error": {"code": code, "message": message, "status": "X", "details": details}}).to_string()
}

fn info(reason: &str, domain: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": domain,
           "metadata": {"quota_limit": "None"}})
}

fn retry_info(delay: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
}

fn quota_failure(id: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]})
}

fn nested(levels: usize) -> String {
    let mut text = api(429, "innermost: Please retry in 7s.", json!([]));
    for _ in 0..levels {
        text = json!({"error": {"code": 500, "message": text}}).to_string();
    }
    text
}

type Case = (&'static str, u16, String, Option<u64>, ModelErrorKind, Option<Option<u64>>);

fn cases() -> Vec<Case> {
    let cloud = "cloudcode-pa.googleapis.com";
    vec![
        ("plain 400", 400, api(400, "bad", json!([])), None, BadRequest, NEVER),
        ("wrong key", 400, api(400, "x", json!([info("API_KEY_INVALID", "g")])), None, Auth, NEVER),
        ("wrong key by text", 400, api(400, "API key not valid. Pass", json!([])), None, Auth, NEVER),
        ("401", 401, api(401, "who", json!([])), None, Auth, NEVER),
        ("API off", 403, api(403, "no", json!([info("SERVICE_DISABLED", "g")])), None, BadRequest, NEVER),
        ("403", 403, api(403, "no", json!([info("VALIDATION_REQUIRED", cloud)])), None, Auth, NEVER),
        ("404", 404, api(404, "no model", json!([])), None, NotFound, NEVER),
        ("413", 413, "too large".into(), None, BadRequest, NEVER),
        ("429 bare", 429, api(429, "slow", json!([])), None, RateLimited, PLAIN),
        ("429 without a body", 429, String::new(), None, RateLimited, PLAIN),
        ("RetryInfo", 429, api(429, "x", json!([retry_info("34.07s")])), None, RateLimited, after(34_070)),
        ("RetryInfo ms", 429, api(429, "x", json!([retry_info("500ms")])), None, RateLimited, after(500)),
        ("text", 429, api(429, "Please retry in 12.5s.", json!([])), None, RateLimited, after(12_500)),
        ("header", 429, api(429, "x", json!([])), Some(1), RateLimited, after(1_000)),
        ("header is a lower bound", 429, api(429, "x", json!([retry_info("2s")])), Some(9), RateLimited, after(9_000)),
        ("wish above the header", 429, api(429, "x", json!([retry_info("20s")])), Some(9), RateLimited, after(20_000)),
        ("too long", 429, api(429, "x", json!([retry_info("301s")])), None, QuotaExhausted, NEVER),
        ("too long header", 429, api(429, "x", json!([])), Some(3600), QuotaExhausted, NEVER),
        ("limit 0", 429, api(429, "Quota, limit: 0, model: x", json!([retry_info("5s")])), None, QuotaExhausted, NEVER),
        ("limit 0 at the end", 429, api(429, "Quota limit: 0", json!([])), None, QuotaExhausted, NEVER),
        ("limit 0.5", 429, api(429, "Quota limit: 0.5", json!([])), None, RateLimited, PLAIN),
        ("limit 05", 429, api(429, "Quota limit: 05", json!([])), None, RateLimited, PLAIN),
        ("per day", 429, api(429, "x", json!([quota_failure("RequestsPerDayPerProject"), retry_info("5s")])), None, QuotaExhausted, NEVER),
        ("daily", 429, api(429, "x", json!([quota_failure("DailyTokens")])), None, QuotaExhausted, NEVER),
        ("per minute", 429, api(429, "x", json!([quota_failure("RequestsPerMinute")])), None, RateLimited, after(60_000)),
        ("per minute with a wish", 429, api(429, "x", json!([quota_failure("RequestsPerMinute"), retry_info("3s")])), None, RateLimited, after(3_000)),
        ("capacity", 429, api(429, "x", json!([info("MODEL_CAPACITY_EXHAUSTED", cloud)])), None, RateLimited, PLAIN),
        ("capacity by text", 503, api(503, "You have exhausted your capacity", json!([])), None, Server, PLAIN),
        ("credits", 429, api(429, "x", json!([info("INSUFFICIENT_G1_CREDITS_BALANCE", cloud)])), None, QuotaExhausted, NEVER),
        ("cloud code quota", 429, api(429, "x", json!([info("QUOTA_EXHAUSTED", cloud), retry_info("5s")])), None, QuotaExhausted, NEVER),
        ("quota word elsewhere", 429, api(429, "x", json!([info("QUOTA_EXHAUSTED", "other")])), None, RateLimited, PLAIN),
        ("cloud code rate without wish", 429, api(429, "x", json!([info("RATE_LIMIT_EXCEEDED", cloud)])), None, QuotaExhausted, NEVER),
        ("cloud code rate with wish", 429, api(429, "x", json!([info("RATE_LIMIT_EXCEEDED", cloud), retry_info("5s")])), None, RateLimited, after(5_000)),
        ("499", 499, api(499, "x", json!([])), None, RateLimited, PLAIN),
        ("500", 500, api(500, "oops", json!([])), None, Server, PLAIN),
        ("502 page", 502, "<html><head><title>502 Bad Gateway</title>".into(), None, Server, PLAIN),
        ("503 with a header", 503, api(503, "busy", json!([])), Some(4), Server, after(4_000)),
        ("504", 504, "<!DOCTYPE html>".into(), None, Server, PLAIN),
        ("array", 429, format!("[{}]", api(429, "x", json!([retry_info("8s")]))), None, RateLimited, after(8_000)),
        ("nested", 429, nested(3), None, RateLimited, after(7_000)),
        ("double commas", 429, api(429, "a,,b", json!([retry_info("8s")])).replace("\"status\"", ",\"status\""), None, RateLimited, after(8_000)),
        ("odd shapes", 429, r#"{"error":{"code":"429","details":[null,3,{"@type":7},{"@type":"x/RetryInfo","retryDelay":5}]}}"#.into(), None, RateLimited, PLAIN),
        ("redirect", 302, String::new(), None, BadRequest, NEVER),
    ]
}

#[test]
fn every_error_body_is_understood() {
    for (name, status, body, header, kind, retry) in cases() {
        let found = from_response(status, "Reason", body.as_bytes(), header.map(Duration::from_secs));
        assert_eq!(found.error.kind, kind, "{name}");
        assert_eq!(found.error.status, Some(status), "{name}");
        assert!(!found.error.message.trim().is_empty(), "{name}");
        let delay = match found.retry {
            Retry::Never | Retry::AtMost { .. } | Retry::WhileLoading => None,
            Retry::After { hint, .. } => Some(hint.map(|hint| u64::try_from(hint.as_millis()).unwrap())),
        };
        assert_eq!(delay, retry, "{name}");
    }
}

#[test]
fn the_innermost_message_is_what_people_read() {
    let message = |status, body: &str| from_response(status, "Reason", body.as_bytes(), None).error.message;
    assert_eq!(message(429, &nested(2)), "innermost: Please retry in 7s.");
    assert_eq!(message(500, "  plain words "), "plain words");
    assert_eq!(message(500, ""), "the server responded with 500 Reason");
    assert_eq!(
        message(502, "<html><title>Bad <b>Gateway</title>"),
        "the server sent a web page instead of an API error: Bad"
    );
    assert_eq!(message(400, &api(400, "a,,b", json!([]))), "a,,b");
    assert!(message(500, &"ü".repeat(100_000)).chars().count() <= 4001);
    assert!(message(429, &nested(12)).contains("error"), "too deep is left as it is");
}

#[test]
fn an_error_inside_a_stream_takes_its_status_from_the_body() {
    let status = |body: Value| in_body(&body).map(|found| found.error.status.unwrap());
    assert_eq!(status(json!({"error": {"code": 503, "message": "x"}})), Some(503));
    assert_eq!(status(json!([{"error": {"status": "RESOURCE_EXHAUSTED"}}])), Some(429));
    assert_eq!(status(json!({"error": {}})), Some(500));
    assert_eq!(status(json!({"candidates": []})), None);
    assert_eq!(status(json!({"error": "text"})), None);
}
