//! A file cut at every byte is read or named, what is read can be sent, and every reader says the same.

use pollux_domain::event::CallStatus;
use pollux_domain::id::CallId;
use pollux_session::{
    Message, Recorder, SessionFormat, StoredSession, history, load, summarise, verify_file, visit_texts,
};
use pollux_test_support::validate_request;
use serde_json::{Value, json};

use crate::scratch::{Scratch, at, call, reply, result, text};

/// A short conversation with every kind of record.
fn conversation(format: SessionFormat) -> Vec<u8> {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("s", format, 0);
    recorder.user(&text("größe?"), None, at(1)).unwrap();
    recorder.reply(&reply("one", vec![call("a", Some("sig")), call("b", None)]), at(2)).unwrap();
    recorder
        .results(&[result("a", CallStatus::Success, "{]\""), result("b", CallStatus::Error, "x")], at(3))
        .unwrap();
    recorder.reply(&reply("two", vec![call("c", None)]), at(4)).unwrap();
    recorder.user(&text("stop"), Some("stop!"), at(5)).unwrap();
    std::fs::read(recorder.path().unwrap()).unwrap()
}

/// The request that a resumed session would begin with.
fn request(session: &StoredSession) -> Value {
    let mut contents: Vec<Value> = history(session).iter().map(|turn| turn.content.to_json()).collect();
    if contents.last().is_none_or(|last| last["role"] == "model") {
        contents.push(json!({"role": "user", "parts": [{"text": "go on"}]}));
    }
    // The client takes the tool's name off ids, and adds signatures where the model gave none.
    for part in contents.iter_mut().filter_map(|turn| turn["parts"].as_array_mut()).flatten() {
        for kind in ["functionCall", "functionResponse"] {
            if let Some(fields) = part.get_mut(kind) {
                let id = CallId::from_file(fields["id"].as_str().unwrap());
                fields["id"] = json!(id.on_wire(fields["name"].as_str().unwrap()));
            }
        }
        if part.get("functionCall").is_some() && part.get("thoughtSignature").is_none() {
            part["thoughtSignature"] = json!("skip_thought_signature_validator");
        }
    }
    json!({ "contents": contents })
}

fn check_every_cut(name: &str, bytes: &[u8]) {
    let scratch = Scratch::new();
    let mut read = 0;
    for cut in 0..=bytes.len() {
        let path = scratch.put(name, &bytes[..cut]);
        let session = match load(&path) {
            Ok(session) => session,
            Err(error) => {
                assert!(error.to_string().contains(name), "cut at {cut}: {error}");
                assert!(summarise(&path).is_err(), "cut at {cut}");
                assert!(!verify_file(&path).problems.is_empty(), "cut at {cut}");
                continue;
            }
        };
        read += 1;
        validate_request(&request(&session)).unwrap_or_else(|problems| panic!("cut at {cut}: {problems:?}"));
        let record = summarise(&path).unwrap();
        assert_eq!(record.session_id, session.id);
        assert_eq!(record.messages, session.messages.len() as u64, "cut at {cut}");
        // A line break that is missing at the very end is no damage to a reader.
        assert!(!record.damaged || session.repaired.is_some(), "cut at {cut}");
        let mut ids: Vec<String> = Vec::new();
        visit_texts(&path, &mut |_, id, _, _| ids.push(id.to_owned())).unwrap();
        assert!(
            ids.iter().all(|id| session.messages.iter().any(|message| message.id() == id)),
            "cut at {cut}"
        );
    }
    assert!(read > bytes.len() / 2, "{name}: only {read} cuts could be read");
}

#[test]
fn a_document_cut_at_every_byte_is_read_or_named() {
    check_every_cut("session-cut.json", &conversation(SessionFormat::Json));
}

#[test]
fn a_record_log_cut_at_every_byte_is_read_or_named() {
    check_every_cut("session-cut.jsonl", &conversation(SessionFormat::Jsonl));
    check_every_cut("session-cut.jsonl", include_bytes!("../fixtures/record-log.jsonl"));
}

#[test]
fn legacy_files_cut_at_every_byte_are_read_or_named() {
    check_every_cut("session-cut.json", include_bytes!("../fixtures/pretty.json"));
    check_every_cut("session-cut.json", include_bytes!("../fixtures/without-ids.json"));
}

#[test]
fn all_forms_say_the_same_to_every_reader() {
    let scratch = Scratch::new();
    let texts = |format: SessionFormat, name: &str| {
        let path = scratch.put(name, conversation(format));
        let mut texts = Vec::new();
        visit_texts(&path, &mut |kind, _, _, words| texts.push((kind, words.to_owned()))).unwrap();
        let record = summarise(&path).unwrap();
        let counts = (record.user_messages, record.messages, record.tool_calls, record.errors);
        assert_eq!((record.first_user.as_str(), record.last_user.as_str()), ("größe?", "stop!"));
        assert_eq!(counts, (2, 4, 3, 1));
        assert_eq!((record.usage.total, record.models), (28, vec!["gemini-3-pro".to_owned()]));
        (texts, load(&path).unwrap().messages.iter().filter(|it| matches!(it, Message::Reply(_))).count())
    };
    assert_eq!(texts(SessionFormat::Json, "session-a.json"), texts(SessionFormat::Jsonl, "session-b.jsonl"));
}

#[test]
fn a_resumed_file_is_continued_without_being_read_again() {
    let scratch = Scratch::new();
    for (name, format) in [("session-a.json", SessionFormat::Json), ("session-b.jsonl", SessionFormat::Jsonl)]
    {
        let before = conversation(format);
        let path = scratch.put(name, &before);
        let mut recorder = Recorder::resume(&load(&path).unwrap()).unwrap();
        recorder.user(&text("more"), None, at(9)).unwrap();
        let after = std::fs::read(&path).unwrap();
        // Everything but the tail and the time of the last change is the same bytes.
        let same = before.iter().zip(&after).filter(|(old, new)| old == new).count();
        assert!(same + 32 >= before.len(), "{name}");
        assert_eq!(load(&path).unwrap().messages.len(), 5, "{name}");
    }
}
