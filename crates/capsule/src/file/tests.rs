#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use pollux_config::groups::SessionFormat;
use pollux_domain::content::{FunctionResponse, Part};
use pollux_domain::event::{CallStatus, Severity, Thought};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::model::Usage;
use pollux_domain::time::Timestamp;
use pollux_domain::tool::Display;
use pollux_session::{
    CallRecord, CallResult, NewSession, Recorder, ReplyRecord, SessionKind, UserSource, load,
};
use serde_json::json;

use super::*;
use crate::difference::first_difference;
use crate::event::{CallEnd, EventKind, RecordedStatus};
use crate::private::Private;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1_000)
}

fn call(id: &str, name: &str) -> CallRecord {
    CallRecord {
        id: CallId::from_file(format!("{name}__{id}")),
        name: name.to_owned(),
        args: json!({"path": "/home/ada/notes", "lines": 3}).as_object().unwrap().clone(),
        seal: None,
        display_name: name.to_owned(),
        description: "the file of ada".to_owned(),
        markdown: false,
    }
}

fn ended(call: &CallRecord, status: CallStatus, response: Value) -> CallResult {
    let Value::Object(fields) = response else { panic!("not an object") };
    let response =
        FunctionResponse { id: None, name: call.name.clone(), response: fields.into(), parts: Vec::new() };
    CallResult {
        id: call.id.clone(),
        status,
        result: vec![Part::response(response)],
        display: Display::Text("shown to ada".to_owned()),
    }
}

/// A session in which everything happens that a file can tell.
fn session(folder: &Path) -> StoredSession {
    let spec = NewSession {
        id: SessionId::random(),
        project_hash: "abc".to_owned(),
        chats_dir: folder.to_owned(),
        format: SessionFormat::Json,
        kind: SessionKind::Main,
        now: at(0),
    };
    let mut recorder = Recorder::create(spec).unwrap();
    let said = |text: &str| vec![Part::text(text)];
    recorder.user(&said("read my notes"), None, at(1)).unwrap();
    let calls = vec![call("a", "read_file"), call("b", "run_shell_command"), call("c", "write_file")];
    let reply = ReplyRecord {
        parts: said("I look."),
        thoughts: vec![(Thought::parse("**Plan** look **twice**"), at(2))],
        usage: Some(Usage { input: 9, output: 4, total: 13, ..Usage::default() }),
        model: "gemini-2.5-pro".to_owned(),
        origin: None,
        calls: calls.clone(),
    };
    recorder.reply(&reply, at(2)).unwrap();
    let results = [
        ended(&calls[0], CallStatus::Success, json!({"output": "notes"})),
        ended(&calls[1], CallStatus::Error, json!({"output": "exit 1"})),
        ended(&calls[2], CallStatus::Cancelled, json!({"error": "[Operation Cancelled] Reason: not now"})),
    ];
    recorder.results(&results, at(3)).unwrap();
    recorder.user_from(UserSource::DuringTurn, &said("be quick"), None, at(4)).unwrap();
    recorder.notice(Severity::Warning, "slow", at(4)).unwrap();
    let pending = vec![call("d", "glob")];
    let reply = ReplyRecord { parts: Vec::new(), thoughts: Vec::new(), usage: None, calls: pending, ..reply };
    recorder.reply(&reply, at(5)).unwrap();
    let path = recorder.path().unwrap().to_owned();
    drop(recorder);
    load(&path).unwrap()
}

fn hidden() -> Concealment {
    let mut private = Private::default();
    private.home("/home/ada");
    Concealment::hide(private)
}

fn results(record: &SessionRecord) -> Vec<CallEnd> {
    let result = |event: &RecordedEvent| match &event.kind {
        EventKind::Call { result, .. } => Some(result.clone()),
        _ => None,
    };
    record.events.iter().filter_map(result).collect()
}

#[test]
fn a_record_tells_what_happened_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let record = SessionRecord::of(&session(folder.path()), false, &Concealment::Keep, 1);
    let kinds: Vec<String> = record
        .events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["prompt", "reply", "call", "call", "call", "steer", "notice", "reply", "call"]);
    let numbers: Vec<usize> = record.events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(record.events[1].after_ms, Some(2_000));
    let end = |status, output: Option<&str>, declined: Option<&str>| CallEnd {
        status,
        output: output.map(str::to_owned),
        error: None,
        declined: declined.map(str::to_owned),
    };
    let expected = [
        end(RecordedStatus::Success, Some("notes"), None),
        end(RecordedStatus::Error, Some("exit 1"), None),
        end(RecordedStatus::Cancelled, None, Some("not now")),
        end(RecordedStatus::Pending, None, None),
    ];
    assert_eq!(results(&record), expected);
    let EventKind::Reply { thoughts, tokens, .. } = &record.events[1].kind else { panic!() };
    assert_eq!((thoughts[0].subject.as_str(), thoughts[0].description.as_str()), ("Plan", "look twice"));
    assert_eq!(tokens.unwrap().total, 13);
}

#[test]
fn steps_are_a_script_with_the_results_of_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let record = SessionRecord::of(&session(folder.path()), false, &Concealment::Keep, 1);
    let [ReplayStep::Prompt(prompt), ReplayStep::Reply { line, results }, ReplayStep::Steer(steer), last] =
        record.replay.as_slice()
    else {
        panic!("{:?}", record.replay)
    };
    assert_eq!((prompt.as_str(), steer.as_str(), results.len()), ("read my notes", "be quick", 3));
    assert_eq!(line["method"], "generateContentStream");
    let chunk = &line["response"][0];
    assert_eq!(chunk["modelVersion"], "gemini-2.5-pro");
    let parts = chunk["candidates"][0]["content"]["parts"].as_array().unwrap();
    assert_eq!(parts[0]["thought"], true);
    assert_eq!(parts[1]["text"], "I look.");
    let ids: Vec<&str> = parts[2..].iter().map(|part| part["functionCall"]["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["1", "2", "3"]);
    let ReplayStep::Reply { line, results } = last else { panic!("{last:?}") };
    let id = &line["response"][0]["candidates"][0]["content"]["parts"][0]["functionCall"]["id"];
    assert_eq!((id.as_str(), results.len()), (Some("4"), 1));
}

#[test]
fn hidden_contents_leave_structure_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path());
    let record = SessionRecord::of(&session, false, &hidden(), 1);
    let text = serde_json::to_string(&record).unwrap();
    for word in ["notes", "/home", "look", "Plan", "exit 1", "not now", "quick", "slow", "shown"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    for word in ["read_file", "gemini-2.5-pro", "path", "cancelled"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let plain = SessionRecord::of(&session, false, &Concealment::Keep, 1);
    assert_eq!(plain.replay.len(), record.replay.len());
    // All but the call without an end, which a replay cannot repeat.
    let ended = &record.events[..8];
    assert_eq!(first_difference(ended, ended), Ok(7));
    assert_eq!(first_difference(&plain.events, &record.events).unwrap_err().number, 1);
}

fn capsule(sessions: Vec<SessionRecord>) -> Capsule {
    Capsule { format: FORMAT, contents: Contents::Hidden, environment: json!({"a": 1}), sessions }
}

#[test]
fn a_capsule_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let written = capsule(vec![SessionRecord::of(&session(folder.path()), false, &hidden(), 1)]);
    let file = folder.path().join("capsule.json");
    fs::write(&file, serde_json::to_vec_pretty(&written).unwrap()).unwrap();
    assert_eq!(Capsule::read(&file).unwrap(), written);
}

#[test]
fn what_is_no_capsule_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.json");
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        Capsule::read(&file).unwrap_err().to_string()
    };
    for other in ["", "null", "[1]", "{}", "not JSON", r#"{"format": "1"}"#] {
        assert!(refused(other.as_bytes()).ends_with("is not a capsule"), "{other}");
    }
    let deep = format!(r#"{{"format": 1, "sessions": {}"#, "[".repeat(100_000));
    assert!(refused(deep.as_bytes()).ends_with("is not a capsule"));
    assert!(refused(br#"{"format": 7}"#).ends_with("has capsule format 7; this version reads format 1"));
    assert!(refused(br#"{"format": 1, "sessions": 3}"#).ends_with("is a damaged capsule"));
    let many = vec![ReplayStep::Prompt(String::new()); MAX_EVENTS + 1];
    let long = SessionRecord { subagent: false, omitted: 0, events: Vec::new(), replay: many };
    assert!(
        refused(&serde_json::to_vec(&capsule(vec![long])).unwrap()).ends_with("too many events to replay")
    );
    // A few long lines call as often as many short ones.
    let calls = vec![json!({"functionCall": {"name": "x"}}); MAX_EVENTS / 2 + 1];
    let line = json!({"response": [{"candidates": [{"content": {"parts": calls}}]}]});
    let reply = ReplayStep::Reply { line, results: Vec::new() };
    assert_eq!(reply.calls(), MAX_EVENTS / 2 + 1);
    let busy = |replies: usize| {
        let replay = vec![reply.clone(); replies];
        serde_json::to_vec(&capsule(vec![SessionRecord {
            subagent: false,
            omitted: 0,
            events: Vec::new(),
            replay,
        }]))
        .unwrap()
    };
    fs::write(&file, busy(1)).unwrap();
    assert!(Capsule::read(&file).is_ok());
    assert!(refused(&busy(2)).ends_with("too many events to replay"));
    let large = File::create(&file).unwrap();
    large.set_len(MAX_BYTES + 1).unwrap();
    assert!(Capsule::read(&file).unwrap_err().to_string().contains("exceeds the size limit of 32 MiB"));
    let folder_as_file = Capsule::read(folder.path()).unwrap_err().to_string();
    assert!(folder_as_file.ends_with("is not a capsule"), "{folder_as_file}");
}
