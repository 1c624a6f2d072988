//! Blobs, forks, rewinds, and fields nobody knows.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;

use pollux_domain::content::{Blob, Body, Part};
use pollux_domain::event::CallStatus;
use pollux_domain::id::SessionId;
use pollux_session::{
    Message, Recorder, ResumeError, RetentionPolicy, SessionFormat, TranscriptForm, apply, belongings,
    delete, export, history, into_history, list, load, plan, repair, summarise, verify, write_transcript,
};
use serde_json::{Value, json};

use crate::scratch::{Scratch, at, call, json_of, reply, result, text};

const BOTH: [(SessionFormat, &str); 2] = [(SessionFormat::Json, "json"), (SessionFormat::Jsonl, "jsonl")];

fn long() -> String {
    "line of output\n".repeat(10_000)
}

/// A session with a picture in its prompt and a long output.
fn record_long(scratch: &Scratch, id: &str, format: SessionFormat) -> std::path::PathBuf {
    let mut recorder = scratch.recorder(id, format, 0);
    let picture =
        Body::InlineData(Blob { mime_type: "image/png".into(), data_base64: "AAAA".repeat(20_000) });
    recorder.user(&[Part::text("look"), picture.into()], None, at(1)).unwrap();
    recorder.reply(&reply("one", vec![call("a", None)]), at(2)).unwrap();
    recorder.results(&[result("a", CallStatus::Success, &long())], at(3)).unwrap();
    recorder.path().unwrap().to_owned()
}

fn blobs(scratch: &Scratch) -> usize {
    fs::read_dir(scratch.chats().join(".blobs")).map(|entries| entries.count()).unwrap_or(0)
}

#[test]
fn long_outputs_and_pictures_are_stored_once_and_come_back() {
    for (format, _) in BOTH {
        let scratch = Scratch::new();
        let path = record_long(&scratch, "one", format);
        assert!(fs::metadata(&path).unwrap().len() < 20_000);
        assert_eq!(blobs(&scratch), 2, "the output of the model's and of the person's view is one");
        let session = load(&path).unwrap();
        assert_eq!(session.repaired, None);
        let turns = into_history(session.clone());
        assert!(
            matches!(&turns[0].content.parts[1].body, Body::InlineData(blob) if blob.data_base64.len() == 80_000)
        );
        assert_eq!(turns[2].content.responses().next().unwrap().response["output"], long());
        assert_eq!(turns, history(&session));
        // A second session with the same content costs nothing, and keeps it when the first one goes.
        record_long(&scratch, "two", format);
        assert_eq!(blobs(&scratch), 2);
        let listing = list(&scratch.dirs(), at(9));
        delete(&listing, &scratch.dirs(), "one", None, at(9)).unwrap();
        assert_eq!(blobs(&scratch), 2);
        let listing = list(&scratch.dirs(), at(9));
        delete(&listing, &scratch.dirs(), "two", None, at(9)).unwrap();
        assert_eq!(blobs(&scratch), 0);
    }
}

#[test]
fn what_goes_with_a_session_is_named_to_the_last_blob_and_that_is_what_goes() {
    let scratch = Scratch::new();
    let first = record_long(&scratch, "one", SessionFormat::Json);
    let outputs = scratch.temp().join("tool-outputs/session-one");
    fs::create_dir_all(&outputs).unwrap();
    let copy = first.with_file_name(format!("{}.bak-1", first.file_name().unwrap().to_string_lossy()));
    fs::write(&copy, "{}").unwrap();
    let all = RetentionPolicy { max_age_ms: Some(i64::MIN), max_count: None, min_age_ms: i64::MIN };
    let planned = |path: &std::path::Path| plan(&[summarise(path).unwrap()], &all, at(9), None);
    let of_one = belongings(&planned(&first).delete[0]);
    assert_eq!(of_one.len(), 5, "{of_one:?}");
    assert_eq!(of_one[..3], [first.clone(), outputs.clone(), copy.clone()]);
    // What another session uses, too, stays.
    let second = record_long(&scratch, "two", SessionFormat::Json);
    let plan_of_one = planned(&first);
    assert_eq!(belongings(&plan_of_one.delete[0]).len(), 3);
    assert_eq!(apply(&plan_of_one).deleted.len(), 1);
    assert!([&first, &outputs, &copy].iter().all(|path| !path.exists()) && blobs(&scratch) == 2);
    assert_eq!(belongings(&planned(&second).delete[0]).len(), 3);
    assert!(second.exists());
}

#[test]
fn an_export_is_self_contained() {
    for (format, _) in BOTH {
        let scratch = Scratch::new();
        let (record, _) = export(&record_long(&scratch, "one", format)).unwrap();
        let whole = record.to_string();
        assert!(whole.contains(&"AAAA".repeat(20_000)) && !whole.contains("polluxBlobs"));
        assert_eq!(
            record["messages"][1]["toolCalls"][0]["result"][0]["functionResponse"]["response"]["output"],
            long()
        );
        assert_eq!(record["messageCount"], 2);
        assert!(record["firstUserMessage"].as_str().unwrap().starts_with("look"));
        assert_eq!(record["sessionId"], "one");
    }
}

#[test]
fn a_reader_that_knows_nothing_of_blobs_sees_a_valid_session() {
    let scratch = Scratch::new();
    let session = json_of(&record_long(&scratch, "one", SessionFormat::Json));
    let prompt = &session["messages"][0]["content"];
    assert_eq!(prompt[0]["text"], "look");
    assert!(prompt[1]["text"].as_str().unwrap().starts_with("[image/png, "));
    let call = &session["messages"][1]["toolCalls"][0];
    let output = call["result"][0]["functionResponse"]["response"]["output"].as_str().unwrap();
    assert!(output.starts_with("line of output\n") && output.contains("bytes left out"));
    assert!(call["resultDisplay"].is_string() && call["status"] == "success");
    assert_eq!(call["polluxBlobs"][0]["bytes"], long().len());
}

#[test]
fn a_lost_blob_is_a_note_and_no_failure() {
    let scratch = Scratch::new();
    let path = record_long(&scratch, "one", SessionFormat::Json);
    fs::remove_dir_all(scratch.chats().join(".blobs")).unwrap();
    let session = load(&path).unwrap();
    let note = session.repaired.clone().unwrap();
    assert_eq!((note.torn_at, note.lost_blobs), (None, 3));
    assert_eq!(
        note.to_string(),
        "3 long text(s) or media file(s) stored separately are missing; excerpts are shown instead"
    );
    assert_eq!(history(&session).len(), 3);
    let mut recorder = Recorder::resume(&session).unwrap();
    recorder.user(&text("go on"), None, at(9)).unwrap();
    let reports = verify(&scratch.dirs());
    assert_eq!(
        reports[0].problems[0].to_string(),
        "3 long text(s) or media file(s) stored separately are missing or damaged"
    );
}

#[test]
fn a_session_in_use_can_be_forked() {
    for (format, extension) in BOTH {
        let scratch = Scratch::new();
        let path = record_long(&scratch, "origin", format);
        let session = load(&path).unwrap();
        let _owner = Recorder::resume(&session).unwrap();
        assert!(matches!(Recorder::resume(&session), Err(ResumeError::InUse { .. })));
        let (mut recorder, copy) = Recorder::fork(&session, &scratch.spec("fork", format, 60)).unwrap();
        assert_eq!(recorder.session(), &SessionId::from_file("fork"));
        assert!(recorder.path().unwrap().to_string_lossy().ends_with(&format!("-fork.{extension}")));
        recorder.user(&text("on my own"), None, at(70)).unwrap();
        assert_eq!(history(&copy), history(&session));
        assert_eq!(blobs(&scratch), 2, "the content is shared");
        let forked = load(recorder.path().unwrap()).unwrap();
        assert_eq!(forked.messages.len(), session.messages.len() + 2);
        let Message::Notice(notice) = &forked.messages[2] else { panic!("no notice") };
        assert_eq!(notice.text, "Forked from session origin");
        assert_eq!(notice.extra["forkedFrom"]["sessionId"], "origin");
        assert_eq!(load(&path).unwrap().messages.len(), session.messages.len());
    }
}

#[test]
fn a_fork_in_another_project_takes_its_blobs_along() {
    let (here, there) = (Scratch::new(), Scratch::new());
    let session = load(&record_long(&here, "origin", SessionFormat::Json)).unwrap();
    let (_, copy) = Recorder::fork(&session, &there.spec("fork", SessionFormat::Json, 60)).unwrap();
    drop(here);
    let copy = load(&copy.path).unwrap();
    assert_eq!((copy.repaired.clone(), blobs(&there)), (None, 2));
    assert_eq!(history(&copy), history(&session));
}

#[test]
fn messages_are_rewound_and_the_conversation_continues() {
    for (format, _) in BOTH {
        let scratch = Scratch::new();
        let mut recorder = scratch.recorder("s", format, 0);
        assert!(recorder.rewind("x", at(0)).is_err());
        let first = recorder.user(&text("one"), None, at(1)).unwrap();
        recorder.reply(&reply("1", Vec::new()), at(2)).unwrap();
        let second = recorder.user(&text("two"), None, at(3)).unwrap();
        recorder.reply(&reply("2", vec![call("a", None)]), at(4)).unwrap();
        let path = recorder.path().unwrap().to_owned();
        let error = recorder.rewind("nobody", at(5)).unwrap_err();
        assert!(error.to_string().ends_with("has no message `nobody` to rewind to"), "{error}");
        recorder.rewind(&second, at(5)).unwrap();
        recorder.results(&[result("a", CallStatus::Success, "late")], at(6)).unwrap();
        recorder.user(&text("three"), None, at(7)).unwrap();
        let words = |path| -> Vec<String> {
            history(&load(path).unwrap()).iter().map(|turn| turn.content.text()).collect()
        };
        assert_eq!(words(&path), ["one", "1", "three"], "{format:?}");
        assert_eq!(load(&path).unwrap().last_updated, at(7));
        recorder.rewind(&first, at(8)).unwrap();
        recorder.user(&text("anew"), None, at(9)).unwrap();
        assert_eq!(words(&path), ["anew"], "{format:?}");
        assert_eq!(load(&path).unwrap().repaired, None);
        drop(recorder);
        let copies = scratch.names().iter().filter(|name| name.contains(".rewound-")).count();
        assert_eq!(copies, if format == SessionFormat::Json { 2 } else { 0 });
    }
}

#[test]
fn unknown_fields_survive_resume_append_and_rewind() {
    let one = json!({"id": "1", "type": "user", "content": "a", "mood": [1, {"x": null}]});
    let call = json!({"id": "c", "name": "t", "args": {}, "status": "success", "result": [], "color": "red"});
    let two =
        json!({"id": "2", "type": "gemini", "content": "b", "toolCalls": [call], "grounding": {"a": 1}});
    let meta = json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00.000Z", "future": {"deep": [1]}});
    let mut document = meta.clone();
    document["messages"] = json!([one, two]);
    let log = [&meta, &one, &two].map(Value::to_string).join("\n");
    for (name, text_of) in [("session-a.json", format!("{document:#}")), ("session-b.jsonl", log)] {
        let scratch = Scratch::new();
        let path = scratch.put(name, text_of);
        let mut recorder = Recorder::resume(&load(&path).unwrap()).unwrap();
        let added = recorder.user(&text("c"), None, at(1)).unwrap();
        recorder.rewind(&added, at(2)).unwrap();
        drop(recorder);
        let session = load(&path).unwrap();
        assert_eq!(session.extra["future"], json!({"deep": [1]}), "{name}");
        let [Message::User(first), Message::Reply(second)] = session.messages.as_slice() else {
            panic!("{name}")
        };
        assert_eq!(first.extra["mood"], json!([1, {"x": null}]));
        assert_eq!(second.extra["grounding"], json!({"a": 1}));
        assert_eq!(second.calls[0].extra["color"], "red");
    }
}

#[test]
fn a_damaged_file_is_repaired_after_a_backup() {
    let scratch = Scratch::new();
    let path = record_long(&scratch, "one", SessionFormat::Json);
    let whole = fs::read(&path).unwrap();
    let cases: [(&str, Vec<u8>, &[&str]); 5] = [
        ("session-torn.json", whole[..whole.len() - 30].to_vec(), &["the file is cut off at byte"]),
        (
            "session-twice.json",
            json!({"sessionId": "d", "messages": [{"id": "x", "type": "user", "content": "1"}, {"id": "x", "type": "user", "content": "2"}]}).to_string().into_bytes(),
            &["1 duplicate id(s): x"],
        ),
        (
            "session-unnamed.json",
            json!({"sessionId": "u", "messages": [{"type": "user", "content": "1"}]}).to_string().into_bytes(),
            &["1 message(s) without an id"],
        ),
        (
            "session-log.jsonl",
            b"{\"sessionId\":\"l\",\"projectHash\":\"h\"}\n{\"id\":\"1\",\"type\":\"user\",\"content\":\"1\"}\n{\"id\":\"2\",\"ty".to_vec(),
            &["the file is cut off at byte"],
        ),
        (
            "session-unnamed.jsonl",
            b"{\"sessionId\":\"m\",\"projectHash\":\"h\"}\n{\"type\":\"user\",\"content\":\"1\"}\n{\"id\":\"2\",\"ty".to_vec(),
            &["the file is cut off at byte", "1 message(s) without an id"],
        ),
    ];
    for (name, bytes, expected) in cases {
        let path = scratch.put(name, &bytes);
        let before = load(&path).unwrap().messages.len();
        let repaired = repair(&path, at(50)).unwrap();
        for (problem, text) in repaired.solved.iter().zip(expected) {
            assert!(problem.to_string().starts_with(text), "{name}: {problem}");
        }
        assert_eq!(repaired.solved.len(), expected.len(), "{name}: {repaired:?}");
        assert_eq!(fs::read(repaired.backup.unwrap()).unwrap(), bytes, "{name}");
        let after = load(&path).unwrap();
        assert_eq!((after.repaired.clone(), after.messages.len()), (None, before), "{name}");
        let again = repair(&path, at(51)).unwrap();
        assert_eq!((again.backup, again.solved), (None, Vec::new()), "{name}");
    }
    for junk in ["not json", "{\"a\": 1}", ""] {
        let path = scratch.put("session-junk.json", junk);
        assert!(repair(&path, at(60)).is_err(), "{junk}");
        assert_eq!(fs::read_to_string(&path).unwrap(), junk);
        assert!(!scratch.names().iter().any(|name| name.starts_with("session-junk.json.")));
    }
}

#[test]
fn a_log_can_be_rewound_to_a_message_that_got_its_id_from_a_repair() {
    let meta = json!({"sessionId": "s", "projectHash": "h"});
    let messages = [
        json!({"id": "1", "type": "user", "content": "a"}),
        json!({"type": "gemini", "content": "b"}),
        json!({"type": "user", "content": "c"}),
        json!({"id": "4", "type": "gemini", "content": "d"}),
    ];
    let lines = [std::slice::from_ref(&meta), messages.as_slice()].concat();
    let log = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let set = json!({"$set": {"messages": messages}});
    for text in [log, format!("{meta}\n{set}\n")] {
        let scratch = Scratch::new();
        let path = scratch.put("session-a.jsonl", &text);
        let before = load(&path).unwrap();
        let third = before.messages[2].id();
        assert!(Recorder::resume(&before).unwrap().rewind(third, at(1)).is_err(), "no guess");
        assert_eq!(load(&path).unwrap().messages, before.messages);
        repair(&path, at(2)).unwrap();
        let repaired = load(&path).unwrap();
        assert_eq!(repaired.messages, before.messages, "the same ids");
        Recorder::resume(&repaired).unwrap().rewind(third, at(3)).unwrap();
        assert_eq!(load(&path).unwrap().messages, before.messages[..2], "{text}");
        assert_eq!(summarise(&path).unwrap().messages, 2, "{text}");
    }
}

#[test]
fn the_lock_of_a_dead_process_is_found_and_removed() {
    let scratch = Scratch::new();
    let path = record_long(&scratch, "one", SessionFormat::Json);
    let lock = path.with_file_name(format!(".{}.lock", path.file_name().unwrap().to_str().unwrap()));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    fs::write(&lock, json!({"pid": 999_999_999, "startTime": 1, "host": host.trim()}).to_string()).unwrap();
    let report = &verify(&scratch.dirs())[0];
    assert!(report.problems[0].to_string().ends_with("is a stale lock: its process has exited"));
    let repaired = repair(&path, at(50)).unwrap();
    assert_eq!((repaired.backup, repaired.solved.len(), lock.exists()), (None, 1, false));
    let _held = Recorder::resume(&load(&path).unwrap()).unwrap();
    assert!(repair(&path, at(51)).unwrap_err().to_string().contains("is in use by process"));
}

#[test]
fn transcripts_contain_the_whole_conversation() {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("s", SessionFormat::Json, 0);
    let words = "many words ".repeat(10_000);
    recorder.user(&text(&words), None, at(1)).unwrap();
    assert_eq!(blobs(&scratch), 0, "a person's words stay in the session file");
    let mut out = Vec::new();
    write_transcript(recorder.path().unwrap(), TranscriptForm::Text, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), format!("user: {}\n", words.trim()));
    assert!(summarise(recorder.path().unwrap()).unwrap().first_user.starts_with("many words"));
}

#[test]
fn one_repair_is_enough_for_a_log_that_ends_in_several_broken_lines() {
    let scratch = Scratch::new();
    let whole = include_str!("../fixtures/record-log.jsonl");
    let path = scratch.put("session-a.jsonl", format!("{whole}{{\"id\":\"a\"\nnot json\n{{\"id\":\"b"));
    let before = load(&path).unwrap().messages;
    let repaired = repair(&path, at(50)).unwrap();
    assert!(repaired.left.iter().all(|problem| !problem.is_repairable()), "{:?}", repaired.left);
    assert_eq!(repair(&path, at(51)).unwrap().backup, None);
    assert_eq!(load(&path).unwrap().messages, before);
}
