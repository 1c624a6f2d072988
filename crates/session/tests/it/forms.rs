//! Every form a session file ever had is read, and continued without loss.

use std::fs;

use pollux_domain::event::CallStatus;
use pollux_session::{
    LoadError, Message, Recorder, SessionFormat, StoredSession, StoredStatus, history, import, load,
    visit_texts,
};
use serde_json::{Value, json};

use crate::scratch::{Scratch, at, json_of, text};

const PRETTY: &str = include_str!("../fixtures/pretty.json");
const WITHOUT_IDS: &str = include_str!("../fixtures/without-ids.json");
const ONE_LINE: &str = include_str!("../fixtures/one-line.json");
const RECORD_LOG: &str = include_str!("../fixtures/record-log.jsonl");
const OURS: &str = include_str!("../fixtures/ours.json");

/// Bytes, and what reading them must end in.
type Case = (&'static [u8], fn(&LoadError) -> bool);

fn turns(session: &StoredSession) -> Vec<Value> {
    history(session).iter().map(|turn| turn.content.to_json()).collect()
}

#[test]
fn a_pretty_printed_session_is_read_with_all_it_says() {
    let scratch = Scratch::new();
    let session = load(&scratch.put("session-a.json", PRETTY)).unwrap();
    assert_eq!(session.summary.as_deref(), Some("TypeScript set-up"));
    assert_eq!(session.project_hash.as_deref(), Some("901d83c8"));
    assert_eq!(session.last_updated.to_iso(), "2026-01-27T15:30:46.002Z");
    assert_eq!(session.extra["memoryScratchpad"], json!({"version": 1}));
    let [Message::User(user), Message::Reply(reply)] = &session.messages[..] else { panic!("{session:?}") };
    assert_eq!(user.extra["mood"], "curious");
    assert_eq!(reply.usage.as_ref().unwrap().total, 6053);
    assert_eq!(reply.thoughts[0].0.subject, "Looking");
    assert_eq!(reply.calls[0].status, StoredStatus::Ended(CallStatus::Success));
    assert_eq!(turns(&session).len(), 3);
}

#[test]
fn other_layouts_are_rewritten_once_and_keep_every_field() {
    for fixture in [PRETTY, ONE_LINE, WITHOUT_IDS] {
        let scratch = Scratch::new();
        let path = scratch.put("session-a.json", fixture);
        let before: Value = serde_json::from_str(fixture).unwrap();
        let session = load(&path).unwrap();
        let said = turns(&session);
        let mut recorder = Recorder::resume(&session).unwrap();
        assert_eq!(recorder.session(), &session.id);
        assert_eq!(fs::read_to_string(&path).unwrap(), fixture, "nothing was added yet");
        recorder.user(&text("on"), None, at(8)).unwrap();
        let rewritten = json_of(&path);
        for (key, value) in before.as_object().unwrap() {
            if !["messages", "lastUpdated"].contains(&key.as_str()) {
                assert_eq!(&rewritten[key], value, "{key}");
            }
        }
        for (old, new) in
            before["messages"].as_array().unwrap().iter().zip(rewritten["messages"].as_array().unwrap())
        {
            for (key, value) in old.as_object().unwrap() {
                assert_eq!(&new[key], value, "{key}");
            }
        }
        let now = turns(&load(&path).unwrap());
        assert_eq!(now[..said.len() - 1], said[..said.len() - 1]);
        recorder.user(&text("and on"), None, at(9)).unwrap();
        let prefix = fs::read(&path).unwrap();
        recorder.user(&text("and on"), None, at(9)).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(&prefix[..prefix.len() - 7]));
        let after = load(&path).unwrap();
        assert_eq!(after.messages.len(), session.messages.len() + 3);
        assert_eq!(after.last_updated, at(9));
        drop(recorder);
        assert_eq!(scratch.names(), ["session-a.json"]);
    }
}

#[test]
fn messages_without_ids_get_lasting_ones() {
    let scratch = Scratch::new();
    let path = scratch.put("session-1736000000000-abc12345.json", WITHOUT_IDS);
    let session = load(&path).unwrap();
    assert_eq!(session.project_hash, None);
    let ids: Vec<&str> = session.messages.iter().map(Message::id).collect();
    assert_eq!(ids, ["message-1", "message-2"]);
    let said = turns(&session);
    let answer = &said[2]["parts"][0]["functionResponse"];
    assert_eq!(answer["id"], said[1]["parts"][1]["functionCall"]["id"]);
    assert!(answer["response"]["error"].is_string());
    let mut recorder = Recorder::resume(&session).unwrap();
    recorder.user(&text("on"), None, at(8)).unwrap();
    assert_eq!(json_of(&path)["messages"][1]["id"], "message-2");
}

#[test]
fn a_single_line_is_read_with_parts_of_every_kind() {
    let scratch = Scratch::new();
    let session = load(&scratch.put("session-a.json", ONE_LINE)).unwrap();
    assert_eq!(session.last_updated, session.start);
    assert_eq!(
        turns(&session),
        [
            json!({"role": "user", "parts": [{"text": "hello"}]}),
            json!({"role": "model", "parts": [{"text": "a"}, {"text": "b"}]}),
        ]
    );
}

#[test]
fn a_record_log_is_folded_and_continued_as_one() {
    let scratch = Scratch::new();
    // By content, not by name.
    let path = scratch.put("session-a.json", RECORD_LOG);
    let session = load(&path).unwrap();
    let ids: Vec<&str> = session.messages.iter().map(Message::id).collect();
    assert_eq!(ids, ["d04923d38bb0f6017037e74183378ef4", "u-1", "g-1", "u-2", "g-2"]);
    assert_eq!(session.summary.as_deref(), Some("Reads a file"));
    assert_eq!(session.last_updated.to_iso(), "2026-01-02T03:05:00.000Z");
    let said = turns(&session);
    assert_eq!(said.len(), 4);
    assert_eq!(said[2]["parts"].as_array().unwrap().len(), 1);
    let mut recorder = Recorder::resume(&session).unwrap();
    recorder.user(&text("more"), None, at(1)).unwrap();
    assert!(fs::read_to_string(&path).unwrap().starts_with(RECORD_LOG));
    assert_eq!(load(&path).unwrap().messages.len(), 6);
}

#[test]
fn a_record_log_with_a_torn_last_line_is_continued_behind_it() {
    let scratch = Scratch::new();
    let torn = format!("{RECORD_LOG}{{\"id\":\"u-9\",\"type\":\"us");
    let path = scratch.put("session-a.jsonl", &torn);
    let session = load(&path).unwrap();
    assert!(session.repaired.is_some());
    let mut recorder = Recorder::resume(&session).unwrap();
    recorder.user(&text("more"), None, at(1)).unwrap();
    let after = load(&path).unwrap();
    assert_eq!(after.messages.len(), session.messages.len() + 1);
    assert!(fs::read_to_string(&path).unwrap().starts_with(&torn));
}

#[test]
fn an_unknown_rewind_empties_the_log() {
    let scratch = Scratch::new();
    let path = scratch.put("session-a.jsonl", format!("{RECORD_LOG}{{\"$rewindTo\":\"nobody\"}}\n"));
    assert!(load(&path).unwrap().messages.is_empty());
}

#[test]
fn a_rewind_to_a_message_that_cannot_be_read_keeps_those_before_it() {
    let scratch = Scratch::new();
    let before = load(&scratch.put("session-b.jsonl", RECORD_LOG)).unwrap().messages;
    let broken = "{\"id\":\"b\",\"type\":\"user\",\"content\":\"\u{1}\"}";
    let after = "{\"id\":\"c\",\"type\":\"user\",\"content\":\"later\"}";
    let log = format!("{RECORD_LOG}{broken}\n{after}\n{{\"$rewindTo\":\"b\"}}\n");
    assert_eq!(load(&scratch.put("session-a.jsonl", log)).unwrap().messages, before);
}

/// The texts of a record log of these records, as both readers see them: the one that resumes and the one that streams.
fn texts_of_log(scratch: &Scratch, records: &[String]) -> [Vec<String>; 2] {
    let log = format!("{{\"sessionId\":\"s\",\"projectHash\":\"e1\"}}\n{}\n", records.join("\n"));
    let path = scratch.put("session-a.jsonl", log);
    let session = load(&path).unwrap();
    let resumed = session.messages.iter().map(|message| message.id().to_owned()).collect();
    let mut streamed = Vec::new();
    visit_texts(&path, &mut |_, id, _, text| {
        if !text.contains('\u{1}') {
            streamed.push(id.to_owned());
        }
    })
    .unwrap();
    [resumed, streamed]
}

#[test]
fn unreadable_messages_keep_their_place_in_a_record_log() {
    let scratch = Scratch::new();
    let good = |id: &str| format!("{{\"id\":\"{id}\",\"type\":\"user\",\"content\":\"text\"}}");
    let bad = |id: &str| format!("{{\"id\":\"{id}\",\"type\":\"user\",\"content\":\"\u{1}\"}}");
    let to = |id: &str| format!("{{\"$rewindTo\":\"{id}\"}}");
    let cases = [
        (vec![good("A"), bad("U"), good("M"), to("M"), good("B"), to("U")], vec!["A"]),
        (vec![good("A"), bad("U"), bad("V"), to("V"), good("B"), to("U")], vec!["A"]),
        (vec![good("A"), bad("U"), to("U"), good("B"), to("U")], vec![]),
        (vec![good("A"), bad("U"), good("B"), good("U"), good("C")], vec!["A", "U", "B", "C"]),
        (vec![bad("U"), good("A"), bad("V"), good("B"), good("V"), good("U")], vec!["U", "A", "V", "B"]),
        (vec![bad("U"), good("A"), good("U"), good("B"), to("B"), good("C")], vec!["U", "A", "C"]),
    ];
    for (records, expected) in cases {
        let [resumed, streamed] = texts_of_log(&scratch, &records);
        assert_eq!(resumed, expected, "{records:?}");
        assert_eq!(streamed, expected, "{records:?}");
    }
}

#[test]
fn our_own_file_is_continued_in_place() {
    let scratch = Scratch::new();
    let path = scratch.put("session-a.json", OURS);
    let mut recorder = Recorder::resume(&load(&path).unwrap()).unwrap();
    recorder.user(&text("next"), None, at(60)).unwrap();
    let written = fs::read_to_string(&path).unwrap();
    let unchanged = OURS.replace("02:40:04.000Z\",\n  \"kind\"", "02:41:00.000Z\",\n  \"kind\"");
    assert!(written.starts_with(unchanged.strip_suffix("\n  ]\n}\n").unwrap()), "{written}");
    assert_eq!(json_of(&path)["messages"].as_array().unwrap().len(), 4);
}

#[test]
fn non_session_files_are_refused_by_name_and_unchanged() {
    let cases: [Case; 10] = [
        (b"", |error| matches!(error, LoadError::Empty { .. })),
        (b" \n ", |error| matches!(error, LoadError::Empty { .. })),
        (b"\x7fELF\x00\x01", |error| matches!(error, LoadError::NotASession { .. })),
        (b"\0\0\0\0", |error| matches!(error, LoadError::NotASession { .. })),
        (b"[]", |error| matches!(error, LoadError::NotASession { .. })),
        (b"{\xff\xfe", |error| matches!(error, LoadError::NotASession { .. })),
        (b"{\"a\":1}", |error| matches!(error, LoadError::UnknownShape { .. })),
        (b"{\"sessionId\":7}", |error| matches!(error, LoadError::UnknownShape { .. })),
        (b"{\"sessionId\":\"s\",\"messages\":{}}", |error| matches!(error, LoadError::UnknownShape { .. })),
        (b"{\n  \"sessionId\": \"s\",\n  \"messages\": {}\n}", |error| {
            matches!(error, LoadError::UnknownShape { .. })
        }),
    ];
    for (bytes, expected) in cases {
        let scratch = Scratch::new();
        let path = scratch.put("session-a.json", bytes);
        let error = load(&path).unwrap_err();
        assert!(expected(&error), "{bytes:?}: {error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.chats().join("session-dir.json")).unwrap();
    assert!(matches!(load(&scratch.chats().join("session-dir.json")), Err(LoadError::NotASession { .. })));
}

/// Our file with a line before its last message.
fn ours_with(line: &str) -> String {
    OURS.replace("    {\"id\":\"NOTICE\"", &format!("    {line},\n    {{\"id\":\"NOTICE\""))
}

#[test]
fn a_message_nested_too_deep_stays_in_the_file_unread() {
    let scratch = Scratch::new();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let file = ours_with(&format!("{{\"id\":\"deep\",\"type\":\"user\",\"content\":{deep}}}"));
    let path = scratch.put("session-a.json", &file);
    let session = load(&path).unwrap();
    assert_eq!(session.messages.len(), 3);
    assert_eq!(session.repaired.as_ref().unwrap().unreadable_lines, 1);
    let mut recorder = Recorder::resume(&session).unwrap();
    recorder.user(&text("next"), None, at(60)).unwrap();
    assert_eq!(load(&path).unwrap().messages.len(), 4);
    assert!(fs::read_to_string(&path).unwrap().contains(&deep));
}

#[test]
fn lines_broken_in_the_middle_are_read_as_far_as_they_go_and_the_original_is_kept() {
    let scratch = Scratch::new();
    let broken = r#"{"id":"half","type":"gemini","content":"said","thoughts":[{"sub"#;
    let file = ours_with(&format!("{broken}\n    garbage"));
    let path = scratch.put("session-a.json", &file);
    let session = load(&path).unwrap();
    let ids: Vec<&str> = session.messages.iter().map(Message::id).collect();
    assert_eq!(ids, ["USER", "GEMINI", "half", "NOTICE"]);
    drop(Recorder::resume(&session).unwrap());
    assert_eq!(json_of(&path)["messages"].as_array().unwrap().len(), 4);
    assert_eq!(load(&path).unwrap().repaired, None);
    let copy = scratch.names().into_iter().find(|name| name.contains(".torn-")).unwrap();
    assert_eq!(fs::read_to_string(scratch.chats().join(copy)).unwrap(), file);
}

#[test]
fn a_layout_that_only_starts_like_ours_is_not_damaged() {
    let scratch = Scratch::new();
    let file = ours_with("{\"id\":\"over\",\"type\":\"user\",\n     \"content\":\"two lines\"}");
    let session = load(&scratch.put("session-a.json", file)).unwrap();
    assert_eq!((session.messages.len(), session.repaired), (4, None));
}

#[test]
fn hostile_nesting_alone_is_not_a_session() {
    let scratch = Scratch::new();
    assert!(load(&scratch.put("session-b.json", "[".repeat(200_000))).is_err());
    assert!(load(&scratch.put("session-c.json", "{\"a\":".repeat(200_000))).is_err());
}

#[test]
fn a_byte_order_mark_and_a_broken_character_do_no_harm() {
    let scratch = Scratch::new();
    let session = load(&scratch.put("session-a.json", format!("\u{feff}{PRETTY}"))).unwrap();
    assert_eq!(session.messages.len(), 2);
    let mut bytes = OURS.as_bytes().to_vec();
    let at = OURS.find("careful").unwrap();
    bytes[at] = 0xff;
    let session = load(&scratch.put("session-b.json", bytes)).unwrap();
    let Some(Message::Notice(notice)) = session.messages.last() else { panic!("{session:?}") };
    assert_eq!(notice.text, "\u{fffd}areful");
}

#[test]
fn an_import_is_a_new_session_with_the_old_words() {
    for format in [SessionFormat::Json, SessionFormat::Jsonl] {
        let scratch = Scratch::new();
        let source = scratch.temp().join("elsewhere.json");
        fs::create_dir_all(scratch.temp()).unwrap();
        crate::scratch::put(&source, OURS);
        let session = import(&source, &scratch.spec("newnewnew-1", format, 5)).unwrap();
        assert_eq!(session.id.as_str(), "newnewnew-1");
        assert_eq!((session.start, session.last_updated), (at(5), at(5)));
        let name = session.path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with(&format!("session-{}-newnewne.json", at(5).millis())), "{name}");
        let Message::Notice(notice) = &session.messages[0] else { panic!("{session:?}") };
        assert_eq!(notice.text, format!("Imported session from {}", source.display()));
        assert_eq!(notice.id, format!("import-{}", at(5).millis()));
        assert_eq!(turns(&session), turns(&load(&source).unwrap()));
        let mut recorder = Recorder::resume(&session).unwrap();
        recorder.user(&text("on"), None, at(6)).unwrap();
        assert_eq!(load(&session.path).unwrap().messages.len(), 4);
        assert_eq!(fs::read_to_string(&source).unwrap(), OURS);
    }
}

#[test]
fn a_file_that_cannot_be_imported_is_named() {
    let scratch = Scratch::new();
    let missing = scratch.temp().join("none.json");
    let error = import(&missing, &scratch.spec("s", SessionFormat::Json, 0)).unwrap_err();
    assert_eq!(error.to_string(), format!("File not found or invalid format: {}", missing.display()));
    assert!(!scratch.chats().exists());
}
