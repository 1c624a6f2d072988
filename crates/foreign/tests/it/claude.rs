//! Claude Code's stores.

use std::path::Path;

use pollux_domain::time::Timestamp;
use pollux_foreign::ForeignAgent;
use serde_json::{Value, json};

use crate::scratch::Scratch;

const FILE: &str = "projects/-home-me-app/11111111-2222-3333-4444-555555555555.jsonl";

fn record(kind: &str, uuid: &str, parent: Option<&str>, message: &Value) -> Value {
    json!({
        "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/home/me/app",
        "sessionId": "11111111-2222-3333-4444-555555555555", "version": "2.0.60", "gitBranch": "main",
        "type": kind, "message": message, "uuid": uuid,
        "timestamp": format!("2026-03-01T10:00:{:02}.000Z", uuid.len()),
    })
}

fn user(uuid: &str, parent: Option<&str>, text: &str) -> Value {
    record("user", uuid, parent, &json!({"role": "user", "content": text}))
}

fn agent(uuid: &str, parent: &str, blocks: &Value) -> Value {
    record(
        "assistant",
        uuid,
        Some(parent),
        &json!({"id": "msg_1", "role": "assistant", "model": "some-model", "content": blocks}),
    )
}

fn result(uuid: &str, parent: &str, call: &str, content: Value, is_error: bool) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error});
    record("user", uuid, Some(parent), &json!({"role": "user", "content": [block]}))
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

fn conversation() -> Vec<Value> {
    vec![
        json!({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}),
        user("u", None, "fix the build"),
        agent(
            "aa",
            "u",
            &json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Looking."}]),
        ),
        agent(
            "aaa",
            "aa",
            &json!([{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make"}},
                    {"type": "tool_use", "id": "c2", "name": "Read", "input": {"file_path": "/a", "limit": 5}}]),
        ),
        result("rrrr", "aaa", "c1", json!([{"type": "text", "text": "no rule to make"}]), true),
        result("rrrrr", "aaa", "c2", json!("contents"), false),
        agent("aaaaaa", "rrrrr", &json!([{"type": "text", "text": "There is no rule."}])),
    ]
}

#[test]
fn half_of_a_surrogate_pair_costs_one_character() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    let records =
        [user("u", None, "cut HALF"), agent("aa", "u", &json!([{"type": "text", "text": "HALF too"}]))];
    scratch.write(FILE, lines(&records).replace("HALF", r"\ud83d"));
    assert_eq!(scratch.conversation(), ["user: cut \u{fffd}", "agent: \u{fffd} too"]);
}

#[test]
fn a_session_is_listed_with_its_facts() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    let path = scratch.write(FILE, lines(&conversation()));
    let session = scratch.session();
    assert_eq!(session.id, "11111111-2222-3333-4444-555555555555");
    assert_eq!(
        (session.path.as_path(), session.project.as_deref()),
        (&*path, Some(Path::new("/home/me/app")))
    );
    assert_eq!((session.title, session.first_user.as_str()), (None, "fix the build"));
    assert_eq!(session.start, Timestamp::parse("2026-03-01T10:00:01Z").unwrap());
    assert_eq!(session.updated, Timestamp::parse("2026-03-01T10:00:06Z").unwrap());
    assert_eq!((session.user_messages, session.messages, session.tool_calls, session.errors), (1, 5, 2, 1));
    assert_eq!(session.models, ["some-model"]);
}

#[test]
fn the_conversation_joins_calls_with_their_ends() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    scratch.write(FILE, lines(&conversation()));
    assert_eq!(
        scratch.conversation(),
        [
            "user: fix the build",
            "agent: Looking.",
            "Bash make failed (no rule to make)",
            "Read /a ok",
            "agent: There is no rule.",
        ]
    );
}

#[test]
fn texts_hold_no_outputs_of_tools() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    scratch.write(FILE, lines(&conversation()));
    assert_eq!(
        scratch.texts(),
        [
            "User: fix the build",
            "Agent: Looking.",
            "Tool: Bash make",
            "Tool: Read /a",
            "Error: no rule to make",
            "Agent: There is no rule.",
        ]
    );
}

#[test]
fn messages_injected_as_the_user_are_skipped() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    let mut meta = user("u", None, "Base directory for this skill");
    meta["isMeta"] = json!(true);
    let mut compact = user("uu", None, "This session is being continued from a previous conversation");
    compact["isCompactSummary"] = json!(true);
    let mut side = user("uuu", None, "a sub-agent's task");
    side["isSidechain"] = json!(true);
    let mut error = agent("aaaa", "u", &json!([{"type": "text", "text": "API Error: 529"}]));
    error["isApiErrorMessage"] = json!(true);
    let records = [
        meta,
        compact,
        side,
        user("uuuu", None, "<command-name>/clear</command-name>"),
        user("uuuuu", None, "<local-command-stdout>done</local-command-stdout>"),
        user("uuuuuu", None, "<b>is this valid HTML?</b>"),
        error,
        json!({"type": "record-of-the-future", "uuid": "f", "message": {"role": "user", "content": "?"}}),
    ];
    scratch.write(FILE, lines(&records));
    assert_eq!(scratch.texts(), ["User: <b>is this valid HTML?</b>", "Error: API Error: 529"]);
}

#[test]
fn titles_come_from_the_user_then_the_agent_then_a_summary_of_this_session() {
    let title = |extra: &[Value]| {
        let scratch = Scratch::new(ForeignAgent::Claude);
        let mut records = extra.to_vec();
        records.extend(conversation());
        scratch.write(FILE, lines(&records));
        scratch.session().title
    };
    let other = json!({"type": "summary", "summary": "another session", "leafUuid": "elsewhere"});
    let own = json!({"type": "summary", "summary": "a missing rule", "leafUuid": "aaaaaa"});
    let ai = json!({"type": "ai-title", "aiTitle": "Fix make", "sessionId": "s"});
    let custom = json!({"type": "custom-title", "customTitle": "my build", "sessionId": "s"});
    assert_eq!(title(std::slice::from_ref(&other)), None);
    assert_eq!(title(&[own.clone(), other]).as_deref(), Some("a missing rule"));
    assert_eq!(title(&[custom.clone(), ai.clone(), own.clone()]).as_deref(), Some("my build"));
    assert_eq!(title(&[ai, own]).as_deref(), Some("Fix make"));
}

#[test]
fn an_abandoned_branch_is_searched_but_not_shown() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    let records = [
        user("u", None, "start"),
        agent("aa", "u", &json!([{"type": "text", "text": "ready"}])),
        user("uuu", Some("aa"), "the wrong way"),
        agent("aaaa", "uuu", &json!([{"type": "text", "text": "going wrong"}])),
        user("uuuuu", Some("aa"), "the right way"),
    ];
    scratch.write(FILE, lines(&records));
    assert_eq!(scratch.conversation(), ["user: start", "agent: ready", "user: the right way"]);
    assert!(scratch.texts().contains(&"User: the wrong way".to_owned()));
}

#[test]
fn compaction_and_a_lost_parent_do_not_hide_earlier_messages() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    let mut boundary = record("system", "ss", None, &Value::Null);
    boundary["logicalParentUuid"] = json!("u");
    let records = [
        user("u", None, "before"),
        boundary,
        user("uuu", Some("ss"), "after"),
        agent("aaaa", "never written", &json!([{"type": "text", "text": "still here"}])),
    ];
    scratch.write(FILE, lines(records.get(..3).unwrap()));
    assert_eq!(scratch.conversation(), ["user: before", "user: after"]);
    scratch.write(FILE, lines(&records));
    assert_eq!(scratch.conversation(), ["user: before", "user: after", "agent: still here"]);
}

#[test]
fn sub_agents_are_distinguished_from_sessions_in_both_layouts() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    let mut task = user("u", None, "look around");
    task["isSidechain"] = json!(true);
    scratch.write("projects/-home-me-app/agent-abc.jsonl", lines(&[task.clone()]));
    scratch.write(
        "projects/-home-me-app/11111111-2222-3333-4444-555555555555/subagents/agent-d.jsonl",
        lines(&[task]),
    );
    let sessions = scratch.store.list().sessions;
    let mut ids: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["agent-abc", "agent-d"]);
    for session in &sessions {
        assert!(session.is_subagent);
        assert_eq!(session.parent.as_deref(), Some("11111111-2222-3333-4444-555555555555"));
    }
}

#[test]
fn damage_costs_only_the_damaged_lines() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend_from_slice(format!("{}\r\n\n", user("u", None, "first")).as_bytes());
    bytes.extend_from_slice(
        b"{\"type\":\"user\",\"uuid\":\"x\",\"message\":{\"content\":\"bad \xff byte\"}}\n",
    );
    bytes.extend_from_slice(b"{\"type\":\"user\",\"message\":{\"content\":null}}\n[]\nnull\n7\n");
    bytes.extend_from_slice(
        b"{\"type\":\"user\",\"message\":5}\n{\"type\":\"assistant\",\"message\":{\"content\":[3,{}]}}\n",
    );
    bytes.extend_from_slice(b"{\"type\":\"user\",\"uuid\":\"y\",\"message\":{\"role\":\"user\",\"conte");
    scratch.write(FILE, bytes);
    assert_eq!(scratch.texts(), ["User: first", "User: bad \u{fffd} byte"]);
}

#[test]
fn a_file_with_only_a_title_is_not_a_session() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    scratch.write(FILE, lines(&[json!({"type": "summary", "summary": "x", "leafUuid": "y"})]));
    let listing = scratch.store.list();
    assert_eq!((listing.sessions.len(), listing.unreadable.len()), (0, 0));
}
