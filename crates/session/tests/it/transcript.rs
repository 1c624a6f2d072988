//! Transcripts, and every odd thing that a file may hold.

#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::path::Path;

use pollux_config::paths::{Home, sha256_hex};
use pollux_session::{
    SelectError, TranscriptForm, known_projects, list_projects, load, select_anywhere, subagents, summarise,
    write_transcript,
};
use serde_json::{Value, json};

use crate::scratch::{Scratch, at};

fn transcript(path: &Path, form: TranscriptForm) -> String {
    let mut out = Vec::new();
    write_transcript(path, form, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn session(messages: &Value) -> String {
    json!({"sessionId": "s", "projectHash": "h", "messages": messages}).to_string()
}

fn conversation() -> Value {
    let failed = |id: &str, name: &str, args: Value, status: &str, result: Value, display: Value| {
        json!({"id": id, "name": name, "args": args, "status": status, "result": result, "resultDisplay": display,
            "timestamp": "2026-01-01T01:00:00.000+01:00"})
    };
    let answer =
        |response: Value| json!([{"functionResponse": {"id": "c", "name": "t", "response": response}}]);
    json!([
        {"id": "0", "type": "user", "content": "<session_context>internal</session_context>"},
        {"id": "1", "type": "user", "timestamp": "2026-01-01T00:00:00.000Z", "content": [{"text": "expanded @a.txt …"}, {"inlineData": {"mimeType": "image/png", "data": "AA"}}], "displayContent": "look at @a.txt"},
        {"id": "2", "type": "info", "content": "skipped"},
        {"id": "3", "type": "warning", "content": "skipped"},
        {"id": "4", "type": "gemini", "content": "I'll look.", "thoughts": [{"subject": "s", "description": "d"}], "tokens": {"total": 7},
            "toolCalls": [
                failed("a", "read_file", json!({"file_path": "src/a.ts", "content": "never shown"}), "success", answer(json!({"output": "skipped"})), json!("")),
                failed("b", "run_shell_command", json!({"command": "ls\n-l", "include": ["x", "y"]}), "error", answer(json!({"error": "no such\nfile"})), json!("display")),
                failed("c", "glob", json!("{\"pattern\": \"*.rs\"}"), "failed", Value::Null, json!("from the display")),
                failed("d", "grep", json!({"pattern": "x", "path": "/p"}), "error", answer(json!({"output": "from the output"})), json!({"fileDiff": 1})),
                failed("e", "web_fetch", json!({"prompt": "p", "url": "u"}), "cancelled", json!("text"), Value::Null),
                failed("f", "mcp_srv_tool", json!({"query": "q", "name": "not shown"}), "executing", Value::Null, Value::Null),
            ]},
        {"id": "5", "type": "user", "content": [{"functionResponse": {"id": "a", "response": {"output": "skipped"}}}]},
        {"id": "6", "type": "error", "content": "quota\u{1b}[31m"},
        {"id": "7", "type": "gemini", "content": ""},
    ])
}

#[test]
fn a_transcript_has_the_words_the_calls_and_what_failed() {
    let scratch = Scratch::new();
    let path = scratch.put("session-a.json", session(&conversation()));
    assert_eq!(
        transcript(&path, TranscriptForm::Text),
        "user: look at @a.txt\n[image: image/png]\n\n\
         agent: I'll look.\n\
         \x20 [read_file] file_path=src/a.ts\n\
         \x20 [run_shell_command] command=ls⏎-l include=x, y ERROR: no such⏎file\n\
         \x20 [glob] pattern=*.rs ERROR: from the display\n\
         \x20 [grep] path=/p pattern=x ERROR: from the output\n\
         \x20 [web_fetch] prompt=p url=u (cancelled)\n\
         \x20 [mcp_srv_tool] query=q (unfinished)\n\n\
         error: quota\n"
    );
    let markdown = transcript(&path, TranscriptForm::Markdown);
    assert!(markdown.starts_with("## User\n\nlook at @a.txt\n[image: image/png]\n\n## Agent\n\nI'll look.\n\n- **read_file** file_path: `src/a.ts`\n- **run"), "{markdown}");
    assert!(markdown.ends_with("(unfinished)\n\n## Error\n\nquota\n"), "{markdown}");
    let lines: Vec<Value> = transcript(&path, TranscriptForm::JsonLines)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 9);
    assert_eq!(
        lines[0],
        json!({"n": 1, "role": "user", "text": "look at @a.txt\n[image: image/png]", "timestamp": "2026-01-01T00:00:00.000Z", "id": "1"})
    );
    assert_eq!(
        lines[3],
        json!({"n": 4, "role": "tool", "tool": "run_shell_command", "args": {"command": "ls⏎-l", "include": "x, y"},
            "status": "error", "error": "no such\nfile", "timestamp": "2026-01-01T00:00:00.000Z", "id": "b"})
    );
    assert_eq!(lines[8]["role"], "error");
}

#[test]
fn an_index_record_counts_messages_and_calls() {
    let scratch = Scratch::new();
    let path = scratch.put("session-a.json", session(&conversation()));
    let record = summarise(&path).unwrap();
    assert_eq!((record.first_user.as_str(), record.last_user.as_str()), ("look at @a.txt", "look at @a.txt"));
    assert_eq!((record.user_messages, record.messages, record.tool_calls, record.errors), (1, 8, 6, 4));
    assert!(record.resumable && !record.damaged);
    let json = record.to_json();
    assert_eq!(
        (&json["sessionId"], &json["firstUser"], &json["toolCalls"]),
        (&json!("s"), &json!("look at @a.txt"), &json!(6))
    );
    assert!(!json.contains_key("projectPath") && !json.contains_key("inferred"));
    // Where there is nothing but commands, they are what was said.
    let path =
        scratch.put("session-b.json", session(&json!([{"id": "1", "type": "user", "content": "/help"}])));
    let record = summarise(&path).unwrap();
    assert_eq!((record.first_user.as_str(), record.user_messages, record.resumable), ("/help", 1, false));
}

#[test]
fn calls_in_the_content_are_the_ones_and_their_records_say_how_they_ended() {
    let scratch = Scratch::new();
    let content = json!([{"text": "thinking", "thought": true}, {"text": "So: "}, {"functionCall": {"id": "x", "name": "glob", "args": {"pattern": "a"}}}]);
    let call = json!({"id": "glob__x", "name": "glob", "args": {"pattern": "old"}, "status": "error", "result": {"error": "e"}});
    let path = scratch.put(
        "session-a.json",
        session(&json!([{"id": "1", "type": "gemini", "content": content, "toolCalls": [call]}])),
    );
    assert_eq!(transcript(&path, TranscriptForm::Text), "agent: So:\n  [glob] pattern=a ERROR: e\n");
}

#[test]
fn odd_files_are_read_by_every_reader() {
    let user = json!({"id": "1", "type": "user", "content": "hi"});
    let head = "{\"sessionId\":\"s\",\"projectHash\":\"h\"}";
    let record_log =
        format!("{head}\r\n\r\n{user}\r\n{{\"id\":\"2\",\"type\":\"gemini\",\"content\":\"ok\"}}\r\n");
    let mut broken = session(&json!([{"id": "1", "type": "user", "content": "hi X"}])).into_bytes();
    let at = broken.iter().position(|byte| *byte == b'X').unwrap();
    broken[at] = 0xff;
    let odd_content = json!([
        {"id": "1", "type": "user", "content": null}, {"id": "2", "type": "user", "content": 7},
        {"id": "3", "type": "user", "content": "hi"}, {"id": "3", "type": "user", "content": "again"},
        {"id": "4", "type": "gemini", "content": {"text": "ok"}, "toolCalls": [null, 7, {"name": "t"}], "timestamp": "yesterday"}, 7, null]);
    let cases: [(&str, Vec<u8>, &str, &str); 9] = [
        ("a byte order mark", format!("\u{feff}{}", session(&json!([user]))).into_bytes(), "user: hi\n", "hi"),
        ("line ends of another system", record_log.into_bytes(), "user: hi\n\nagent: ok\n", "hi"),
        ("a broken character", broken, "user: hi \u{fffd}\n", "hi \u{fffd}"),
        ("a cut last line", format!("{head}\n{user}\n{{\"id\":\"2\",\"ty").into_bytes(), "user: hi\n", "hi"),
        ("no messages", session(&Value::Null).into_bytes(), "", ""),
        ("odd content", session(&odd_content).into_bytes(), "user: hi\n\nuser: again\n\nagent: ok\n  [t] (unfinished)\n", "hi"),
        ("control characters", session(&json!([{"id": "1", "type": "user", "content": "a\u{0}b\u{9b}31mc\u{1b}]0;t\u{7}d"}])).into_bytes(), "user: abcd\n", "abcd"),
        ("a whole record on one line", format!("{{\"sessionId\":\"s\",\"projectHash\":\"h\",\"messages\":[{user}]}}\n{{\"$set\":{{\"summary\":\"sum\"}}}}\n").into_bytes(), "user: hi\n", "hi"),
        ("a checkpoint that replaces the list", format!("{head}\n{user}\n{{\"$set\":{{\"messages\":[{{\"id\":\"9\",\"type\":\"user\",\"content\":\"new\"}}]}}}}\n{{\"$rewindTo\":\"8\"}}\n{{\"id\":\"7\",\"type\":\"user\",\"content\":\"last\"}}\n").into_bytes(), "user: last\n", "last"),
    ];
    let scratch = Scratch::new();
    for (what, bytes, text, first) in cases {
        let path = scratch.put("session-odd.json", bytes);
        assert_eq!(transcript(&path, TranscriptForm::Text), text, "{what}");
        let record = summarise(&path).unwrap();
        assert_eq!(record.first_user, first, "{what}");
        assert_eq!(record.messages, load(&path).unwrap().messages.len() as u64, "{what}");
        for line in transcript(&path, TranscriptForm::JsonLines).lines() {
            assert!(!line.chars().any(char::is_control), "{what}: {line:?}");
        }
    }
    assert!(summarise(&scratch.chats().join("session-none.json")).is_err());
    assert!(summarise(&scratch.chats()).is_err(), "a folder is no session");
}

#[test]
fn a_file_that_grows_or_goes_while_it_is_read_does_no_harm() {
    let scratch = Scratch::new();
    let path = scratch.put(
        "session-a.jsonl",
        "{\"sessionId\":\"s\",\"projectHash\":\"h\"}\n{\"id\":\"1\",\"type\":\"user\",\"content\":\"hi\"}\n",
    );
    let mut seen = Vec::new();
    pollux_session::visit_texts(&path, &mut |_, _, _, text| {
        seen.push(text.to_owned());
        let mut bytes = fs::read(&path).unwrap_or_default();
        bytes.extend_from_slice(b"{\"id\":\"2\"");
        fs::write(&path, bytes).unwrap();
        fs::remove_file(&path).unwrap();
    })
    .unwrap();
    assert_eq!(seen, ["hi"]);
}

#[test]
fn sessions_of_all_projects_are_listed_and_found_from_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path().to_owned());
    let tmp = home.tmp_dir();
    let put = |folder: &Path, id: &str, hash: &str, minute: u32| {
        let chats = folder.join("chats");
        fs::create_dir_all(&chats).unwrap();
        let session = json!({"sessionId": id, "projectHash": hash, "startTime": format!("2026-01-01T00:{minute:02}:00.000Z"),
            "messages": [{"id": "1", "type": "user", "content": "hi"}]});
        fs::write(chats.join(format!("session-{id}.json")), session.to_string()).unwrap();
    };
    let (one, two) = ("/w/one", "/w/two");
    let hash = |root: &str| sha256_hex(root.as_bytes());
    put(&tmp.join(hash(one)), "aaaa1111", &hash(one), 1);
    put(&tmp.join("one"), "aaaa2222", &hash(one), 2);
    put(&home.gemini_dir().join("projects").join(hash(one)), "bbbb3333", &hash(one), 3);
    put(&tmp.join("unmarked"), "cccc4444", &hash(two), 4);
    put(&tmp.join("stranger"), "dddd5555", "none", 5);
    fs::write(home.projects_file(), json!({"projects": {one: "one", two: "two"}}).to_string()).unwrap();
    let projects = known_projects(&home);
    let roots: Vec<Option<&Path>> = projects.iter().map(|project| project.root.as_deref()).collect();
    assert_eq!(roots, [Some(Path::new(one)), Some(Path::new(two)), None]);
    assert_eq!(projects[0].chats_dirs.len(), 3);
    let listings = list_projects(projects, at(0));
    let found = |given: &str| {
        select_anywhere(&listings, given)
            .map(|(project, session)| (project.root.clone(), session.id.to_string()))
    };
    assert_eq!(found("latest").unwrap(), (None, "dddd5555".into()));
    assert_eq!(found("cccc").unwrap(), (Some(two.into()), "cccc4444".into()));
    assert_eq!(found("bbbb3333").unwrap().0, Some(one.into()));
    assert!(matches!(found("aaaa"), Err(SelectError::Ambiguous { candidates, .. }) if candidates.len() == 2));
    assert!(matches!(found("1"), Err(SelectError::NoMatch { .. })), "numbers belong to one project");
    assert_eq!(select_anywhere(&[], "latest"), Err(SelectError::NoSessions));
}

#[test]
fn sub_agents_lie_below_their_parent_and_are_shown_on_request() {
    let scratch = Scratch::new();
    scratch.put("session-a.json", session(&json!([{"id": "1", "type": "user", "content": "hi"}])));
    fs::create_dir_all(scratch.chats().join("s")).unwrap();
    let agent = "{\"sessionId\":\"agent\",\"projectHash\":\"h\",\"kind\":\"subagent\"}\n{\"id\":\"1\",\"type\":\"user\",\"content\":\"sub\"}\n";
    fs::write(scratch.chats().join("s/agent.jsonl"), agent).unwrap();
    fs::write(scratch.chats().join("s/notes.txt"), "x").unwrap();
    let listing = pollux_session::list(&scratch.dirs(), at(0));
    assert_eq!(listing.sessions.len(), 1);
    let children = subagents(&listing.sessions[0]);
    assert_eq!(children.len(), 1);
    assert_eq!((children[0].first_user.as_str(), children[0].parent.as_deref()), ("sub", Some("s")));
    assert_eq!(pollux_session::subagent_files(&scratch.dirs()), [scratch.chats().join("s/agent.jsonl")]);
}
