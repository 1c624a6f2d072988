use std::sync::Arc;
use std::time::Duration;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{CallDecision, CallRequest, TurnEnd};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::sandbox::SandboxReport;
use pollux_domain::tool::{DiffStat, FileDiff, LineDelta};

use super::*;

fn report(id: &str, name: &str, kind: ToolKind, args: Value) -> CallReport {
    CallReport {
        call: CallId::new(name, id),
        name: name.to_owned(),
        kind,
        args: args.as_object().cloned().unwrap(),
        outcome: CallOutcome::Succeeded,
        display: Display::Nothing,
        lines: LineDelta::default(),
        duration: Duration::ZERO,
        decision: Some(CallDecision::Accept),
        answer: String::new(),
        prompt_id: String::new(),
        paths: Vec::new(),
        parts: Vec::new(),
        sandbox: None,
        permit: Some(Permit::Mode(ApprovalMode::Yolo)),
    }
}

fn diff(path: &str, is_new: bool, added: u64, removed: u64) -> Display {
    Display::Diff(Box::new(FileDiff {
        unified: String::new(),
        file_name: path.to_owned(),
        path: path.into(),
        before: (!is_new).then(String::new),
        after: String::new(),
        stat: DiffStat { added_lines: added, removed_lines: removed, ..DiffStat::default() },
    }))
}

/// A session with two changes of one file, commands that end in all ways, and requests to hosts.
fn events() -> Vec<Event> {
    let edit = |id, is_new, added, removed| CallReport {
        display: diff("/w/a.rs", is_new, added, removed),
        permit: Some(Permit::User(None)),
        ..report(id, "write_file", ToolKind::Edit, json!({"file_path": "/w/a.rs", "content": id}))
    };
    let shell = |id, command| report(id, "run_shell_command", ToolKind::Execute, json!({"command": command}));
    let sandbox = SandboxReport {
        level: "namespaces".to_owned(),
        mode: "workspace".to_owned(),
        network: "proxy".to_owned(),
        denials: Vec::new(),
        requested: Vec::new(),
        granted: Vec::new(),
        rerun: false,
        tripwire: Vec::new(),
        hosts: vec!["crates.example:443".to_owned()],
    };
    let rule = Permit::Rule {
        name: "tests".to_owned(),
        tier: "user".to_owned(),
        source: "/h/.gemini/policies/p.toml".to_owned(),
        line: Some(3),
    };
    let refused = CallReport {
        outcome: CallOutcome::Cancelled,
        permit: None,
        display: diff("/w/never.rs", true, 9, 0),
        ..edit("e3", true, 9, 0)
    };
    let calls = [
        edit("e1", true, 5, 0),
        edit("e2", false, 2, 1),
        refused,
        CallReport { permit: Some(rule), sandbox: Some(Box::new(sandbox)), ..shell("s1", "cargo test") },
        CallReport {
            outcome: CallOutcome::Failed(RunFailure::ExitCode(3).into()),
            ..shell("s2", "false; exit 3")
        },
        report(
            "f1",
            "web_fetch",
            ToolKind::Fetch,
            json!({"prompt": "Read https://user@Docs.example/x, please"}),
        ),
    ];
    let ready = Event::SessionReady {
        session: SessionId::parse("11111111-2222-3333-4444-555555555555").unwrap(),
        model: "m".to_owned(),
        resolved: "m".to_owned(),
        roots: Vec::new(),
    };
    let mut events = vec![ready, Event::StepBegan { message: "m1".to_owned() }];
    // A hook changed what was asked for.
    let asked = CallRequest::new(
        CallId::new("write_file", "e1"),
        "replace",
        json!({"a": 1}).as_object().cloned().unwrap(),
    );
    events.push(Event::CallRequested(Arc::new(asked)));
    events.extend(calls.map(|call| Event::CallFinished(Arc::new(call))));
    events.push(Event::TurnEnded(TurnEnd::Finished(None)));
    events
}

fn folded() -> (Receipt, Stats) {
    let (mut receipt, mut stats) = (Receipt::default(), Stats::default());
    for event in events() {
        receipt.fold(&event);
        stats.fold(&event);
    }
    (receipt, stats)
}

#[test]
fn a_receipt_lists_files_commands_hosts_and_what_allowed_each_call() {
    let (receipt, stats) = folded();
    let value = receipt.json(&stats, |_, _| None);
    assert_eq!(value["files"], json!([{"path": "/w/a.rs", "new": true, "added": 7, "removed": 1}]));
    assert_eq!(value["hosts"], json!(["crates.example:443", "docs.example"]));
    let calls = value["calls"].as_array().unwrap();
    let exits: Vec<(&Value, &Value)> = calls
        .iter()
        .filter(|call| call.get("command").is_some())
        .map(|call| (&call["command"], &call["exitCode"]))
        .collect();
    assert_eq!(exits, [(&json!("cargo test"), &json!(0)), (&json!("false; exit 3"), &json!(3))]);
    assert_eq!(calls[0]["allowedBy"], json!({"user": null}));
    assert_eq!((&calls[0]["tool"], &calls[0]["askedTool"]), (&json!("write_file"), &json!("replace")));
    assert_eq!(calls[1].get("askedTool"), None, "nobody asked for it");
    assert_eq!(calls[2]["allowedBy"], Value::Null);
    assert_eq!((&calls[2]["status"], &calls[3]["allowedBy"]["line"]), (&json!("cancelled"), &json!(3)));
    assert_eq!(calls[4]["allowedBy"], json!({"mode": "yolo"}));
    let text = receipt.text(&stats, |_, _| None);
    for line in ["/w/a.rs (new)  +7 -1", "cargo test  exit 0", "false; exit 3  exit 3", "docs.example"] {
        assert!(text.contains(line), "{line} in:\n{text}");
    }
    assert!(text.contains("rule `tests` (user, /h/.gemini/policies/p.toml:3)"), "{text}");
    assert!(!text.contains("never.rs"), "{text}");
}

#[test]
fn hosts_are_those_that_a_url_parser_finds() {
    for (text, host) in [
        ("see https://evil.example\\@docs.rs/", "evil.example"),
        ("HTTPS:///Evil.example:8443/x", "evil.example:8443"),
        ("Read https://docs.example.", "docs.example"),
        ("http://user:word@a.example?x", "a.example"),
    ] {
        assert_eq!(hosts_in(text), [host], "{text}");
    }
    assert!(hosts_in("ftp://a.example file:///etc/passwd plain text").is_empty());
}

#[test]
fn a_digest_depends_on_the_arguments_and_not_on_their_order() {
    let object = |text: &str| serde_json::from_str::<Value>(text).unwrap().as_object().cloned().unwrap();
    let one = digest(&object(r#"{"a": 1, "b": "x"}"#));
    assert_eq!(one, digest(&object(r#"{"b": "x", "a": 1}"#)));
    assert_ne!(one, digest(&object(r#"{"b": "y", "a": 1}"#)));
}

#[test]
fn the_file_is_written_at_the_end_of_a_turn_in_the_form_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, start) in [("r.json", "{"), ("r.txt", "Receipt of session"), ("r", "{")] {
        let path = folder.path().join(name);
        let mut file = ReceiptFile::new(path.clone(), |_, _| None);
        for event in events() {
            assert!(!path.exists());
            file.event(&event).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(start), "{name}");
    }
}
