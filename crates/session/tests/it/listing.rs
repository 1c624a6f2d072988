//! Listing, selecting and deleting.

use std::fs;

use pollux_domain::event::Severity;
use pollux_domain::id::SessionId;
use pollux_session::{
    DeleteError, Listing, Recorder, SelectError, SessionFormat, delete, exists, list, list_text, load, select,
};

use crate::scratch::{Scratch, at, put, reply, text};

const PRETTY: &str = include_str!("../fixtures/pretty.json");
const RECORD_LOG: &str = include_str!("../fixtures/record-log.jsonl");

fn record(scratch: &Scratch, id: &str, seconds: i64, words: &str) {
    let mut recorder = scratch.recorder(id, SessionFormat::Json, seconds);
    recorder.user(&text(words), None, at(seconds)).unwrap();
    recorder.reply(&reply("ok", Vec::new()), at(seconds + 1)).unwrap();
}

#[test]
fn the_list_reads_as_upstreams() {
    let scratch = Scratch::new();
    assert_eq!(
        list_text(&list(&scratch.dirs(), at(0)), at(0)),
        "No previous sessions found for this project."
    );
    record(&scratch, "bbbbbbbb-2", 3600, "größe\n  der Datei?");
    record(&scratch, "aaaaaaaa-1", 0, &"x".repeat(150));
    scratch.put("session-old.json", PRETTY);
    let now = at(2 * 3600);
    let listing = list(&scratch.dirs(), now);
    assert_eq!(
        list_text(&listing, now),
        format!(
            "\nAvailable sessions for this project (3):\n\
             \x20 1. TypeScript set-up (5 days ago) [a82545c4-4f3f-4c3d-8b12-0a580eae4df4]\n\
             \x20 2. {}... (1 hour ago) [aaaaaaaa-1]\n\
             \x20 3. größe der Datei? (59 minutes ago) [bbbbbbbb-2]\n",
            "x".repeat(97)
        )
    );
    assert_eq!(listing.sessions[0].first_user_message, "Help me configure TypeScript");
}

#[test]
fn only_sessions_worth_resuming_are_listed_and_nothing_is_written() {
    let scratch = Scratch::new();
    let mut silent = scratch.recorder("cccccccc", SessionFormat::Json, 0);
    silent.user(&text("<session_context>env</session_context>"), None, at(0)).unwrap();
    silent.user(&text("/help"), None, at(0)).unwrap();
    silent.notice(Severity::Info, "hi", at(0)).unwrap();
    drop(silent);
    let mut late = scratch.recorder("dddddddd", SessionFormat::Json, 0);
    late.user(&text("<session_context>env</session_context>"), None, at(0)).unwrap();
    late.user(&text(&"long ".repeat(5000)), None, at(0)).unwrap();
    drop(late);
    let mut commanded = scratch.recorder("eeeeeeee", SessionFormat::Json, 60);
    commanded.user(&text("/review"), None, at(0)).unwrap();
    commanded.reply(&reply("fine", Vec::new()), at(0)).unwrap();
    drop(commanded);
    scratch.put("session-agent.jsonl", RECORD_LOG.replace("\"main\"", "\"subagent\""));
    scratch.put("session-empty.json", "");
    scratch.put("session-binary.json", b"\x00\x01");
    scratch.put("notes.json", "{}");
    fs::create_dir_all(scratch.chats().join("session-folder.json")).unwrap();
    let before = scratch.names();
    let listing = list(&scratch.dirs(), at(100));
    let ids: Vec<&str> = listing.sessions.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(ids, ["dddddddd", "eeeeeeee"]);
    let first = &listing.sessions[0].first_user_message;
    assert!(first.starts_with("long long") && first.ends_with("...") && first.len() < 1010, "{first}");
    assert_eq!(listing.sessions[1].title, "/review");
    assert_eq!(listing.unreadable.len(), 3, "{:?}", listing.unreadable);
    assert!(listing.unreadable[1].1.contains("is empty"), "{:?}", listing.unreadable);
    assert_eq!(scratch.names(), before);
}

#[test]
fn of_our_own_files_only_the_beginning_is_read() {
    let scratch = Scratch::new();
    record(&scratch, "aaaaaaaa-1", 0, "one");
    let name = scratch.names().remove(0);
    let mut bytes = fs::read(scratch.chats().join(&name)).unwrap();
    let whole = list(&scratch.dirs(), at(0)).sessions;
    let second = bytes.windows(9).rposition(|window| window == b"\n    {\"id").unwrap();
    bytes.truncate(second + 9);
    bytes.extend_from_slice(&[0xff; 10_000]);
    scratch.put(&name, bytes);
    let listing = list(&scratch.dirs(), at(0));
    assert_eq!((listing.sessions, listing.unreadable), (whole, Vec::new()));
}

#[test]
fn of_two_files_with_one_id_the_one_updated_later_is_listed() {
    let scratch = Scratch::new();
    let other = scratch.temp().join("other");
    fs::create_dir_all(&other).unwrap();
    scratch.put("session-7c.jsonl", RECORD_LOG);
    // What upstream leaves after a resume: the same id, later, with nothing in it.
    let stub = r#"{"sessionId":"7c","projectHash":"e1","startTime":"2026-01-02T03:04:05.006Z","lastUpdated":"2027-01-01T00:00:00.000Z","kind":"main"}"#;
    scratch.put("session-7c-stub.jsonl", stub);
    put(&other.join("session-7c.json"), RECORD_LOG.replace("03:05:00.000Z", "03:06:00.000Z"));
    let dirs = [scratch.chats(), other.clone(), scratch.chats()];
    let listing = list(&dirs, at(0));
    assert_eq!(listing.sessions.len(), 1);
    assert_eq!(listing.sessions[0].path, other.join("session-7c.json"));
}

#[test]
fn a_session_is_selected_by_age_id_or_number() {
    let scratch = Scratch::new();
    record(&scratch, "aaaaaaaa-1", 0, "one");
    record(&scratch, "bbbbbbbb-2", 60, "two");
    record(&scratch, "2", 120, "three");
    let listing = list(&scratch.dirs(), at(0));
    let path = listing.sessions[0].path.clone();
    let mut recorder = pollux_session::Recorder::resume(&load(&path).unwrap()).unwrap();
    recorder.user(&text("later"), None, at(999)).unwrap();
    let listing = list(&scratch.dirs(), at(1000));
    let id = |given: &str| select(&listing, given).map(|found| found.id.as_str().to_owned());
    assert_eq!(id("latest").unwrap(), "aaaaaaaa-1");
    assert_eq!(id("").unwrap(), "aaaaaaaa-1");
    assert_eq!(id("3").unwrap(), "2");
    assert_eq!(id(" 1 ").unwrap(), "aaaaaaaa-1");
    // An id wins over a number.
    assert_eq!(id("2").unwrap(), "2");
    assert_eq!(id("bbbbbbbb-2").unwrap(), "bbbbbbbb-2");
    // The beginning of an id is enough if it is long enough and only one fits.
    assert_eq!(id("bbbbbbbb").unwrap(), "bbbbbbbb-2");
    assert_eq!(id("aaaa").unwrap(), "aaaaaaaa-1");
    for wrong in ["0", "4", "2abc", "+1", "01", "bbb", "-1", "99999999999999999999", "bbbbbbbb-3"] {
        assert_eq!(
            id(wrong).unwrap_err().to_string(),
            format!(
                "Invalid session identifier \"{wrong}\".\n  Searched the 3 sessions of this project.\n  Use \
                 --list-sessions to see available sessions, then use --resume {{number}}, --resume {{uuid}}, or \
                 --resume latest."
            )
        );
    }
    assert_eq!(select(&Listing::default(), "latest"), Err(SelectError::NoSessions));
    assert!(exists(&scratch.dirs(), &SessionId::from_file("bbbbbbbb-2")));
    assert!(!exists(&scratch.dirs(), &SessionId::from_file("bbbbbbbb")));
    record(&scratch, "bbbbbbbb-3", 180, "four");
    let listing = list(&scratch.dirs(), at(1000));
    assert_eq!(
        select(&listing, "bbbbbbbb").unwrap_err().to_string(),
        "Session identifier \"bbbbbbbb\" matches several sessions: bbbbbbbb-2, bbbbbbbb-3. Use a longer prefix of the id."
    );
}

#[test]
fn deleting_takes_the_session_with_what_belongs_to_it_and_nothing_else() {
    let scratch = Scratch::new();
    record(&scratch, "12345678-a", 0, "one");
    record(&scratch, "12345678-b", 0, "two");
    scratch.put("session-copy-12345678.jsonl", RECORD_LOG.replace("\"7c\"", "\"12345678-a\""));
    let temp = scratch.temp();
    for folder in [
        "chats/12345678-a",
        "logs",
        "tool-outputs/session-12345678-a",
        "tool-outputs/session-agent-1",
        "tool-outputs/session-12345678-b",
        "12345678-a/plans",
        "agent-1",
        "12345678-b",
    ] {
        fs::create_dir_all(temp.join(folder)).unwrap();
    }
    for file in
        ["chats/12345678-a/agent-1.jsonl", "logs/session-12345678-a.jsonl", "logs/session-12345678-b.jsonl"]
    {
        put(&temp.join(file), "x");
    }
    let listing = list(&scratch.dirs(), at(5));
    assert_eq!(listing.sessions.len(), 2);
    let told = delete(&listing, &scratch.dirs(), "12345678-a", None, at(5)).unwrap();
    let index = listing.sessions.iter().position(|session| session.id.as_str() == "12345678-a").unwrap() + 1;
    assert!(told.starts_with(&format!("Deleted session {index}: ")), "{told}");
    let left = list(&scratch.dirs(), at(5));
    assert_eq!(left.sessions.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["12345678-b"]);
    assert_eq!(scratch.names().len(), 1, "{:?}", scratch.names());
    for gone in [
        "12345678-a",
        "agent-1",
        "logs/session-12345678-a.jsonl",
        "tool-outputs/session-12345678-a",
        "tool-outputs/session-agent-1",
    ] {
        assert!(!temp.join(gone).exists(), "{gone}");
    }
    for kept in ["12345678-b", "logs/session-12345678-b.jsonl", "tool-outputs/session-12345678-b"] {
        assert!(temp.join(kept).exists(), "{kept}");
    }
}

#[test]
fn deleting_by_number_says_what_was_deleted() {
    let scratch = Scratch::new();
    record(&scratch, "aaaaaaaa-1", 0, "first words");
    let listing = list(&scratch.dirs(), at(5));
    let told = delete(&listing, &scratch.dirs(), "1", None, at(5)).unwrap();
    assert_eq!(told, "Deleted session 1: first words (Just now)");
    assert!(scratch.names().is_empty());
}

#[test]
fn deleting_is_refused_with_upstreams_words() {
    let scratch = Scratch::new();
    let dirs = scratch.dirs();
    let refusal = |listing: &Listing, given: &str, current: Option<&SessionId>| {
        delete(listing, &dirs, given, current, at(5)).unwrap_err().to_string()
    };
    assert_eq!(refusal(&Listing::default(), "1", None), "No sessions found for this project.");
    record(&scratch, "aaaaaaaa-1", 0, "one");
    let listing = list(&dirs, at(5));
    assert_eq!(
        refusal(&listing, "2abc", None),
        "Invalid session identifier \"2abc\". Use --list-sessions to see available sessions."
    );
    let current = SessionId::from_file("aaaaaaaa-1");
    assert_eq!(refusal(&listing, "1", Some(&current)), "Cannot delete the current active session.");
    let recorder = pollux_session::Recorder::resume(&load(&listing.sessions[0].path).unwrap()).unwrap();
    let error = delete(&listing, &dirs, "1", None, at(5)).unwrap_err();
    assert!(
        matches!(error, DeleteError::InUse { ref holder, .. } if holder.pid == std::process::id()),
        "{error}"
    );
    drop(recorder);
    assert_eq!(list(&dirs, at(5)).sessions.len(), 1);
}

#[test]
fn deleting_a_session_keeps_what_another_one_of_the_same_names_may_own() {
    let scratch = Scratch::new();
    let dirs = scratch.dirs();
    for (id, seconds) in [("team/one", 0), ("team_one", 60)] {
        record(&scratch, id, seconds, id);
    }
    let subagents = scratch.chats().join("team_one");
    fs::create_dir_all(&subagents).unwrap();
    fs::create_dir_all(scratch.temp().join("team_one/plans")).unwrap();
    put(&subagents.join("child.json"), r#"{"sessionId":"child","kind":"subagent","messages":[]}"#);
    for (id, stays) in [("team/one", true), ("team_one", false)] {
        delete(&list(&dirs, at(90)), &dirs, id, None, at(90)).unwrap();
        assert_eq!(subagents.join("child.json").exists(), stays, "{id}");
        assert_eq!(scratch.temp().join("team_one/plans").exists(), stays, "{id}");
    }
    assert!(scratch.names().is_empty());
}

#[test]
fn deleting_a_session_of_another_machine_says_how_to_go_on() {
    let scratch = Scratch::new();
    record(&scratch, "aaaaaaaa-1", 0, "one");
    let listing = list(&scratch.dirs(), at(5));
    let path = &listing.sessions[0].path;
    let name = path.file_name().unwrap().to_string_lossy();
    let lock = scratch.put(&format!(".{name}.lock"), r#"{"pid":7,"host":"elsewhere.example"}"#);
    let error = delete(&listing, &scratch.dirs(), "1", None, at(5)).unwrap_err().to_string();
    let told = format!(
        "Failed to delete session: `{}` is in use by process 7 on `elsewhere.example` (if it is no longer running, \
         delete `{}`)",
        path.display(),
        lock.display()
    );
    assert_eq!(error, told);
}

#[test]
fn a_folder_that_cannot_be_listed_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    record(&scratch, "aaaaaaaa-1", 0, "one");
    let mode = |mode| fs::set_permissions(scratch.chats(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o000);
    let is_denied = fs::read_dir(scratch.chats()).is_err();
    let listing = list(&scratch.dirs(), at(5));
    mode(0o700);
    // Nothing is denied to root.
    if is_denied {
        let [(folder, reason)] = listing.unreadable.as_slice() else { panic!("{:?}", listing.unreadable) };
        assert_eq!(*folder, scratch.chats());
        let told = format!("could not list the sessions in `{}`: Permission denied", folder.display());
        assert!(reason.starts_with(&told), "{reason}");
    }
    let missing = list(&[scratch.temp().join("none"), scratch.chats().join("none/below")], at(5));
    assert!(missing.unreadable.is_empty(), "{:?}", missing.unreadable);
}

#[test]
fn an_id_that_names_a_shared_folder_or_a_way_out_deletes_no_more_than_its_file() {
    let shared = ["chats", "LOGS", "memory", "rewind", "checkpoints"];
    for id in shared.into_iter().chain(["..", "../../x"]) {
        let scratch = Scratch::new();
        record(&scratch, "other-one", 0, "stays");
        // Such a session may be there from an earlier release.
        let text =
            format!("{{\"sessionId\":\"{id}\",\"messages\":[{{\"type\":\"user\",\"content\":\"goes\"}}]}}");
        let path = scratch.put("session-2026-02-02T02-41-earlier.json", text);
        for folder in ["logs", "memory/plans", "rewind/plans", "checkpoints/tasks"] {
            fs::create_dir_all(scratch.temp().join(folder)).unwrap();
        }
        let listing = list(&scratch.dirs(), at(90));
        drop(Recorder::resume(&load(&path).unwrap()).unwrap());
        delete(&listing, &scratch.dirs(), id, None, at(90)).unwrap();
        assert_eq!(list(&scratch.dirs(), at(90)).sessions.len(), 1, "{id}");
        for folder in ["logs", "memory/plans", "rewind/plans", "checkpoints/tasks"] {
            assert!(scratch.temp().join(folder).exists(), "{id}: {folder}");
        }
    }
}

#[test]
fn no_new_session_gets_an_id_that_names_files_of_the_project() {
    let scratch = Scratch::new();
    for id in ["memory", "Rewind", "shell_history"] {
        let refused = Recorder::create(scratch.spec(id, SessionFormat::Json, 0)).unwrap_err().to_string();
        let told = format!("session ID \"{id}\" is reserved for files of the project; choose another one");
        assert_eq!(refused, told);
    }
}
