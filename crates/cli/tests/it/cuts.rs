//! Streams that stop too early: nothing of a void attempt counts.

use pollux_test_support::{Reply, Run, reply};
use serde_json::json;

use crate::scene::{Scene, lines, of_type, parse};

fn half() -> Reply {
    let args = json!({"file_path": "void.txt", "content": "from the void attempt"});
    reply().text("Half an ans").call_with_id("void", "write_file", args).text("never arrives")
}

fn good() -> [Reply; 2] {
    let args = json!({"file_path": "good.txt", "content": "from the good attempt"});
    [reply().text("Whole.").call_with_id("good", "write_file", args), reply().text("Done.")]
}

/// The ways in which a stream can stop after a call.
fn cuts() -> Vec<(&'static str, Reply)> {
    vec![
        ("closed", half().cut_after(2)),
        ("closed inside a chunk", half().cut_inside(2)),
        ("reset", half().reset_after(2)),
        ("clean end without a finish reason", half().without_finish()),
        ("closed like a clean end", half().until_close().cut_after(2)),
        ("body ended inside a chunk", half().end_inside(2)),
        ("closed after a call with a finish reason in a later chunk", half().finish("STOP").cut_after(2)),
    ]
}

fn run(cut: Reply, format: &[&str]) -> (Scene, Run) {
    let [first, second] = good();
    let scene = Scene::new([cut, first, second]);
    let args: Vec<&str> = ["-p", "write", "--yolo"].into_iter().chain(format.iter().copied()).collect();
    let run = scene.run(&args);
    (scene, run)
}

#[test]
fn a_call_of_a_void_attempt_never_runs() {
    for (name, cut) in cuts() {
        let (scene, run) = run(cut, &[]);
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        assert!(!scene.home.project().join("void.txt").exists(), "{name}");
        assert_eq!(scene.home.read("good.txt"), "from the good attempt", "{name}");
        assert_eq!(scene.server.requests().len(), 3, "{name}");
        let sent = scene.server.request(2).body.to_string();
        assert!(!sent.contains("Half an ans") && !sent.contains("void.txt"), "{name}: {sent}");
        let recorded = scene.session().to_string();
        assert!(!recorded.contains("Half an ans") && !recorded.contains("void.txt"), "{name}");
    }
}

#[test]
fn text_of_a_void_attempt_is_marked_in_text_and_omitted_from_json() {
    let (_scene, text) = run(half().cut_after(2), &[]);
    let (before, after) = text.stdout.split_once("[disregard the text above: ").expect(&text.stdout);
    assert_eq!(before, "Half an ans\n");
    assert!(after.ends_with("Whole.\nDone.\n"), "{after}");
    assert!(text.stderr.contains("Disregard the text"), "{}", text.stderr);

    let (_scene, json) = run(half().reset_after(2), &["-o", "json"]);
    assert_eq!(parse(&json.stdout)["response"], "Whole.\nDone.");
}

#[test]
fn a_void_attempt_is_an_event_of_both_dialects() {
    let (_scene, ours) = run(half().cut_after(2), &["-o", "stream-json"]);
    let events = lines(&ours.stdout);
    let retry = of_type(&events, "ERROR").into_iter().find(|event| event["code"] == "STREAM_RETRY");
    assert!(retry.is_some(), "{events:#?}");
    assert_eq!(of_type(&events, "TOOL_USE").len(), 1, "only the call that ran is told: {events:#?}");

    let (_scene, upstream) =
        run(half().cut_after(2), &["-o", "stream-json", "--output-dialect", "gemini-cli"]);
    let events = lines(&upstream.stdout);
    let warning = of_type(&events, "error");
    assert_eq!(warning.len(), 1);
    assert_eq!(warning[0]["severity"], "warning");
    let uses = of_type(&events, "tool_use");
    assert_eq!(uses.len(), 1);
    assert_eq!(uses[0]["tool_id"], "write_file__good");
}

#[test]
fn a_call_whose_stream_was_finished_runs_even_if_the_connection_then_breaks() {
    let args = json!({"file_path": "kept.txt", "content": "kept"});
    let finished = reply().call("write_file", args).finish("STOP").text("trailing").cut_after(1);
    let scene = Scene::new([finished, reply().text("Done.")]);
    let run = scene.run(&["-p", "write", "--yolo"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(scene.home.read("kept.txt"), "kept");
    assert_eq!(scene.server.requests().len(), 2);
}

#[test]
fn a_malformed_call_is_asked_for_again() {
    let malformed = reply().text("").finish("MALFORMED_FUNCTION_CALL");
    let scene = Scene::new([malformed, reply().text("Now it works.")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Now it works.\n", Some(0)), "{}", run.stderr);
    assert_eq!(scene.server.requests().len(), 2);
}

#[test]
fn useless_replies_are_asked_for_again_with_a_nudge_until_the_tries_are_used_up() {
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}});
    let scene = Scene::new([
        reply().text("").finish("MALFORMED_FUNCTION_CALL"),
        reply().thought("**Only** thinking"),
        reply().chunk(json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})),
        reply().chunk(blocked),
    ]);
    let run = scene.run(&["-p", "x", "-o", "json"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let document = parse(&run.stdout);
    assert_eq!((&document["response"], &document["error"]["type"]), (&json!(""), &json!("INVALID_STREAM")));
    assert_eq!(scene.server.requests().len(), 4, "{}", run.stderr);
    let parts: Vec<usize> = (0..4).map(|index| scene.server.request(index).last_texts().len()).collect();
    assert_eq!(parts, [2, 2, 3, 3], "a nudge follows a reply without words");
    let session = scene.session();
    let types: Vec<&str> = session["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["type"].as_str().unwrap())
        .collect();
    let told = ["user", "warning", "warning", "warning", "warning", "error"];
    assert_eq!(types, told, "nothing of it is recorded but what went wrong");
}
