//! Other programs that delete, replace or change a session file while it is recorded.

#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::path::Path;

use super::*;
use crate::load::{StoredSession, load};
use crate::lock::used_by;
use crate::message::StoredStatus;
use crate::{delete, list};

const FORMATS: [SessionFormat; 2] = [SessionFormat::Json, SessionFormat::Jsonl];

/// What a program makes of a file.
type InPlace = fn(&[u8]) -> Vec<u8>;

/// A session with a prompt, and a reply whose calls wait for their results.
fn begun(folder: &Path, format: SessionFormat, id: &str) -> (Recorder, PathBuf) {
    let spec = NewSession { id: SessionId::from_file(id), ..NewSession::of_test(folder, format, at(0)) };
    let mut recorder = Recorder::create(spec).unwrap();
    recorder.set_durability(Durability::Power);
    recorder.user(&[Part::text("one")], None, at(0)).unwrap();
    recorder.reply(&reply_with(&["a", "b"], &json!({"p": 1})), at(1)).unwrap();
    recorder.notice(Severity::Info, "between", at(1)).unwrap();
    let path = recorder.path().unwrap().to_owned();
    (recorder, path)
}

/// Records the results and another prompt.
fn go_on(recorder: &mut Recorder) {
    recorder.results(&[result("a", CallStatus::Success, "A")], at(2)).unwrap();
    recorder.results(&[result("b", CallStatus::Error, "B")], at(3)).unwrap();
    recorder.user(&[Part::text("two")], None, at(4)).unwrap();
}

/// Whether everything is there, apart from the first prompt if another program has removed it.
fn check(session: &StoredSession, has_prompt: bool) {
    assert!(session.repaired.is_none(), "{:?}", session.repaired);
    let all = format!("{:?}", session.messages);
    assert_eq!(all.contains("\"one\""), has_prompt, "{all}");
    assert!(all.contains("\"two\""), "{all}");
    let reply = session.messages.iter().find_map(|message| match message {
        Message::Reply(reply) => Some(reply),
        _ => None,
    });
    let statuses: Vec<StoredStatus> = reply.unwrap().calls.iter().map(|call| call.status).collect();
    let ended = [CallStatus::Success, CallStatus::Error].map(StoredStatus::Ended);
    assert_eq!(statuses, ended, "{all}");
}

fn sessions(folder: &Path) -> Vec<PathBuf> {
    crate::session_files(&[folder.to_owned()])
}

#[test]
fn a_deleted_file_is_written_again_under_its_name() {
    for format in FORMATS {
        for with_folder in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let chats = dir.path().join("chats");
            let (mut recorder, path) = begun(&chats, format, "deleted-1");
            if with_folder {
                fs::remove_dir_all(&chats).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            go_on(&mut recorder);
            assert_eq!(recorder.path(), Some(&*path));
            assert_eq!(used_by(&path), Some(std::process::id()));
            let event = recorder.take_event().unwrap();
            assert_eq!(event, RecorderEvent::Restored { path: path.clone(), is_complete: true });
            assert_eq!(recorder.take_event(), None);
            recorder.finish().unwrap();
            let stored = load(&path).unwrap();
            check(&stored, true);
            assert_eq!(stored.id.as_str(), "deleted-1");
            drop(recorder);
            let names: Vec<_> =
                fs::read_dir(&chats).unwrap().flatten().map(|entry| entry.file_name()).collect();
            assert_eq!(names, [path.file_name().unwrap()]);
            Recorder::resume(&stored).unwrap().user(&[Part::text("three")], None, at(5)).unwrap();
            assert_eq!(load(&path).unwrap().messages.len(), stored.messages.len() + 1);
        }
    }
}

#[test]
fn damage_before_the_id_costs_no_message_behind_it() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let (mut recorder, path) = begun(dir.path(), format, "damaged-1");
        let mut bytes = fs::read(&path).unwrap();
        let id = memchr::memmem::find(&bytes, b"sessionId").unwrap();
        bytes[..=id].fill(0);
        bytes.push(b'\n');
        fs::write(&path, bytes).unwrap();
        go_on(&mut recorder);
        assert!(matches!(recorder.take_event(), Some(RecorderEvent::Continued { .. })), "{format:?}");
        let path = recorder.path().unwrap().to_owned();
        let all = format!("{:?}", load(&path).unwrap().messages);
        assert!(
            all.contains("\"one\"") && all.contains("\"two\"") && all.contains("between"),
            "{format:?}: {all}"
        );
    }
}

#[test]
fn a_file_that_is_deleted_after_the_last_record_is_back_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let (mut recorder, path) = begun(dir.path(), SessionFormat::Json, "deleted-1");
    go_on(&mut recorder);
    fs::remove_file(&path).unwrap();
    recorder.finish().unwrap();
    assert!(matches!(recorder.take_event(), Some(RecorderEvent::Restored { .. })));
    drop(recorder);
    let stored = load(&path).unwrap();
    check(&stored, true);
    // Only opened, not recorded to: deleting it is what the user wants.
    let recorder = Recorder::resume(&stored).unwrap();
    fs::remove_file(&path).unwrap();
    recorder.finish().unwrap();
    assert!(!path.exists());
}

#[test]
fn an_exact_copy_at_the_path_is_continued_silently() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let (mut recorder, path) = begun(dir.path(), format, "copied-1");
        for _ in 0..2 {
            let copy = dir.path().join("copy");
            fs::copy(&path, &copy).unwrap();
            fs::rename(&copy, &path).unwrap();
            recorder.notice(Severity::Info, "next", at(2)).unwrap();
        }
        go_on(&mut recorder);
        recorder.finish().unwrap();
        assert_eq!((recorder.take_event(), recorder.session().as_str()), (None, "copied-1"));
        check(&load(&path).unwrap(), true);
        assert_eq!(sessions(dir.path()).len(), 1);
    }
}

#[test]
fn a_session_whose_file_was_replaced_continues_in_a_new_file_with_a_new_id() {
    for format in FORMATS {
        // Shorter and longer ids than the new one.
        for id in ["short", "a-long-id-that-has-more-letters-than-a-random-one-has"] {
            let dir = tempfile::tempdir().unwrap();
            let chats = dir.path().join("chats");
            let (mut recorder, path) = begun(&chats, format, id);
            let other = chats.join("other");
            let text = fs::read_to_string(&path).unwrap().replace("between", "BETWEEN");
            fs::write(&other, &text).unwrap();
            fs::rename(&other, &path).unwrap();
            go_on(&mut recorder);
            recorder.title_writer().set("a title").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "the other program's file is left alone");
            let new = recorder.path().unwrap().to_owned();
            let stored = load(&new).unwrap();
            check(&stored, true);
            assert_eq!((&stored.id, stored.summary.as_deref()), (recorder.session(), Some("a title")));
            assert_ne!(stored.id.as_str(), id);
            let continued = RecorderEvent::Continued {
                from: path.clone(),
                path: new.clone(),
                id: stored.id.clone(),
                is_complete: true,
            };
            assert_eq!(recorder.take_event(), Some(continued));
            assert_eq!(recorder.take_event(), None);
            drop(recorder);
            let dirs = [chats.clone()];
            let listing = list(&dirs, at(9));
            assert_eq!(listing.sessions.len(), 2, "{listing:?}");
            delete(&listing, &dirs, id, None, at(9)).unwrap();
            assert!(!path.exists());
            check(&load(&new).unwrap(), true);
        }
    }
}

#[test]
fn a_file_that_was_changed_in_place_is_left_alone_and_nothing_readable_is_lost() {
    for format in FORMATS {
        let changes: [(InPlace, bool); 4] = [
            (|old| [old, b"{\"more\": 1}\n"].concat(), true),
            (|old| old[..old.len() - 30].to_vec(), true),
            (|_| Vec::new(), false),
            (|_| b"not a session, but quite a long text ".repeat(100), false),
        ];
        for (change, has_prompt) in changes {
            let dir = tempfile::tempdir().unwrap();
            let (mut recorder, path) = begun(dir.path(), format, "changed-1");
            let changed = change(&fs::read(&path).unwrap());
            fs::write(&path, &changed).unwrap();
            go_on(&mut recorder);
            recorder.finish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), changed);
            assert!(matches!(recorder.take_event(), Some(RecorderEvent::Continued { .. })));
            check(&load(recorder.path().unwrap()).unwrap(), has_prompt);
        }
    }
}

#[test]
fn a_full_disk_delays_the_move_to_another_file() {
    let dir = tempfile::tempdir().unwrap();
    let chats = dir.path().join("chats");
    let (mut recorder, path) = begun(&chats, SessionFormat::Json, "moved-1");
    fs::remove_dir_all(&chats).unwrap();
    fs::write(&chats, "in the way").unwrap();
    recorder.results(&[result("a", CallStatus::Success, "A")], at(2)).unwrap_err();
    recorder.results(&[result("b", CallStatus::Error, "B")], at(2)).unwrap();
    fs::remove_file(&chats).unwrap();
    recorder.user(&[Part::text("two")], None, at(3)).unwrap();
    check(&load(&path).unwrap(), true);
}

#[test]
fn a_foreign_file_that_goes_before_its_first_new_message_is_kept() {
    let foreign = include_bytes!("../../../tests/fixtures/pretty.json");
    for is_deleted in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session-x.json");
        files::replace(&path, foreign, Mode::Private).unwrap();
        let stored = load(&path).unwrap();
        let mut recorder = Recorder::resume(&stored).unwrap();
        fs::remove_file(&path).unwrap();
        if !is_deleted {
            fs::write(&path, "{}").unwrap();
        }
        recorder.user(&[Part::text("more")], None, at(1)).unwrap();
        let event = recorder.take_event();
        assert!(matches!(event, Some(RecorderEvent::Restored { .. })) == is_deleted, "{event:?}");
        let now = load(recorder.path().unwrap()).unwrap();
        assert_eq!(now.messages[..stored.messages.len()], stored.messages);
        assert!(format!("{:?}", now.messages.last()).contains("more") || !is_deleted);
        assert_eq!(now.id == stored.id, is_deleted);
        assert!(is_deleted || fs::read(&path).unwrap() == b"{}");
    }
}

#[test]
fn a_title_for_a_file_that_was_replaced_comes_with_the_next_message() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let (mut recorder, path) = begun(dir.path(), format, "titled-1");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "{}").unwrap();
        recorder.title_writer().set("a title").unwrap();
        recorder.user(&[Part::text("two")], None, at(2)).unwrap();
        let stored = load(recorder.path().unwrap()).unwrap();
        assert_eq!(stored.summary.as_deref(), Some("a title"));
        assert_eq!(fs::read(&path).unwrap(), b"{}");
    }
}

#[test]
fn the_end_of_a_session_that_was_only_opened_leaves_a_foreign_file_unchanged() {
    let foreign = include_bytes!("../../../tests/fixtures/pretty.json");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session-x.json");
    files::replace(&path, foreign, Mode::Private).unwrap();
    let recorder = Recorder::resume(&load(&path).unwrap()).unwrap();
    recorder.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), foreign);
}
