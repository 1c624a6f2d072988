//! Text that Node writes and strict parsers refuse, and damage inside strings.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_session::{
    Checkpoint, Message, Recorder, SessionFormat, TranscriptForm, export, history, import, list, load,
    load_checkpoint, log_prompt, logged_prompts, summarise, verify_file, write_transcript,
};
use serde_json::{Value, json};

use crate::scratch::{Scratch, at, json_of, put, text};

/// The places of unpaired surrogates: a prompt, a display, an output, the whole conversation, and a title.
const PLACES: [&str; 5] = ["PROMPT", "DISPLAY", "OUTPUT", "STARTED", "TITLE"];

/// A record log as gemini-cli writes it.
fn log_records() -> Vec<Value> {
    let output =
        json!({"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "OUTPUT"}}});
    vec![
        json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-01-02T03:04:05.006Z",
            "lastUpdated": "2026-01-02T03:04:05.006Z", "kind": "main"}),
        json!({"$set": {"messages": [{"id": "u-1", "timestamp": "2026-01-02T03:04:06.006Z", "type": "user",
            "content": [{"text": "first STARTED"}]}]}}),
        json!({"id": "u-2", "timestamp": "2026-01-02T03:04:06.006Z", "type": "user",
            "content": [{"text": "second PROMPT"}]}),
        json!({"id": "g-1", "timestamp": "2026-01-02T03:04:07.006Z", "type": "gemini", "content": "Reading it.",
            "toolCalls": [{"id": "c", "name": "read_file", "args": {"file_path": "a.txt"}, "result": [output],
            "status": "success", "resultDisplay": "DISPLAY"}]}),
        json!({"$set": {"summary": "about TITLE"}}),
        json!({"id": "u-3", "timestamp": "2026-01-02T03:06:06.006Z", "type": "user",
            "content": [{"text": "third"}]}),
    ]
}

fn as_log(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

fn messages(records: &[Value]) -> Vec<Value> {
    let mut messages = vec![records[1]["$set"]["messages"][0].clone()];
    messages.extend(records[2..].iter().filter(|record| record["id"].is_string()).cloned());
    messages
}

/// The same as one pretty object.
fn as_pretty(records: &[Value]) -> String {
    let object = json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-01-02T03:04:05.006Z",
        "lastUpdated": "2026-01-02T03:04:05.006Z", "summary": "about TITLE", "messages": messages(records)});
    format!("{object:#}")
}

/// The same as we write it.
fn as_document(records: &[Value]) -> String {
    let lines: Vec<String> = messages(records).iter().map(Value::to_string).collect();
    format!(
        "{{\n  \"sessionId\": \"s\",\n  \"projectHash\": \"h\",\n  \"startTime\": \"2026-01-02T03:04:05.006Z\",\n  \
         \"lastUpdated\": \"2026-01-02T03:04:05.006Z\",\n  \"kind\": \"main\",\n  \"summary\": \"about TITLE\",\n  \
         \"messages\": [\n    {}\n  ]\n}}\n",
        lines.join(",\n    ")
    )
}

fn files() -> [(&'static str, String); 3] {
    let records = log_records();
    [
        ("session-a.jsonl", as_log(&records)),
        ("session-b.json", as_pretty(&records)),
        ("session-c.json", as_document(&records)),
    ]
}

fn ids(path: &Path) -> Vec<String> {
    load(path).unwrap().messages.iter().map(|message| message.id().to_owned()).collect()
}

fn transcript(path: &Path) -> (String, Option<String>) {
    let mut out = Vec::new();
    let damage = write_transcript(path, TranscriptForm::Text, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), damage.map(|damage| damage.to_string()))
}

fn split<'a>(mut text: &'a [u8], at: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while let Some(place) = text.windows(at.len()).position(|window| window == at) {
        pieces.push(&text[..place]);
        text = &text[place + at.len()..];
    }
    pieces.push(text);
    pieces
}

/// A session with something in place of one of its words.
fn with(scratch: &Scratch, name: &str, file: &str, place: &str, bytes: &[u8]) -> PathBuf {
    let at = file.find(place).unwrap();
    let (before, behind) = (&file.as_bytes()[..at], &file.as_bytes()[at + place.len()..]);
    scratch.put(name, [before, bytes, behind].concat())
}

#[test]
fn an_unpaired_surrogate_costs_no_message_in_any_layout() {
    for (name, file) in files() {
        for place in PLACES {
            let scratch = Scratch::new();
            let path = with(&scratch, name, &file, place, br"cut\ud83d");
            let session = load(&path).unwrap();
            assert_eq!(ids(&path), ["u-1", "u-2", "g-1", "u-3"], "{name} {place}");
            assert_eq!(session.repaired, None, "{name} {place}: it is not damaged");
            let expected = if place == "TITLE" { "about cut\u{fffd}" } else { "about TITLE" };
            assert_eq!(session.summary.as_deref(), Some(expected), "{name}");
            let (shown, damage) = transcript(&path);
            let is_shown = matches!(place, "PROMPT" | "STARTED");
            assert_eq!(shown.contains("cut\u{fffd}"), is_shown, "{name} {place}: {shown}");
            assert!(shown.contains("third") && damage.is_none(), "{name} {place}: {damage:?}");
            assert_eq!(verify_file(&path).problems, [], "{name} {place}");
            let record = summarise(&path).unwrap();
            assert_eq!((record.messages, record.damaged), (4, false), "{name} {place}");
            assert_eq!(record.summary.as_deref(), Some(expected), "{name}");
            let listed = list(&scratch.dirs(), at(0)).sessions;
            assert_eq!(listed[0].title, expected, "{name} {place}");
            let (exported, _) = export(&path).unwrap();
            assert_eq!(exported["messages"].as_array().unwrap().len(), 4, "{name} {place}");
        }
    }
}

#[test]
fn resuming_keeps_unpaired_surrogates_in_the_file() {
    for (name, file) in files() {
        let scratch = Scratch::new();
        let path = with(&scratch, name, &file, "PROMPT", br"cut\uD83D");
        let before = fs::read(&path).unwrap();
        let session = load(&path).unwrap();
        let mut recorder = Recorder::resume(&session).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before, "{name}: nothing was added yet");
        recorder.user(&text("next"), None, at(60)).unwrap();
        drop(recorder);
        assert_eq!(load(&path).unwrap().messages.len(), 5, "{name}");
        // Only a file in another layout is rewritten.
        let kept = fs::read_to_string(&path).unwrap().contains(r"cut\uD83D");
        assert_eq!(kept, name != "session-b.json", "{name}");
    }
}

#[test]
fn the_prompt_log_keeps_its_entries_around_an_unpaired_surrogate() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.temp()).unwrap();
    let path = scratch.temp().join("logs.json");
    let entry = |number: u64, message: &str| {
        json!({"sessionId": "a", "messageId": number, "type": "user", "message": message,
            "timestamp": format!("2026-01-02T03:04:0{number}.006Z")})
    };
    let log = format!("{:#}", json!([entry(0, "one CUT"), entry(1, "two")])).replace("CUT", r"\ud83d");
    for form in [log.clone(), log.replace("\n]", "]"), log.replace("\n  ", "\n ")] {
        put(&path, &form);
        assert_eq!(logged_prompts(&scratch.temp()), ["two", "one \u{fffd}"]);
        let session = scratch.spec("a", SessionFormat::Json, 0).id;
        assert_eq!(log_prompt(&scratch.temp(), &session, "three", at(1)).unwrap(), 2);
        assert_eq!(logged_prompts(&scratch.temp()), ["three", "two", "one \u{fffd}"]);
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.contains(r"one \ud83d"), "{written}");
        assert_eq!(fs::read_dir(scratch.temp()).unwrap().flatten().count(), 1, "nothing was moved aside");
    }
}

#[test]
fn a_checkpoint_with_an_unpaired_surrogate_is_read() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.temp()).unwrap();
    let path = scratch.temp().join("checkpoint-t.json");
    put(&path, r#"{"history":[{"role":"user","parts":[{"text":"a \ud83d"}]}],"authType":"x"}"#);
    let Checkpoint { history, auth_type } = load_checkpoint(&scratch.temp(), "t").unwrap().unwrap();
    assert_eq!((history.len(), auth_type.as_deref()), (1, Some("x")));
    assert_eq!(history[0].to_json()["parts"][0]["text"], "a \u{fffd}");
}

#[test]
fn control_characters_in_a_string_cost_no_message_and_are_noted() {
    let kinds: [(&str, &[u8]); 4] =
        [("control", b"\x01"), ("zeros", &[0; 4096]), ("tab", b"\t"), ("feed", b"\r")];
    for (name, file) in files() {
        for place in ["STARTED", "PROMPT", "OUTPUT"] {
            for (kind, bytes) in kinds {
                let scratch = Scratch::new();
                let path = with(&scratch, name, &file, place, bytes);
                let case = format!("{name} {place} {kind}");
                assert_eq!(ids(&path), ["u-1", "u-2", "g-1", "u-3"], "{case}");
                let session = load(&path).unwrap();
                assert!(session.repaired.is_some(), "{case}");
                let Message::User(first) = &session.messages[0] else { panic!("{case}") };
                let said = first.parts[0].spoken_text().unwrap();
                assert!(said.starts_with("first ") && said.chars().count() < 16, "{case}: {said:?}");
                let (shown, damage) = transcript(&path);
                assert!(
                    shown.contains("first") && shown.contains("second") && shown.contains("third"),
                    "{case}: {shown}"
                );
                assert!(damage.is_some_and(|damage| damage.contains("damaged")), "{case}");
                assert!(summarise(&path).unwrap().damaged, "{case}");
                assert!(!verify_file(&path).problems.is_empty(), "{case}");
                let (exported, damage) = export(&path).unwrap();
                assert_eq!(
                    (exported["messages"].as_array().unwrap().len(), damage.is_some()),
                    (4, true),
                    "{case}"
                );
                let mut recorder = Recorder::resume(&session).unwrap();
                recorder.user(&text("next"), None, at(60)).unwrap();
                drop(recorder);
                assert_eq!(load(&path).unwrap().messages.len(), 5, "{case}");
            }
        }
    }
}

/// A power failure can leave zeros within a record, which may end in the text of a later one.
#[test]
fn a_damaged_record_replaces_nothing_intact() {
    let mut records = log_records();
    records.push(json!({"id": "u-2", "timestamp": "2026-01-02T03:04:06.006Z", "type": "user",
        "content": [{"text": "second again HERE"}]}));
    records.push(json!({"$rewindTo": "u-HERE"}));
    records.push(json!({"$set": {"summary": "about HERE", "messages": [{"id": "u-1", "type": "user",
        "content": [{"text": "HERE"}]}, {"id": "u-4", "type": "user", "content": [{"text": "fourth"}]}]}}));
    records.push(json!({"$set": {"lastUpdated": "2026-01-02T03:09:09.009Z"}}));
    for damage in [&b"\0\0\0"[..], b"\xff", b"\x01\xff"] {
        let scratch = Scratch::new();
        let log: Vec<u8> = as_log(&records).into_bytes();
        let pieces: Vec<&[u8]> = split(&log, b"HERE");
        let path = scratch.put("session-a.jsonl", pieces.join(damage));
        let session = load(&path).unwrap();
        assert_eq!(ids(&path), ["u-1", "u-2", "g-1", "u-3", "u-4"], "{damage:?}");
        assert_eq!(session.summary.as_deref(), Some("about TITLE"), "{damage:?}");
        assert!(session.repaired.is_some_and(|note| note.unreadable_lines == 3), "{damage:?}");
        let (shown, note) = transcript(&path);
        assert!(note.is_some() && !shown.contains("again"), "{damage:?}: {shown}");
        for text in ["first STARTED", "second PROMPT", "Reading it.", "third", "fourth"] {
            assert!(shown.contains(text), "{damage:?}: {text}: {shown}");
        }
    }
}

#[test]
fn zeros_between_the_fields_of_a_record_replace_nothing() {
    let mut log = as_log(&log_records()).into_bytes();
    log.extend(b"{\"id\":\"u-2\",\"type\":\"user\",\"content\":\0\0\0}\n{\"$set\":{\"summary\":\"new\"}}\n");
    let scratch = Scratch::new();
    let path = scratch.put("session-a.jsonl", log);
    assert!(transcript(&path).0.contains("second PROMPT"));
    assert_eq!((ids(&path).len(), summarise(&path).unwrap().summary.as_deref()), (4, Some("new")));
}

#[test]
fn a_message_that_cannot_be_read_costs_no_other_in_an_export_an_import_or_a_fork() {
    let [_, (name, file), _] = files();
    for place in ["STARTED", "PROMPT"] {
        let scratch = Scratch::new();
        let path = with(&scratch, name, &file, place, br"\q");
        let lost = if place == "STARTED" { "u-1" } else { "u-2" };
        let left: Vec<String> =
            ["u-1", "u-2", "g-1", "u-3"].iter().filter(|id| **id != lost).map(ToString::to_string).collect();
        assert_eq!(ids(&path), left, "{place}");
        let (exported, damage) = export(&path).unwrap();
        let found: Vec<&str> =
            exported["messages"].as_array().unwrap().iter().filter_map(|it| it["id"].as_str()).collect();
        assert_eq!(found, left, "{place}");
        assert!(damage.is_some(), "{place}");
        let imported = import(&path, &scratch.spec("imported", SessionFormat::Json, 5)).unwrap();
        assert_eq!((imported.messages.len(), imported.repaired.is_some()), (4, true), "{place}");
        assert_eq!(history(&imported).len(), history(&load(&path).unwrap()).len());
        let session = load(&path).unwrap();
        let (recorder, copy) =
            Recorder::fork(&session, &scratch.spec("forked", SessionFormat::Json, 6)).unwrap();
        drop(recorder);
        assert_eq!((copy.messages.len(), copy.repaired.is_some()), (4, true), "{place}");
        assert_eq!(json_of(&copy.path)["messages"].as_array().unwrap().len(), 4);
        assert_eq!(load(&copy.path).unwrap().repaired, None);
        let (shown, damage) = transcript(&path);
        assert!(shown.contains("third") && damage.is_some(), "{place}: {shown}");
    }
}

#[test]
fn arguments_as_text_and_answers_without_a_part_reach_the_model() {
    let scratch = Scratch::new();
    let call = |id: &str, result: Value| {
        json!({"id": id, "name": "read_file", "args": "{\"file_path\":\"a.txt\"}", "status": "success",
            "result": result})
    };
    let calls = [call("c1", json!({"output": "RAW"})), call("c2", json!({"error": "boom"}))];
    let file = json!({"sessionId": "s", "projectHash": "h", "startTime": "2026-01-02T03:04:05.006Z",
        "lastUpdated": "2026-01-02T03:04:05.006Z", "messages": [
            {"id": "u", "timestamp": "2026-01-02T03:04:06.006Z", "type": "user", "content": "go"},
            {"id": "g", "timestamp": "2026-01-02T03:04:07.006Z", "type": "gemini", "content": "ok",
                "toolCalls": calls}]});
    let path = scratch.put("session-a.json", file.to_string());
    let told = format!("{:?}", history(&load(&path).unwrap()));
    for part in ["a.txt", "RAW", "boom"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
