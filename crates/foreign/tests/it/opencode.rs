//! OpenCode's stores.

use std::fs;
use std::path::Path;

use pollux_domain::time::Timestamp;
use pollux_foreign::ForeignAgent;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::scratch::Scratch;

const CONVERSATION: [&str; 5] = [
    "user: rename it",
    "agent: Renaming.",
    "edit /a.rs failed (not found)",
    "bash ls ok",
    "error: too many requests",
];

fn session() -> Value {
    json!({"id": "ses_1", "version": "1.0.0", "projectID": "p", "directory": "/home/me/app", "title": "A rename",
           "time": {"created": 1_772_359_200_000_u64, "updated": 1_772_359_300_000_u64}})
}

fn user() -> Value {
    json!({"role": "user", "time": {"created": 1_772_359_201_000_u64}})
}

fn agent() -> Value {
    json!({"role": "assistant", "time": {"created": 1_772_359_202_000_u64}, "modelID": "some-model",
           "path": {"cwd": "/home/me/app", "root": "/"},
           "error": {"name": "APIError", "data": {"message": "too many requests", "isRetryable": true}}})
}

fn parts() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("msg_1", "prt_1", json!({"type": "text", "text": "rename it"})),
        ("msg_1", "prt_2", json!({"type": "text", "text": "contents of a file", "synthetic": true})),
        ("msg_2", "prt_3", json!({"type": "step-start"})),
        ("msg_2", "prt_4", json!({"type": "reasoning", "text": "hm"})),
        ("msg_2", "prt_5", json!({"type": "text", "text": "Renaming."})),
        (
            "msg_2",
            "prt_6",
            json!({"type": "tool", "callID": "c1", "tool": "edit", "state":
            {"status": "error", "input": {"filePath": "/a.rs", "newString": "x"}, "error": "not found"}}),
        ),
        (
            "msg_2",
            "prt_7",
            json!({"type": "tool", "callID": "c2", "tool": "bash", "state":
            {"status": "completed", "input": {"command": "ls"}, "output": "a.rs", "title": "ls"}}),
        ),
    ]
}

fn write_files(scratch: &Scratch) {
    scratch.write("storage/session/p/ses_1.json", session().to_string());
    scratch.write("storage/message/ses_1/msg_1.json", user().to_string());
    scratch.write("storage/message/ses_1/msg_2.json", agent().to_string());
    for (message, part, data) in parts() {
        scratch.write(&format!("storage/part/{message}/{part}.json"), data.to_string());
    }
}

fn database(scratch: &Scratch) -> Connection {
    let connection = Connection::open(scratch.path("opencode.db")).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT,
                title TEXT, version TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
             CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
             CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
                time_updated INTEGER, data TEXT);
             CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER,
                time_created INTEGER, time_updated INTEGER, data TEXT);
             INSERT INTO session VALUES ('ses_1', 'p', NULL, 's', '/home/me/app', 'A rename', '1.2.0', NULL,
                1772359200000, 1772359300000);",
        )
        .unwrap();
    connection
}

fn fill(connection: &Connection) {
    for (id, data, time) in [("msg_1", user(), 1), ("msg_2", agent(), 2)] {
        connection
            .execute(
                "INSERT INTO message VALUES (?1, 'ses_1', ?2, ?2, ?3)",
                params![id, time, data.to_string()],
            )
            .unwrap();
    }
    for (message, part, data) in parts() {
        connection
            .execute(
                "INSERT INTO part VALUES (?1, ?2, 'ses_1', 1, 1, ?3)",
                params![part, message, data.to_string()],
            )
            .unwrap();
    }
}

fn check(scratch: &Scratch) {
    let session = scratch.session();
    assert_eq!((session.id.as_str(), session.title.as_deref()), ("ses_1", Some("A rename")));
    assert_eq!(session.project.as_deref(), Some(Path::new("/home/me/app")));
    assert_eq!(session.start, Timestamp::from_millis(1_772_359_200_000));
    assert_eq!(session.updated, Timestamp::from_millis(1_772_359_300_000));
    assert_eq!((session.user_messages, session.tool_calls, session.errors), (1, 2, 2));
    assert_eq!(session.models, ["some-model"]);
    assert_eq!(scratch.conversation(), CONVERSATION);
}

fn names(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir(&scratch.store.root).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn half_of_a_surrogate_pair_costs_one_character() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    write_files(&scratch);
    let text = r#"{"type":"text","text":"rename it\ud83d"}"#;
    scratch.write("storage/part/msg_1/prt_1.json", text);
    assert_eq!(scratch.conversation()[0], "user: rename it\u{fffd}");
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    let connection = database(&scratch);
    fill(&connection);
    connection.execute("UPDATE part SET data = ?1 WHERE id = 'prt_1'", [text]).unwrap();
    assert_eq!(scratch.conversation()[0], "user: rename it\u{fffd}");
}

#[test]
fn sessions_in_files_are_read() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    write_files(&scratch);
    check(&scratch);
}

#[test]
fn a_reply_that_arrives_changes_the_stamp() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    write_files(&scratch);
    let before = scratch.entry().stamp;
    scratch.write("storage/message/ses_1/msg_3.json", json!({"role": "assistant", "parts": []}).to_string());
    assert_ne!(scratch.entry().stamp, before);
}

#[test]
fn the_first_layout_with_parts_in_messages_is_read() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    let base = "project/home-me-app/storage/session";
    scratch.write(
        &format!("{base}/info/ses_1.json"),
        json!({"id": "ses_1", "title": "Old", "time": {"created": 5, "updated": 6}}).to_string(),
    );
    let message = |role: &str, parts: Value| json!({"id": "m", "role": role, "parts": parts, "metadata": {"time": {"created": 5}}});
    scratch.write(
        &format!("{base}/message/ses_1/msg_1.json"),
        message("user", json!([{"type": "text", "text": "hi"}])).to_string(),
    );
    let invocation = json!({"type": "tool-invocation", "toolInvocation":
        {"state": "result", "toolCallId": "c", "toolName": "bash", "args": {"command": "ls"}, "result": "a"}});
    scratch.write(
        &format!("{base}/message/ses_1/msg_2.json"),
        message("assistant", json!([invocation])).to_string(),
    );
    scratch.write(
        &format!("{base}/part/ses_1/msg_2/prt_1.json"),
        json!({"type": "text", "text": "Hello."}).to_string(),
    );
    assert_eq!(scratch.conversation(), ["user: hi", "agent: Hello.", "bash ls ok"]);
    assert_eq!(scratch.session().title.as_deref(), Some("Old"));
}

#[test]
fn a_closed_database_is_read_without_leaving_files() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    let connection = database(&scratch);
    fill(&connection);
    connection.close().unwrap();
    assert_eq!(names(&scratch), ["opencode.db"]);
    check(&scratch);
    assert_eq!(names(&scratch), ["opencode.db"]);
}

#[test]
fn a_database_in_use_is_read_including_its_write_ahead_log() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    let connection = database(&scratch);
    fill(&connection);
    let before = names(&scratch);
    check(&scratch);
    assert_eq!(names(&scratch), before);
    drop(connection);
}

#[test]
fn the_write_ahead_log_of_a_crashed_program_is_read_from_a_copy() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    let live = Scratch::new(ForeignAgent::OpenCode);
    let connection = database(&live);
    fill(&connection);
    for name in ["opencode.db", "opencode.db-wal"] {
        scratch.write(name, fs::read(live.path(name)).unwrap());
    }
    check(&scratch);
    assert_eq!(names(&scratch), ["opencode.db", "opencode.db-wal"]);
    drop(connection);
}

#[test]
fn messages_of_the_newest_form_are_read() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    let connection = database(&scratch);
    let rows = [
        ("msg_1", "user", json!({"text": "rename it", "time": {"created": 5}})),
        ("msg_2", "model-switched", json!({"model": {"id": "m"}})),
        (
            "msg_3",
            "assistant",
            json!({"content": [
            {"type": "text", "id": "t", "text": "Renaming."},
            {"type": "tool", "id": "c1", "name": "edit", "state": {"status": "error", "input": {"filePath": "/a.rs"},
                "error": {"type": "unknown", "message": "not found"}}}]}),
        ),
        ("msg_4", "shell", json!({"callID": "c2", "command": "ls", "output": "a.rs"})),
    ];
    for (seq, (id, kind, data)) in rows.iter().enumerate() {
        let data = data.to_string();
        connection
            .execute(
                "INSERT INTO session_message VALUES (?1, 'ses_1', ?2, ?3, 5, 5, ?4)",
                params![id, kind, seq as i64, data],
            )
            .unwrap();
    }
    connection.close().unwrap();
    assert_eq!(
        scratch.conversation(),
        ["user: rename it", "agent: Renaming.", "edit /a.rs failed (not found)", "shell ls ok"]
    );
}

#[test]
fn reverted_messages_are_hidden_and_sub_agents_recognised() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    let connection = database(&scratch);
    fill(&connection);
    connection
        .execute(
            "UPDATE session SET revert = ?1, parent_id = 'ses_0'",
            [json!({"messageID": "msg_2"}).to_string()],
        )
        .unwrap();
    connection.close().unwrap();
    assert_eq!(scratch.conversation(), ["user: rename it"]);
    let session = scratch.session();
    assert_eq!((session.is_subagent, session.parent.as_deref()), (true, Some("ses_0")));
}

#[test]
fn a_session_in_the_database_hides_its_old_files() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    write_files(&scratch);
    let connection = database(&scratch);
    fill(&connection);
    connection.close().unwrap();
    check(&scratch);
    assert!(scratch.entry().within.is_some());
}

#[test]
fn an_invalid_database_does_not_hide_the_files() {
    let scratch = Scratch::new(ForeignAgent::OpenCode);
    write_files(&scratch);
    scratch.write("opencode.db", "this is no database");
    check(&scratch);
}
