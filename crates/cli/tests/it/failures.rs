//! What happens when the server refuses, and how long it is asked again.

use std::time::{Duration, Instant};

use pollux_test_support::{ClosedPort, Reply, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, of_type, panicked, parse};

#[test]
fn refusals_that_no_retry_cures_are_one_request_each() {
    for (status, word) in
        [(400, "INVALID_ARGUMENT"), (401, "UNAUTHENTICATED"), (403, "PERMISSION_DENIED"), (404, "NOT_FOUND")]
    {
        let refusal = || Reply::error(status, word, "nope, said the server");
        let scene = Scene::new([refusal(), refusal(), refusal(), refusal()]);
        let text = scene.run(&["-p", "x"]);
        assert_eq!(text.code, Some(1), "{status}");
        assert!(text.stdout.is_empty() && text.stderr.contains("nope, said the server"), "{}", text.stderr);

        let ours = scene.run(&["-p", "x", "-o", "json"]);
        assert_eq!(ours.code, Some(1));
        let document = parse(&ours.stdout);
        assert_eq!(document["error"]["status"], status);
        assert_eq!(document["error"]["type"], "API_ERROR");

        let upstream = scene.run(&["-p", "x", "-o", "json", "--output-dialect", "gemini-cli"]);
        assert_eq!((upstream.stdout.as_str(), upstream.code), ("", Some(1)));
        let object = parse(&upstream.stderr);
        assert_eq!(object["error"]["code"], status);
        assert_eq!(object["error"]["type"], "Error");
        assert!(object["session_id"].is_string());

        let stream = scene.run(&["-p", "x", "-o", "stream-json", "--output-dialect", "gemini-cli"]);
        let events = crate::scene::lines(&stream.stdout);
        let result = events.last().unwrap();
        assert_eq!(result["status"], "error");
        assert!(result["error"]["message"].as_str().unwrap().starts_with("[API Error: "), "{result}");
        assert_eq!(stream.code, Some(1));
        assert_eq!(scene.server.requests().len(), 4, "{status} was asked again");
    }
}

#[test]
fn a_rate_limit_is_waited_out_visibly() {
    let limited = || Reply::error(429, "RESOURCE_EXHAUSTED", "slow down").header("Retry-After", "1");
    let scene = Scene::new([limited(), reply().text("Fine.")]);
    let started = Instant::now();
    let (events, code) = scene.events(&["-p", "x"]);
    assert!(started.elapsed() >= Duration::from_millis(990), "{:?}", started.elapsed());
    assert_eq!(code, Some(0));
    let errors = of_type(&events, "ERROR");
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0]["code"], "RATE_LIMIT");
    assert_eq!(scene.server.requests().len(), 2);
}

#[test]
fn the_wait_for_a_rate_limit_is_told_on_stderr_and_stdout_is_the_answer_alone() {
    let limited = Reply::error(429, "RESOURCE_EXHAUSTED", "slow down").header("Retry-After", "1");
    let scene = Scene::new([limited, reply().text("Fine.")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Fine.\n", Some(0)));
    let line = run.stderr.lines().find(|line| line.contains("429")).expect("a line about the wait");
    assert!(
        line.starts_with("Attempt 1/") && line.contains("slow down") && line.contains("Retrying in 1"),
        "{line}"
    );
}

#[test]
fn a_retry_delay_in_the_body_is_honoured() {
    let body = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "busy", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}]}});
    let limited = Reply::http(429, body.to_string()).header("Content-Type", "application/json");
    let scene = Scene::new([Reply::error(500, "INTERNAL", "oops"), limited, reply().text("Fine.")]);
    let started = Instant::now();
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Fine.\n", Some(0)), "{}", run.stderr);
    assert!(started.elapsed() >= Duration::from_millis(990));
    assert_eq!(scene.server.requests().len(), 3);
}

#[test]
fn a_quota_of_nothing_is_final() {
    let scene = Scene::new([Reply::error(429, "RESOURCE_EXHAUSTED", "Quota exceeded, limit: 0, model: x")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.code, scene.server.requests().len()), (Some(1), 1));
    assert!(run.stderr.contains("limit: 0") && run.stderr.contains("hint: "), "{}", run.stderr);
}

#[test]
fn a_chunk_without_candidates_in_the_middle_harms_nothing() {
    let usage = json!({"usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}});
    let scene = Scene::new([reply().text("one ").chunk(usage).text("two").usage(10, 2)]);
    let run = scene.run(&["-p", "x", "-o", "json"]);
    let document = parse(&run.stdout);
    assert_eq!(document["response"], "one two");
    let totals = &document["stats"]["models"][crate::scene::MODEL]["tokens"];
    assert_eq!((&totals["prompt"], &totals["total"]), (&json!(10), &json!(12)));
}

#[test]
fn a_stream_in_single_bytes_with_keep_alives_is_the_same_stream() {
    let scene = Scene::new([reply()
        .bytes(": keep-alive\r\n\r\n")
        .text("héllo ")
        .bytes("event: x\nid: 7\n\n")
        .text("wörld ✓")
        .split([1, 2, 3])]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("héllo wörld ✓\n", Some(0)), "{}", run.stderr);
}

#[test]
fn a_reply_that_is_no_stream_is_an_error_and_no_panic() {
    for body in ["<html>proxy login</html>", "", "data: {broken\n\n", "data: [1,2]\n\ndata: \"x\"\n\n"] {
        let scene = Scene::new([Reply::http(200, body).header("Content-Type", "text/html")]);
        let run = scene.run(&["-p", "x"]);
        assert_eq!(run.code, Some(1), "{body}: {}", run.stderr);
        assert!(run.stdout.is_empty() && !run.stderr.is_empty() && !panicked(&run), "{body}: {}", run.stderr);
    }
}

#[test]
fn an_error_inside_the_stream_is_told() {
    let error = json!({"error": {"code": 400, "message": "bad inside", "status": "INVALID_ARGUMENT"}});
    let scene = Scene::new([reply().text("half ").chunk(error)]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("bad inside"), "{}", run.stderr);
}

#[test]
fn the_same_call_with_the_same_result_is_stopped() {
    let same = || reply().call("glob", json!({"pattern": "*.none"}));
    let scene = Scene::new((0..12).map(|_| same()));
    let run = scene.run(&["-p", "x", "-o", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let asked = scene.server.requests().len();
    assert!((5..=7).contains(&asked), "{asked} requests");
    let document = parse(&run.stdout);
    assert_eq!(document["warnings"].as_array().unwrap().len(), 1, "{document:#}");
    assert!(run.stderr.to_lowercase().contains("loop"), "{}", run.stderr);
}

#[test]
fn nobody_listening_at_the_address_is_a_network_error() {
    let home = TestHome::new().settings(json!({"general": {"maxAttempts": 1}}));
    let scene = Scene::with(home, []);
    let closed = ClosedPort::new();
    let run = scene.prompt(&["-p", "x"]).env("GOOGLE_GEMINI_BASE_URL", &closed.url()).run();
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("[API Error: ") && run.stderr.contains("hint: "), "{}", run.stderr);
}

#[test]
fn the_number_of_tries_can_be_set() {
    let home = TestHome::new().settings(json!({"general": {"maxAttempts": 2}}));
    let scene = Scene::with(home, (0..3).map(|_| Reply::error(503, "UNAVAILABLE", "down")));
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.code, scene.server.requests().len()), (Some(1), 2), "{}", run.stderr);
}

/// Kinds and texts of the lines for people in the session.
fn notices(scene: &Scene) -> Vec<(String, String)> {
    let session = scene.session();
    let messages = session["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| !["user", "gemini"].contains(&message["type"].as_str().unwrap()))
        .map(|message| {
            let text = |key: &str| message[key].as_str().unwrap().to_owned();
            (text("type"), text("content"))
        })
        .collect()
}

#[test]
fn a_failure_is_recorded_for_people_and_never_sent_to_a_model() {
    let key = "AIzaSyD-0123456789abcdefghijklmnopqrstu";
    let refusal = Reply::error(400, "INVALID_ARGUMENT", &format!("not with {key}"));
    let scene = Scene::new([refusal, reply().text("Better.")]);
    assert_eq!(scene.run(&["-p", "first"]).code, Some(1));
    let [(kind, text)] = &notices(&scene)[..] else { panic!("{:?}", notices(&scene)) };
    assert_eq!(kind, "error");
    assert!(text.starts_with("[API Error: ") && text.contains("not with") && !text.contains(key), "{text}");
    let run = scene.run(&["-p", "second", "--resume"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Better.\n", Some(0)), "{}", run.stderr);
    let contents = scene.server.request(1).body["contents"].to_string();
    assert!(contents.contains("first") && contents.contains("second"), "{contents}");
    assert!(!contents.contains("API Error"), "{contents}");
    let types: Vec<Value> = scene.session()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["type"].clone())
        .collect();
    assert_eq!(types, ["user", "error", "user", "gemini"]);
    let shown = scene.prepare(&["sessions", "transcript", "latest", "--format", "markdown"]).run();
    assert!(shown.stdout.contains("API Error"), "{}{}", shown.stdout, shown.stderr);
}

#[test]
fn a_retry_that_people_saw_is_recorded_as_a_warning() {
    let limited = Reply::error(429, "RESOURCE_EXHAUSTED", "slow down").header("Retry-After", "1");
    let scene = Scene::new([limited, reply().text("Hi.")]);
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    let [(kind, text)] = &notices(&scene)[..] else { panic!("{:?}", notices(&scene)) };
    assert_eq!(kind, "warning");
    assert!(text.starts_with("Attempt 1/10 failed with status 429: slow down"), "{text}");
}
