//! Codex's stores.

use std::path::Path;

use pollux_domain::time::Timestamp;
use pollux_foreign::ForeignAgent;
use serde_json::{Value, json};

use crate::scratch::Scratch;

const ID: &str = "01900000-aaaa-7bbb-8ccc-0123456789ab";
const FILE: &str =
    "sessions/2026/03/01/rollout-2026-03-01T10-00-00-01900000-aaaa-7bbb-8ccc-0123456789ab.jsonl";

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

fn enveloped(items: &[Value]) -> Vec<Value> {
    let mut records = vec![
        json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta", "payload": {
        "id": ID, "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/home/me/app", "originator": "codex_cli_rs",
        "cli_version": "0.80.0", "source": "cli", "model_provider": "openai"}}),
    ];
    records.extend(items.iter().enumerate().map(|(index, item)| {
        json!({"timestamp": format!("2026-03-01T10:00:{:02}.000Z", index + 1), "type": "response_item", "payload": item})
    }));
    records
}

fn said(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

fn items() -> Vec<Value> {
    vec![
        said("developer", "<permissions instructions>…"),
        said("user", "# AGENTS.md instructions for /home/me/app\n\n<INSTRUCTIONS>x</INSTRUCTIONS>"),
        said("user", "<environment_context>\n  <cwd>/home/me/old</cwd>\n</environment_context>"),
        said("user", "why is the test red?"),
        json!({"type": "reasoning", "summary": [], "encrypted_content": "…"}),
        json!({"type": "function_call", "name": "shell", "call_id": "c1",
               "arguments": "{\"command\":[\"bash\",\"-lc\",\"cargo test\"],\"workdir\":\"/home/me/app\"}"}),
        json!({"type": "function_call_output", "call_id": "c1",
               "output": "{\"output\":\"1 failed\",\"metadata\":{\"exit_code\":101,\"duration_seconds\":1.0}}"}),
        json!({"type": "custom_tool_call", "name": "apply_patch", "call_id": "c2", "input": "*** Begin Patch\n+x"}),
        json!({"type": "custom_tool_call_output", "call_id": "c2", "output": "Exit code: 0\nWall time: 0 seconds\nOutput:\nDone"}),
        json!({"type": "function_call", "name": "exec_command", "call_id": "c3", "arguments": "{\"cmd\":\"ls\"}"}),
        json!({"type": "function_call_output", "call_id": "c3", "output": "aborted by user after 3.0s"}),
        json!({"type": "local_shell_call", "call_id": "c4", "status": "completed",
               "action": {"type": "exec", "command": ["ls", "-l"]}}),
        json!({"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "rust"}}),
        said("assistant", "An assertion fails."),
    ]
}

const CONVERSATION: [&str; 7] = [
    "user: why is the test red?",
    "shell bash -lc cargo test /home/me/app failed (1 failed)",
    "apply_patch *** Begin Patch⏎+x ok",
    "exec_command ls cancelled (aborted by user after 3.0s)",
    "local_shell ls -l pending",
    "web_search rust ok",
    "agent: An assertion fails.",
];

#[test]
fn half_of_a_surrogate_pair_costs_one_character() {
    let scratch = Scratch::new(ForeignAgent::Codex);
    let records = enveloped(&[
        said("user", "cut HALF"),
        json!({"type": "function_call", "name": "exec_command", "call_id": "c", "arguments": "{\"cmd\":\"ls INNER\"}"}),
        json!({"type": "function_call_output", "call_id": "c",
               "output": "{\"output\":\"1 INNER\",\"metadata\":{\"exit_code\":1}}"}),
    ]);
    let text = lines(&records).replace("HALF", r"\ud83d").replace("INNER", r"\\ud83d");
    scratch.write(FILE, text);
    let read = ["user: cut \u{fffd}", "exec_command ls \u{fffd} failed (1 \u{fffd})"];
    assert_eq!(scratch.conversation(), read);
}

#[test]
fn records_with_envelopes_are_read() {
    let scratch = Scratch::new(ForeignAgent::Codex);
    let mut records = enveloped(&items());
    records.push(json!({"timestamp": "2026-03-01T10:01:00.000Z", "type": "event_msg", "payload":
        {"type": "user_message", "message": "why is the test red?"}}));
    records.push(json!({"timestamp": "2026-03-01T10:01:00.000Z", "type": "turn_context", "payload":
        {"cwd": "/elsewhere", "model": "some-model"}}));
    scratch.write(FILE, lines(&records));
    let session = scratch.session();
    assert_eq!((session.id.as_str(), session.project.as_deref()), (ID, Some(Path::new("/home/me/app"))));
    assert_eq!(session.start, Timestamp::parse("2026-03-01T10:00:00Z").unwrap());
    assert_eq!(session.updated, Timestamp::parse("2026-03-01T10:01:00Z").unwrap());
    assert_eq!((session.user_messages, session.tool_calls, session.errors), (1, 5, 1));
    assert_eq!((session.models, session.is_subagent), (vec!["some-model".to_owned()], false));
    assert_eq!(scratch.conversation(), CONVERSATION);
}

#[test]
fn bare_items_after_a_first_line_with_facts_are_read() {
    let scratch = Scratch::new(ForeignAgent::Codex);
    let mut records = vec![json!({"id": ID, "timestamp": "2025-06-01T10:00:00.000Z", "instructions": null})];
    for item in items() {
        records.push(item);
        records.push(json!({"record_type": "state"}));
    }
    scratch.write(FILE, lines(&records));
    let session = scratch.session();
    assert_eq!((session.id.as_str(), session.project.as_deref()), (ID, Some(Path::new("/home/me/old"))));
    assert_eq!(session.start, Timestamp::parse("2025-06-01T10:00:00Z").unwrap());
    assert_eq!(scratch.conversation(), CONVERSATION);
}

#[test]
fn the_first_form_is_one_document() {
    let scratch = Scratch::new(ForeignAgent::Codex);
    let document = json!({"session": {"timestamp": "2025-05-01T10:00:00.000Z", "id": ID, "instructions": ""},
                          "items": items()});
    let path = format!("sessions/rollout-2025-05-01-{ID}.json");
    scratch.write(&path, serde_json::to_string_pretty(&document).unwrap());
    assert_eq!(scratch.session().id, ID);
    assert_eq!(scratch.conversation(), CONVERSATION);
}

#[test]
fn rolled_back_turns_are_not_shown() {
    let scratch = Scratch::new(ForeignAgent::Codex);
    let mut records = enveloped(&[
        said("user", "one"),
        said("assistant", "1"),
        said("user", "two"),
        said("assistant", "2"),
        said("user", "three"),
    ]);
    records.push(json!({"timestamp": "2026-03-01T10:01:00.000Z", "type": "event_msg",
                        "payload": {"type": "thread_rolled_back", "num_turns": 2}}));
    records.push(json!({"timestamp": "2026-03-01T10:01:01.000Z", "type": "response_item", "payload": said("user", "four")}));
    scratch.write(FILE, lines(&records));
    assert_eq!(scratch.conversation(), ["user: one", "agent: 1", "user: four"]);
}

#[test]
fn a_name_given_later_is_the_title_and_changes_the_stamp() {
    let scratch = Scratch::new(ForeignAgent::Codex);
    scratch.write(FILE, lines(&enveloped(&items())));
    let before = scratch.entry().stamp;
    scratch.write(
        "session_index.jsonl",
        format!(
            "{}\n{}\nrubbish\n",
            json!({"id": ID, "thread_name": "old", "updated_at": "x"}),
            json!({"id": ID, "thread_name": "the red test", "updated_at": "y"})
        ),
    );
    assert_eq!(scratch.session().title.as_deref(), Some("the red test"));
    assert_ne!(scratch.entry().stamp, before);
}

#[test]
fn sub_agents_archives_and_compressed_files_are_distinguished() {
    let scratch = Scratch::new(ForeignAgent::Codex);
    let mut records = enveloped(&items());
    records[0]["payload"]["source"] =
        json!({"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}});
    records[0]["payload"]["parent_thread_id"] = json!("p");
    scratch.write(&format!("archived_sessions/rollout-2026-03-01T10-00-00-{ID}.jsonl"), lines(&records));
    scratch.write(&format!("{FILE}.zst"), b"\x28\xb5\x2f\xfd");
    scratch.write("sessions/2026/03/01/notes.jsonl", "{}");
    let listing = scratch.store.list();
    assert_eq!(listing.sessions.len(), 1);
    let session = listing.sessions.first().unwrap();
    assert_eq!((session.is_subagent, session.parent.as_deref()), (true, Some("p")));
    assert_eq!(listing.unreadable.len(), 1);
    assert!(listing.unreadable.first().unwrap().1.contains("compressed"));
}
