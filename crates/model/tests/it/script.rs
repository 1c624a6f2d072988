//! Replies from a file and into one.

use std::sync::Arc;

use pollux_domain::content::Part;
use pollux_domain::model::{FinishReason, ModelClient, ModelErrorKind, ReplyChunk};
use pollux_model::catalogue::Catalogue;
use pollux_model::recording::RecordingClient;
use pollux_model::scripted::{ScriptError, ScriptedClient, Strictness};
use pollux_test_support::{FakeGemini, reply};
use serde_json::{Value, json};

use super::fixture::{drain, gemini, prompt};

const SCRIPT: &str = r#"
{"method":"generateContentStream","response":[{"candidates":[{"content":{"parts":[{"text":"one "}]}}]},{"candidates":[{"content":{"parts":[{"text":"two"}]},"finishReason":"STOP"}],"usageMetadata":{"totalTokenCount":3}}]}

{"method":"generateContent","response":{"candidates":[{"content":{"parts":[{"text":"whole"}]}}]}}
{"method":"countTokens","response":{"totalTokens":12}}
"#;

fn scripted(text: &str, strictness: Strictness) -> ScriptedClient {
    ScriptedClient::from_text(text, strictness, Arc::new(Catalogue::built_in())).unwrap()
}

#[tokio::test]
async fn lines_are_used_in_order_and_chunks_come_one_by_one() {
    let client = scripted(SCRIPT, Strictness::Strict);
    let told = drain(client.stream(prompt("hi"))).await;
    assert_eq!(told.chunks.len(), 2);
    assert_eq!(told.text(), "one two");
    assert_eq!(told.chunks[1].finish.as_ref().unwrap().reason, FinishReason::Stop);
    assert_eq!(told.chunks[1].usage.unwrap().total, 3);
    assert_eq!(client.generate(prompt("hi")).await.unwrap().parts, [Part::text("whole")]);
    assert_eq!(client.count_tokens(prompt("hi")).await, Ok(12));
}

#[tokio::test]
async fn a_strict_script_refuses_a_call_of_another_kind_and_uses_up_its_line() {
    let client = scripted(SCRIPT, Strictness::Strict);
    let error = client.generate(prompt("hi")).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Script);
    assert_eq!(
        error.message,
        "Unexpected response type, next response was for generateContentStream but expected generateContent"
    );
    assert_eq!(client.generate(prompt("hi")).await.unwrap().parts, [Part::text("whole")]);
}

#[tokio::test]
async fn a_script_that_is_not_strict_finds_the_line_that_fits() {
    let client = scripted(SCRIPT, Strictness::NonStrict);
    assert_eq!(client.count_tokens(prompt("hi")).await, Ok(12));
    assert_eq!(drain(client.stream(prompt("hi"))).await.text(), "one two");
    let told = drain(client.stream(prompt("hi"))).await;
    assert!(
        told.error().message.starts_with("No more mock responses for generateContentStream, got request:\n{")
    );
}

#[tokio::test]
async fn a_used_up_script_quotes_the_request() {
    let client = scripted("", Strictness::Strict);
    let error = client.generate(prompt("the question")).await.unwrap_err();
    let (first, quoted) = error.message.split_once('\n').unwrap();
    assert_eq!(first, "No more mock responses for generateContent, got request:");
    let quoted: Value = serde_json::from_str(quoted).unwrap();
    assert_eq!(quoted["model"], "gemini-2.5-pro");
    assert_eq!(quoted["contents"][0]["parts"][0]["text"], "the question");
    assert!(quoted["config"]["generationConfig"].is_object());
}

#[tokio::test]
async fn a_stream_takes_its_line_at_the_first_next_and_clones_share_the_script() {
    let client = scripted(SCRIPT, Strictness::Strict);
    drop(client.stream(prompt("hi")));
    assert_eq!(drain(client.clone().stream(prompt("hi"))).await.text(), "one two");
    assert!(client.generate(prompt("hi")).await.is_ok());
}

#[tokio::test]
async fn an_error_in_a_script_is_the_apis_error() {
    let script = r#"{"method":"generateContentStream","response":[{"error":{"code":503,"message":"busy"}},{}]}
{"method":"generateContentStream","response":{}}"#;
    let client = scripted(script, Strictness::Strict);
    let told = drain(client.stream(prompt("hi"))).await;
    assert_eq!((told.error().status, told.chunks.len()), (Some(503), 0));
    let told = drain(client.stream(prompt("hi"))).await;
    assert_eq!(told.error().kind, ModelErrorKind::Script);
}

#[test]
fn unusable_scripts_are_refused_with_their_line() {
    let catalogue = || Arc::new(Catalogue::built_in());
    let refused = |text| ScriptedClient::from_text(text, Strictness::Strict, catalogue()).err().unwrap();
    assert!(matches!(refused("\n{oops"), ScriptError::NotJson { line: 2, .. }));
    assert!(matches!(refused("{\"method\":\"x\"}"), ScriptError::Shape { line: 1, .. }));
    let missing = std::path::Path::new("/nonexistent/script.jsonl");
    let error = ScriptedClient::from_file(missing, Strictness::Strict, catalogue()).err().unwrap();
    assert!(error.to_string().contains("/nonexistent/script.jsonl"));
}

#[tokio::test]
async fn what_was_recorded_plays_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorded.jsonl");
    let server = FakeGemini::start([
        reply()
            .thought("hm")
            .text("see")
            .call_with_id("1", "read_file", json!({"b": 1, "a": 2}))
            .signature("s")
            .usage(1, 2),
        reply().text("cut").text("off").cut_after(1),
        reply().text("whole"),
    ])
    .await;
    let recording = RecordingClient::wrap(Arc::new(gemini(&server)), &path).unwrap();
    let first = drain(recording.stream(prompt("hi"))).await;
    assert!(drain(recording.stream(prompt("hi"))).await.error.is_some());
    let whole = recording.generate(prompt("hi")).await.unwrap();
    let count = recording.count_tokens(prompt("hi")).await.unwrap();
    assert_eq!(recording.resolve("auto"), gemini(&server).resolve("auto"));

    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "a stream that failed leaves no line");
    for chunk in lines[0]["response"].as_array().unwrap() {
        assert!(chunk.as_object().unwrap().keys().all(|key| key == "candidates" || key == "usageMetadata"));
    }

    let replay =
        ScriptedClient::from_file(&path, Strictness::Strict, Arc::new(Catalogue::built_in())).unwrap();
    // Who answered is not part of a recording.
    let without_version = |chunk: ReplyChunk| ReplyChunk { model_version: None, origin: None, ..chunk };
    let again = drain(replay.stream(prompt("hi"))).await;
    assert_eq!(again.chunks, first.chunks.into_iter().map(without_version).collect::<Vec<_>>());
    assert_eq!(replay.generate(prompt("hi")).await.unwrap(), without_version(whole));
    assert_eq!(replay.count_tokens(prompt("hi")).await, Ok(count));

    RecordingClient::wrap(Arc::new(replay), &path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "an existing file is kept");
}
