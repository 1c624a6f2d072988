//! A file cut at any byte keeps every complete message, and a resume makes it whole again.

use std::fs;

use pollux_domain::content::Part;
use pollux_domain::content::Seal;
use pollux_domain::event::CallStatus;
use pollux_session::{Message, Recorder, SessionFormat, StoredStatus, history, load};
use serde_json::Value;

use crate::scratch::{Scratch, at, call, json_of, put, reply, result, text};

/// Resuming touches the disk a dozen times; where every cut is read, one in so many is also resumed.
const RESUMED: usize = 13;

/// The file after each step of a short conversation.
fn stages(format: SessionFormat) -> Vec<Vec<u8>> {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("s", format, 0);
    let mut stages = Vec::new();
    recorder.user(&text("größe?"), None, at(1)).unwrap();
    let path = recorder.path().unwrap().to_owned();
    stages.push(fs::read(&path).unwrap());
    recorder.reply(&reply("one", vec![call("a", Some("sig"))]), at(2)).unwrap();
    stages.push(fs::read(&path).unwrap());
    recorder.results(&[result("a", CallStatus::Success, "{]\"")], at(3)).unwrap();
    stages.push(fs::read(&path).unwrap());
    recorder.reply(&reply("two", vec![call("b", None), call("c", None)]), at(4)).unwrap();
    stages.push(fs::read(&path).unwrap());
    recorder
        .results(&[result("b", CallStatus::Error, "x"), result("c", CallStatus::Cancelled, "y")], at(5))
        .unwrap();
    stages.push(fs::read(&path).unwrap());
    recorder.user(&[Part::text("a"), Part::text("b")], Some("ab!"), at(6)).unwrap();
    stages.push(fs::read(&path).unwrap());
    stages
}

/// Where each message of our layout ends.
fn message_ends(bytes: &[u8]) -> Vec<usize> {
    let mut at = 0;
    let mut ends = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let body = line.trim_ascii_end().strip_suffix(b",").unwrap_or(line.trim_ascii_end());
        if line.starts_with(b"    {") {
            ends.push(at + body.len());
        }
        at += line.len();
    }
    ends
}

#[test]
fn a_document_cut_anywhere_keeps_its_complete_messages_and_can_be_continued() {
    let bytes = stages(SessionFormat::Json).pop().unwrap();
    let whole: Value = serde_json::from_slice(&bytes).unwrap();
    let ends = message_ends(&bytes);
    assert_eq!(ends.len(), 4);
    let scratch = Scratch::new();
    for cut in 0..bytes.len() {
        let path = scratch.put("session-cut.json", &bytes[..cut]);
        let complete = ends.iter().filter(|end| **end <= cut).count();
        let session = match load(&path) {
            Ok(session) => session,
            Err(error) => {
                assert!(complete == 0 && cut < ends[0], "cut at {cut}: {error}");
                continue;
            }
        };
        assert!(session.messages.len() >= complete, "cut at {cut}");
        let mut recorder = Recorder::resume(&session).unwrap();
        recorder.user(&text("after"), None, at(9)).unwrap();
        drop(recorder);
        let mended = json_of(&path);
        let messages = mended["messages"].as_array().unwrap();
        for index in 0..complete {
            assert_eq!(messages[index], whole["messages"][index], "cut at {cut}");
        }
        assert_eq!(messages.last().unwrap()["content"], "after");
        assert_eq!(messages.len(), session.messages.len() + 1, "cut at {cut}");
        let again = load(&path).unwrap();
        assert_eq!(again.repaired, None, "cut at {cut}");
        check_copy(&scratch, &bytes[..cut]);
    }
}

/// Whatever was cut off is beside the file, and goes before the next round.
fn check_copy(scratch: &Scratch, original: &[u8]) {
    for name in scratch.names().iter().filter(|name| name.contains(".torn-")) {
        let copy = scratch.chats().join(name);
        assert!(original.ends_with(&fs::read(&copy).unwrap()));
        fs::remove_file(copy).unwrap();
    }
}

/// The beginning of the write is missing: what stood there before is still there, or zeros.
#[test]
fn an_append_without_its_beginning_loses_only_itself() {
    let stages = stages(SessionFormat::Json);
    let tail = "\n  ]\n}\n".len();
    for (before, after) in stages.iter().zip(&stages[1..]) {
        let from = before.len() - tail;
        for cut in from..after.len().min(from + 200) {
            let old = before.iter().copied().chain(std::iter::repeat(0)).take(cut);
            let torn: Vec<u8> = old.chain(after[cut..].iter().copied()).collect();
            let scratch = Scratch::new();
            let known = load(&scratch.put("session-before.json", before)).unwrap().messages;
            let path = scratch.put("session-torn.json", &torn);
            let session = load(&path).unwrap();
            let kept = |message: &Message| session.messages.iter().any(|it| it.id() == message.id());
            assert!(known.iter().all(kept), "cut at {cut} of {from}: {:?}", session.repaired);
            let mut recorder = Recorder::resume(&session).unwrap();
            recorder.user(&text("after"), None, at(9)).unwrap();
            drop(recorder);
            let messages = json_of(&path)["messages"].as_array().unwrap().len();
            assert_eq!(messages, session.messages.len() + 1, "cut at {cut} of {from}");
            assert_eq!(load(&path).unwrap().repaired, None, "cut at {cut} of {from}");
        }
    }
}

#[test]
fn a_result_torn_while_it_is_written_leaves_the_reply_and_its_pending_call() {
    let stages = stages(SessionFormat::Json);
    let (pending, done) = (&stages[1], &stages[2]);
    // The tail of the pending record is where the result begins.
    let from = pending.len() - b"}]}\n  ]\n}\n".len();
    let scratch = Scratch::new();
    for cut in from + 1..done.len() {
        // `lastUpdated` and the status are patched after the result.
        let mut torn = pending[..from].to_vec();
        torn.extend_from_slice(&done[from..cut]);
        let rest = pending.len().min(cut);
        torn.extend_from_slice(&pending[rest..]);
        let session = load(&scratch.put("session-cut.json", &torn)).unwrap();
        assert_eq!(session.messages.len(), 2, "cut at {cut}");
        let Message::Reply(reply) = &session.messages[1] else { panic!("no reply") };
        assert_eq!(reply.calls.len(), 1, "cut at {cut}");
        assert_eq!(reply.calls[0].status, StoredStatus::Pending);
        assert_eq!(reply.calls[0].seal.as_ref().and_then(Seal::signature), Some("sig"));
        let turns = history(&session);
        let answer = turns[2].content.responses().next().unwrap();
        let told = answer.response.get("output").or(answer.response.get("error")).unwrap().as_str().unwrap();
        assert!(told == "{]\"" || told.contains("interrupted"), "cut at {cut}: {told}");
    }
}

#[test]
fn an_append_torn_while_it_is_written_loses_only_itself() {
    let stages = stages(SessionFormat::Json);
    for pair in [(0, 1), (2, 3), (4, 5)] {
        let (before, after) = (&stages[pair.0], &stages[pair.1]);
        let from = before.len() - b"\n  ]\n}\n".len();
        let count = message_ends(before).len();
        let scratch = Scratch::new();
        for cut in from..after.len() {
            let mut torn = before[..from].to_vec();
            torn.extend_from_slice(&after[from..cut]);
            torn.extend_from_slice(&before[before.len().min(cut)..]);
            let path = scratch.put("session-cut.json", &torn);
            let session = load(&path).unwrap();
            assert!(session.messages.len() >= count, "cut at {cut}");
            // The first cuts leave pieces of the old tail behind.
            if cut > from + 16 && cut % RESUMED != 0 {
                continue;
            }
            drop(Recorder::resume(&session).unwrap());
            let mended = json_of(&path);
            let old: Value = serde_json::from_slice(before).unwrap();
            for index in 0..count {
                assert_eq!(mended["messages"][index], old["messages"][index], "cut at {cut}");
            }
        }
    }
}

#[test]
fn a_record_log_cut_anywhere_keeps_its_complete_lines() {
    let bytes = stages(SessionFormat::Jsonl).pop().unwrap();
    let scratch = Scratch::new();
    let head = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    for cut in head..bytes.len() {
        let path = scratch.put("session-cut.jsonl", &bytes[..cut]);
        let session = load(&path).unwrap();
        let mut ids: Vec<String> = bytes[..cut]
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<Value>(line).ok()?["id"].as_str().map(str::to_owned))
            .collect();
        ids.dedup();
        assert_eq!(session.messages.iter().map(Message::id).collect::<Vec<_>>(), ids, "cut at {cut}");
        if cut % RESUMED != 0 {
            continue;
        }
        let mut recorder = Recorder::resume(&session).unwrap();
        recorder.user(&text("after"), None, at(9)).unwrap();
        assert_eq!(load(&path).unwrap().messages.len(), ids.len() + 1, "cut at {cut}");
    }
}

#[test]
fn a_pretty_file_cut_anywhere_keeps_its_complete_messages() {
    let bytes = include_bytes!("../fixtures/pretty.json");
    let first_end = bytes.windows(7).position(|window| window == b"\n    },").unwrap() + 6;
    let scratch = Scratch::new();
    for cut in first_end..bytes.len() {
        let path = scratch.put("session-cut.json", &bytes[..cut]);
        let session = load(&path).unwrap();
        assert!(matches!(&session.messages[0], Message::User(user) if user.id == "3bbb4a75"), "cut at {cut}");
        if cut % RESUMED != 0 {
            continue;
        }
        drop(Recorder::resume(&session).unwrap());
        assert_eq!(json_of(&path)["messages"][0]["content"], "Help me configure TypeScript");
        let copies = scratch.names().iter().filter(|name| name.contains(".torn-")).count();
        assert_eq!(copies, usize::from(session.repaired.is_some()), "cut at {cut}");
        check_copy(&scratch, &bytes[..cut]);
    }
}

#[test]
fn blocks_that_never_reached_the_disk_are_cut_off_and_backed_up() {
    let mut bytes = stages(SessionFormat::Json).remove(0);
    let end = bytes.len();
    bytes.truncate(end - 7);
    bytes.extend_from_slice(&[0; 4096]);
    let scratch = Scratch::new();
    let path = scratch.put("session-cut.json", &bytes);
    let session = load(&path).unwrap();
    assert_eq!(session.messages.len(), 1);
    drop(Recorder::resume(&session).unwrap());
    assert_eq!(json_of(&path)["messages"].as_array().unwrap().len(), 1);
    let copy = scratch.names().into_iter().find(|name| name.contains(".torn-")).unwrap();
    assert!(fs::read(scratch.chats().join(copy)).unwrap().ends_with(&[0; 4096]));
}

#[test]
fn reading_a_torn_file_changes_nothing() {
    let bytes = &stages(SessionFormat::Json)[5];
    let scratch = Scratch::new();
    let path = scratch.put("session-cut.json", &bytes[..bytes.len() - 20]);
    let before = fs::read(&path).unwrap();
    let note = load(&path).unwrap().repaired.unwrap();
    assert!(note.to_string().starts_with("the file is damaged at byte "), "{note}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(scratch.names(), ["session-cut.json"]);
    put(&path, before);
}

#[test]
fn a_damaged_message_in_a_foreign_layout_costs_no_other() {
    let scratch = Scratch::new();
    let whole = include_str!("../fixtures/pretty.json");
    let damaged = whole.replacen("\"mood\"", "S \"mood\"", 1);
    assert_ne!(damaged, whole);
    let path = scratch.put("session-a.json", &damaged);
    let session = load(&path).unwrap();
    let before = load(&scratch.put("session-b.json", whole)).unwrap();
    let ids = |messages: &[Message]| messages.iter().map(|it| it.id().to_owned()).collect::<Vec<_>>();
    assert_eq!(ids(&session.messages), ids(&before.messages));
    assert_eq!(session.messages.last(), before.messages.last());
    assert!(session.repaired.is_some());
    let mut recorder = Recorder::resume(&session).unwrap();
    recorder.user(&text("go on"), None, at(1)).unwrap();
    assert_eq!(load(&path).unwrap().messages.len(), before.messages.len() + 1);
    assert!(scratch.names().iter().any(|name| name.contains(".torn-")), "{:?}", scratch.names());
    check_copy(&scratch, damaged.as_bytes());
}
