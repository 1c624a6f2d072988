//! `--fake-responses` and `--record-responses`.

use std::fs;

use pollux_test_support::{Run, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene, binary, lines, scripted};

fn run(script: &str, flag: &str, more: &[&str]) -> (TestHome, Run) {
    let home = TestHome::new().file("script.jsonl", script).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    let args: Vec<&str> =
        ["-m", MODEL, flag, "script.jsonl", "-p", "x"].into_iter().chain(more.iter().copied()).collect();
    let run = home.command(binary(), args).run();
    (home, run)
}

fn text(text: &str) -> String {
    scripted(&[json!({"text": text})])
}

fn unary() -> String {
    json!({"method": "generateContent", "response": {"candidates": []}}).to_string() + "\n"
}

#[test]
fn lines_are_played_in_order_and_calls_really_run() {
    let call =
        json!({"functionCall": {"name": "write_file", "args": {"file_path": "a.txt", "content": "made"}}});
    let script = format!("{}\n\n{}", scripted(&[json!({"text": "Go."}), call]), text("Done."));
    let (home, run) = run(&script, "--fake-responses", &["--yolo"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Go.\nDone.\n", Some(0)), "{}", run.stderr);
    assert_eq!(home.read("a.txt"), "made");
    assert_eq!(home.read("script.jsonl"), script, "the file is only read");
}

#[test]
fn a_line_of_another_kind_is_a_mismatch_in_strict_order_and_skipped_otherwise() {
    let script = format!("{}{}", unary(), text("Found."));
    let (_home, strict) = run(&script, "--fake-responses", &[]);
    assert_eq!(strict.code, Some(1));
    let message =
        "Unexpected response type, next response was for generateContent but expected generateContentStream";
    assert!(strict.stderr.contains(message), "{}", strict.stderr);
    let (_home, loose) = run(&script, "--fake-responses-non-strict", &[]);
    assert_eq!((loose.stdout.as_str(), loose.code), ("Found.\n", Some(0)), "{}", loose.stderr);
}

#[test]
fn a_script_that_is_used_up_says_what_was_asked() {
    for flag in ["--fake-responses", "--fake-responses-non-strict"] {
        let (_home, run) = run("", flag, &[]);
        assert_eq!(run.code, Some(1));
        assert!(
            run.stderr.contains("No more mock responses for generateContentStream, got request:"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn a_script_that_is_missing_or_broken_is_a_failure_at_the_start() {
    let (_home, broken) = run("{not json}\n", "--fake-responses", &[]);
    assert_eq!(broken.code, Some(1), "{}", broken.stderr);
    assert!(broken.stderr.contains("script.jsonl"), "{}", broken.stderr);
    let home = TestHome::new();
    let missing = home.command(binary(), ["--fake-responses", "none.jsonl", "-p", "x"]).run();
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("none.jsonl"), "{}", missing.stderr);
}

#[test]
fn empty_streams_are_asked_for_again_and_use_up_their_lines() {
    let empty = json!({"method": "generateContentStream", "response": [{"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}]});
    let (_home, run) = run(&format!("{empty}\n{}", text("Third time.")), "--fake-responses", &[]);
    assert_eq!((run.stdout.as_str(), run.code), ("Third time.\n", Some(0)), "{}", run.stderr);
}

#[test]
fn what_is_recorded_can_be_played() {
    let scene = Scene::new([
        reply().text("Look: ").call("list_directory", json!({"dir_path": "."})).usage(9, 1),
        reply().text("Nothing there.").chunk(json!({"candidates": [{"content": {"parts": [{"text": "!"}]}, "finishReason": "STOP"}], "modelVersion": "m", "responseId": "r"})),
    ]);
    let live = scene.run(&["-p", "x", "--record-responses", "recorded.jsonl"]);
    assert_eq!(live.code, Some(0), "{}", live.stderr);
    let recorded = lines(&fs::read_to_string(scene.home.project().join("recorded.jsonl")).unwrap());
    assert_eq!(recorded.len(), 2);
    for line in &recorded {
        assert_eq!(line["method"], "generateContentStream");
        for chunk in line["response"].as_array().unwrap() {
            let known = |key: &String| key == "candidates" || key == "usageMetadata";
            assert!(chunk.as_object().unwrap().keys().all(known), "{chunk}");
        }
    }
    let played = scene.run(&["-p", "x", "--fake-responses", "recorded.jsonl"]);
    assert_eq!(played.stdout, live.stdout);
    assert_eq!(scene.server.requests().len(), 2);
}

#[test]
fn upstreams_test_rig_finds_what_it_needs() {
    let home = TestHome::new().file("fake.jsonl", &text("Hello from the script."));
    let settings = json!({
        "general": {"enableAutoUpdate": false},
        "telemetry": {"enabled": true, "target": "local", "otlpEndpoint": "", "outfile": home.home().join("telemetry.log")},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
        "ui": {"useAlternateBuffer": true},
        "model": {"name": "gemini-3-flash-preview"},
        "ide": {"enabled": false, "hasSeenNudge": true},
        "sandbox": false,
    });
    let home = home
        .settings(settings.clone())
        .project_settings(settings)
        .home_file(".gemini/state.json", r#"{"terminalSetupPromptShown":true}"#);
    let base = home.home();
    let run = home
        .command(binary(), ["--approval-mode=default", "--fake-responses", "fake.jsonl", "a prompt"])
        .env("GEMINI_CLI_HOME", base.to_str().unwrap())
        .env("GEMINI_PTY_INFO", "child_process")
        .env("GEMINI_CLI_INTEGRATION_TEST", "true")
        .run();
    assert_eq!((run.stdout.as_str(), run.code), ("Hello from the script.\n", Some(0)), "{}", run.stderr);
    let telemetry = fs::read_to_string(base.join("telemetry.log")).unwrap();
    assert!(telemetry.contains("\"scopeMetrics\""));
    let state: Value =
        serde_json::from_str(&fs::read_to_string(base.join(".gemini/state.json")).unwrap()).unwrap();
    assert_eq!(state["terminalSetupPromptShown"], true);
}
