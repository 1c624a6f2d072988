//! A process that is gone after any number of bytes: what was recorded before is there.

use std::fs;
use std::path::Path;

use super::*;
use crate::load::{Layout, StoredSession, load};
use crate::message::Message;
use crate::redo;

/// Resuming touches the disk a dozen times; one kill in so many is also resumed after.
const RESUMED: usize = 19;

/// One thing that is recorded.
type Step = fn(&mut Recorder);

/// Every kind of write, and every way in which results of a batch come in.
const STEPS: [Step; 13] = [
    |recorder| drop(recorder.user(&[Part::text("pro\"mpt")], None, at(1)).unwrap()),
    |recorder| drop(recorder.reply(&reply_with(&["x"], &json!({"p": 1})), at(2)).unwrap()),
    |recorder| recorder.results(&[result("x", CallStatus::Error, "}]}")], at(3)).unwrap(),
    |recorder| drop(recorder.reply(&reply_with(&["a", "b", "c", "d"], &json!({"p": [2]})), at(4)).unwrap()),
    |recorder| recorder.results(&[result("c", CallStatus::Success, "{\"C")], at(5)).unwrap(),
    |recorder| drop(recorder.notice(Severity::Warning, "between", at(6)).unwrap()),
    |recorder| recorder.results(&[result("a", CallStatus::Success, "A")], at(7)).unwrap(),
    |recorder| {
        let both = [
            result("b", CallStatus::Cancelled, ""),
            result("d", CallStatus::Success, "D ".repeat(40).as_str()),
        ];
        recorder.results(&both, at(8)).unwrap();
    },
    |recorder| drop(recorder.user(&[Part::text("next")], None, at(9)).unwrap()),
    |recorder| drop(recorder.reply(&reply_with(&["e", "f"], &json!({"p": "3"})), at(10)).unwrap()),
    |recorder| recorder.results(&[result("f", CallStatus::Success, "F")], at(11)).unwrap(),
    |recorder| recorder.results(&[result("e", CallStatus::Error, "E")], at(12)).unwrap(),
    |recorder| drop(recorder.reply(&reply_with(&[], &json!({})), at(13)).unwrap()),
];

/// What is on the disk, read as the next process reads it.
fn read(disk: &Disk, path: &Path) -> Option<StoredSession> {
    let (bytes, aside) = {
        let state = disk.0.lock().unwrap();
        (state.bytes.clone(), state.aside.clone())
    };
    redo::discard(path);
    let _ = fs::remove_file(path);
    if bytes.is_empty() {
        return None;
    }
    fs::File::create(path).and_then(|mut file| io::Write::write_all(&mut file, &bytes)).unwrap();
    if let Some(note) = aside {
        redo::keep(path, &note);
    }
    Some(load(path).unwrap())
}

/// A message without its id, which is another in each run, and its calls one by one.
fn essence(message: &Message) -> (String, Vec<String>) {
    match message {
        Message::User(user) => (format!("{:?}", user.parts), Vec::new()),
        Message::Notice(notice) => (notice.text.clone(), Vec::new()),
        Message::Reply(reply) => {
            let calls = reply.calls.iter();
            let calls = calls.map(|call| format!("{:?} {:?} {:?}", call.id, call.args, call.result));
            (format!("{:?}", reply.parts), calls.collect())
        }
        Message::Other { .. } => panic!("{message:?}"),
    }
}

/// Whether everything in `before` is in `now`; a call without a result may have one.
fn keeps(before: &[Message], now: &[Message]) -> bool {
    before.len() <= now.len()
        && before.iter().zip(now).all(|(before, now)| {
            let ((text, calls), (text_now, calls_now)) = (essence(before), essence(now));
            let kept = |(call, now): (&String, &String)| {
                call == now || call.strip_suffix("[]").is_some_and(|open| now.starts_with(open))
            };
            text == text_now && calls.len() == calls_now.len() && calls.iter().zip(&calls_now).all(kept)
        })
}

fn check(format: SessionFormat) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session-a.json");
    // The first record is written under another name and needs no care.
    for step in 1..STEPS.len() {
        let mut known = None;
        for life in (1..80).chain((80..).step_by(11)) {
            let (mut recorder, disk) = recorder(format);
            for done in &STEPS[..step] {
                done(&mut recorder);
            }
            let before = known.get_or_insert_with(|| read(&disk, &path).unwrap().messages);
            disk.0.lock().unwrap().life = Some(life);
            STEPS[step](&mut recorder);
            let was_killed = disk.0.lock().unwrap().is_dead();
            let now = read(&disk, &path).unwrap();
            assert!(
                keeps(before, &now.messages),
                "step {step} after {life} bytes: {before:#?} is {:#?}",
                now.messages
            );
            if life % RESUMED == 0 {
                drop(Recorder::resume(&now).unwrap());
                let mended = load(&path).unwrap();
                assert_eq!(mended.messages, now.messages, "step {step} after {life} bytes");
                assert!(!redo::is_noted(&path));
            }
            if !was_killed {
                break;
            }
        }
    }
}

#[test]
fn a_document_keeps_what_was_recorded_before_the_kill() {
    check(SessionFormat::Json);
}

#[test]
fn a_record_log_keeps_what_was_recorded_before_the_kill() {
    check(SessionFormat::Jsonl);
}

#[test]
fn a_repair_that_is_cut_itself_costs_nothing() {
    let (mut recorder, disk) = recorder(SessionFormat::Json);
    STEPS.iter().for_each(|step| step(&mut recorder));
    let bytes = disk.bytes();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session-a.json");
    let put = |bytes: &[u8]| {
        let _ = fs::remove_file(&path);
        fs::File::create(&path).and_then(|mut file| io::Write::write_all(&mut file, bytes)).unwrap();
    };
    for cut in (bytes.len() / 4..bytes.len()).step_by(97) {
        let torn = &bytes[..cut];
        put(torn);
        let session = load(&path).unwrap();
        let Layout::Document { end, torn: true, .. } = session.layout else { panic!("cut at {cut}") };
        drop(Recorder::resume(&session).unwrap());
        let mended = fs::read(&path).unwrap();
        let end = usize::try_from(end).unwrap();
        let note = redo::encode(end as u64, &torn[end..], &mended[end..]);
        // The file is written over from the left, then cut to its length.
        for done in (end..=mended.len()).step_by(3) {
            put(&[&mended[..done], torn.get(done..).unwrap_or_default()].concat());
            redo::keep(&path, &note);
            assert_eq!(load(&path).unwrap().messages, session.messages, "cut at {cut}, repair at {done}");
        }
        redo::discard(&path);
    }
}
