#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;

use super::*;
use crate::line::Captured;
use crate::test_home::TestHome;

fn line(parts: &Value) -> Value {
    json!({"method": "generateContentStream", "response": [
        {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "modelVersion": "m"}
    ]})
}

/// A capsule with a prompt, a call and an answer.
fn capsule() -> Value {
    let end = json!({"status": "success", "output": "two lines"});
    json!({
        "format": 1,
        "contents": "redacted",
        "sessions": [{
            "subagent": false,
            "events": [
                {"number": 1, "kind": "prompt", "text": "read it"},
                {"number": 2, "kind": "reply", "model": "m", "text": ""},
                {"number": 3, "kind": "call", "tool": "read_file", "args": {"file_path": "a"}, "result": end},
                {"number": 4, "kind": "notice", "severity": "info", "compressed": false, "text": "slow"},
                {"number": 5, "kind": "reply", "model": "m", "text": "It has two lines."},
            ],
            "replay": [
                {"prompt": "read it"},
                {"reply": {"line": line(&json!([{"functionCall": {"id": "1", "name": "read_file", "args": {"file_path": "a"}}}])), "results": [end]}},
                {"reply": {"line": line(&json!([{"text": "It has two lines."}])), "results": []}},
            ],
        }],
    })
}

fn replayed(capsule: &Value, json: bool) -> Captured {
    let home = TestHome::new();
    fs::write(home.project().join("capsule.json"), capsule.to_string()).unwrap();
    home.run(ReplayCommand { file: "capsule.json".into(), json }, "")
}

#[test]
fn the_same_events_are_counted() {
    let done = replayed(&capsule(), false);
    assert_eq!((done.out.as_str(), done.result), ("no differences in 4 events\n", Ok(())));
    let done = replayed(&capsule(), true);
    let told: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(told, json!({"same": true, "events": 4}));
}

#[test]
fn the_first_event_that_differs_is_shown() {
    let mut changed = capsule();
    changed["sessions"][0]["events"][4]["text"] = json!("It has three lines.");
    let done = replayed(&changed, false);
    let expected = "event 5 differs
  expected: {\"kind\":\"reply\",\"model\":\"m\",\"text\":\"It has three lines.\"}
  actual:   {\"kind\":\"reply\",\"model\":\"m\",\"text\":\"It has two lines.\"}\n";
    assert_eq!(done.out, expected);
    assert_eq!(done.result.unwrap_err().exit, ExitKind::Failure);
    let told: Value = serde_json::from_str(&replayed(&changed, true).out).unwrap();
    assert_eq!((&told["event"], &told["actual"]["text"]), (&json!(5), &json!("It has two lines.")));
}

#[test]
fn events_that_are_missing_or_too_many_differ() {
    let mut less = capsule();
    less["sessions"][0]["replay"].as_array_mut().unwrap().pop();
    assert!(replayed(&less, false).out.ends_with("actual:   nothing\n"));
    let mut more = capsule();
    more["sessions"][0]["events"].as_array_mut().unwrap().pop();
    let out = replayed(&more, false).out;
    assert!(out.contains("expected: nothing\n"), "{out}");
}

#[test]
fn sub_agents_are_replayed_too() {
    let mut two = capsule();
    let mut agent = two["sessions"][0].clone();
    agent["subagent"] = json!(true);
    for (index, event) in agent["events"].as_array_mut().unwrap().iter_mut().enumerate() {
        event["number"] = json!(6 + index);
    }
    agent["events"][2]["tool"] = json!("write_file");
    two["sessions"].as_array_mut().unwrap().push(agent);
    assert!(replayed(&two, false).out.starts_with("event 8 differs\n"));
}

#[test]
fn a_strangers_capsule_cannot_steer_the_terminal() {
    let mut hostile = capsule();
    let text = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\u{202e}x";
    hostile["sessions"][0]["events"][0]["text"] = json!(text);
    hostile["sessions"][0]["replay"][0]["prompt"] = json!(format!("{text}y"));
    for json in [false, true] {
        let done = replayed(&hostile, json);
        let shown = format!("{}{}", done.out, done.err);
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\r', '\u{202e}']), "{shown:?}");
        assert!(done.result.is_err());
    }
}

#[test]
fn a_file_that_is_no_capsule_is_refused() {
    let refused = replayed(&json!({"format": 2}), false).result.unwrap_err();
    assert!(refused.summary.ends_with("has capsule format 2; this version reads format 1"), "{refused:?}");
    assert_eq!(refused.exit, ExitKind::Input);
    let missing = TestHome::new().run(ReplayCommand { file: "none.json".into(), json: false }, "");
    assert_eq!(missing.result.unwrap_err().exit, ExitKind::Input);
}
