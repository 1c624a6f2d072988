//! Continuing a foreign session here.

use pollux_foreign::{ForeignAgent, to_messages};
use pollux_session::Message;
use serde_json::json;

use crate::scratch::Scratch;

#[test]
fn replies_and_calls_become_one_text_turn_between_prompts() {
    let scratch = Scratch::new(ForeignAgent::Codex);
    let record = |item| {
        format!(
            "{}\n",
            json!({"timestamp": "2026-03-01T10:00:00Z", "type": "response_item", "payload": item})
        )
    };
    let text: String = [
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list"}]}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Listing."}]}),
        json!({"type": "function_call", "name": "shell", "call_id": "c", "arguments": "{\"command\":[\"ls\"]}"}),
        json!({"type": "function_call_output", "call_id": "c", "output": "Exit code: 2\nno such folder"}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "again"}]}),
    ]
    .into_iter()
    .map(record)
    .collect();
    scratch.write("sessions/2026/03/01/rollout-2026-03-01T10-00-00-x.jsonl", text);
    let messages = to_messages(&scratch.store.conversation(&scratch.entry()).unwrap());
    let shown: Vec<String> = messages
        .iter()
        .map(|message| match message {
            Message::User(user) => format!(
                "user {}",
                user.parts.iter().filter_map(|part| part.spoken_text()).collect::<String>()
            ),
            Message::Reply(reply) => {
                assert!(reply.calls.is_empty(), "a call without its tool cannot be answered");
                assert!(reply.parts.iter().all(|part| part.seal.is_none()));
                format!(
                    "model {}",
                    reply.parts.iter().filter_map(|part| part.spoken_text()).collect::<String>()
                )
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        shown,
        [
            "user list",
            "model Listing.\n\n[tool shell: ls; failed: Exit code: 2\nno such folder]",
            "user again"
        ]
    );
    let ids: std::collections::HashSet<&str> = messages.iter().map(Message::id).collect();
    assert_eq!(ids.len(), messages.len());
}
