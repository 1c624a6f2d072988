//! Session files.

use std::fs;
use std::path::Path;

use pollux_config::groups::Durability;
use pollux_domain::content::Part;
use pollux_domain::time::Timestamp;
use pollux_session::{
    Message, Problem, Recorder, StoredSession, TranscriptForm, export, history, load, repair, summarise,
    verify_file, visit_texts, write_transcript,
};

use crate::pieces::steering;
use crate::scratch;

const ADDED: &str = "added by the target";

/// Readers agree and change nothing; what they read is continued and repaired without losing a message.
pub(crate) fn files(bytes: &[u8]) {
    let ([kind], content) = steering(bytes);
    let chats = scratch::empty("chats");
    let name = if kind % 2 == 0 { "session-a.json" } else { "session-a.jsonl" };
    let path = chats.join(name);
    scratch::write(&path, content);
    let Ok(session) = load(&path) else {
        assert!(summarise(&path).is_err(), "summarised, but not read");
        assert!(!verify_file(&path).problems.is_empty(), "intact, but not read");
        assert!(repair(&path, now()).is_err(), "repaired, but not read");
        assert_eq!(fs::read(&path).unwrap(), content, "a file that cannot be read is left alone");
        return;
    };
    readers_agree(&path, &session);
    assert_eq!(fs::read(&path).unwrap(), content, "reading changes nothing");
    let changed = if kind & 2 == 0 { continued(&path, &session) } else { repaired(&path, &session) };
    let torn_at = session.repaired.and_then(|note| note.torn_at).and_then(|at| usize::try_from(at).ok());
    if let Some(torn_at) = torn_at.filter(|_| changed) {
        // The end that is cut off, if it says anything, is in a copy, and so is a file that is written again.
        let says_something = content.get(torn_at..).unwrap_or(content).contains(&b':');
        let files =
            fs::read_dir(&chats).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap_or_default());
        let is_kept =
            |bytes: Vec<u8>| !bytes.is_empty() && (content.ends_with(&bytes) || bytes.starts_with(content));
        assert!(
            !says_something || files.into_iter().any(is_kept),
            "a damaged file was changed without a copy"
        );
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_770_000_000_000)
}

fn readers_agree(path: &Path, session: &StoredSession) {
    assert_eq!(load(path).unwrap(), *session, "reading twice");
    let record = summarise(path).expect("what is read is summarised");
    assert_eq!(record.session_id, session.id);
    // Listing only matches brackets, so it counts messages and applies records that are not valid JSON.
    let problems = verify_file(path).problems;
    let is_valid = !problems.iter().any(|problem| matches!(problem, Problem::UnreadableRecords(_)))
        && is_valid_json(&fs::read(path).unwrap());
    if session.repaired.is_none() && is_valid {
        assert_eq!(record.messages, session.messages.len() as u64, "messages that are listed");
        assert!(!record.damaged, "damaged, but not for the reader");
    }
    let mut ids: Vec<String> = Vec::new();
    visit_texts(path, &mut |_, id, _, _| ids.push(id.to_owned())).expect("texts of what is read");
    let known = |id: &String| session.messages.iter().any(|message| message.id() == id);
    let is_agreed = session.repaired.is_some() || !is_valid || ids.iter().all(known);
    assert!(is_agreed, "texts of messages that are not read");
    export(path).expect("what is read is exported");
    for form in [TranscriptForm::Text, TranscriptForm::Markdown] {
        write_transcript(path, form, &mut Vec::new()).expect("a transcript of what is read");
    }
    for turn in history(session) {
        assert!(!turn.content.parts.is_empty(), "a turn without parts would be refused");
    }
}

/// Whether a text is JSON as a whole or line by line.
fn is_valid_json(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    is_json(text.trim_start_matches('\u{feff}')) || lines.all(is_json)
}

/// Every message is still there, in its order, and the new one is the last. Returns whether the file was continued.
fn continued(path: &Path, before: &StoredSession) -> bool {
    let Ok(mut recorder) = Recorder::resume(before) else { return false };
    recorder.set_durability(Durability::Process);
    if recorder.user(&[Part::text(ADDED)], None, now()).is_err() {
        return true;
    }
    drop(recorder);
    let after = load(path).expect("a continued session is read");
    let (last, earlier) = after.messages.split_last().expect("the new message");
    assert!(matches!(last, Message::User(_)), "{last:?}");
    assert_eq!(earlier, before.messages, "messages before the new one");
    assert_eq!(after.id, before.id);
    assert!(summarise(path).is_ok());
    true
}

/// No message is lost, nothing repairable is left, and a second repair does nothing.
fn repaired(path: &Path, before: &StoredSession) -> bool {
    let Ok(done) = repair(path, now()) else { return false };
    let after = load(path).expect("a repaired session is read");
    assert_eq!(after.messages.len(), before.messages.len(), "messages after a repair");
    let left: Vec<&Problem> = done.left.iter().filter(|problem| problem.is_repairable()).collect();
    assert!(left.is_empty(), "{left:?} after a repair");
    assert_eq!(repair(path, now()).expect("again").backup, None, "a second repair");
    done.backup.is_some()
}
