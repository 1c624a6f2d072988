use std::path::Path;

use pollux_domain::content::Role;
use serde_json::{Value, json};

use super::*;
use crate::load::{FileStamp, StoredSession, fold};
use crate::message::message_from_json;
use pollux_domain::id::SessionId;
use pollux_domain::time::Timestamp;

fn session(messages: &Value) -> StoredSession {
    let document = json!({"sessionId": "s", "messages": messages}).to_string();
    let folded = fold(Path::new("x"), document.as_bytes()).unwrap();
    let messages = folded.messages.into_iter().map(|message| {
        let id = message["id"].as_str().unwrap().to_owned();
        message_from_json(id, message.as_object().unwrap().clone().into())
    });
    StoredSession {
        path: "x".into(),
        id: SessionId::from_file("s"),
        project_hash: None,
        start: Timestamp::from_millis(0),
        last_updated: Timestamp::from_millis(0),
        kind: crate::SessionKind::Main,
        summary: None,
        directories: Vec::new(),
        messages: messages.collect(),
        repaired: None,
        extra: pollux_domain::JsonObject::new(),
        stamp: FileStamp { length: 0, modified_ms: 0 },
        layout: crate::load::Layout::Other,
    }
}

fn contents(messages: &Value) -> Vec<Value> {
    history(&session(messages)).iter().map(|turn| turn.content.to_json()).collect()
}

fn call(id: &str, result: &Value) -> Value {
    json!({"id": id, "name": "glob", "args": {"p": "*"}, "status": "success", "result": result})
}

fn response(id: &str, response: &Value) -> Value {
    json!({"functionResponse": {"id": id, "name": "glob", "response": response}})
}

#[test]
fn a_plain_exchange_comes_back_without_thoughts_and_notices() {
    let turns = history(&session(&json!([
        {"id": "0", "type": "user", "content": [{"text": "<session_context>env</session_context>"}]},
        {"id": "1", "type": "user", "content": "hi"},
        {"id": "2", "type": "info", "content": "note"},
        {"id": "3", "type": "gemini", "content": [{"text": "t", "thought": true}, {"text": "hello", "thoughtSignature": "s"}],
         "thoughts": [{"subject": "a", "description": "b", "timestamp": "2026-01-01T00:00:00Z"}]},
        {"id": "4", "type": "error", "content": "bad"},
        {"id": "5", "type": "gemini", "content": "", "thoughts": [{"subject": "only", "description": ""}]},
    ])));
    let ids: Vec<Option<&str>> = turns.iter().map(|turn| turn.message_id.as_deref()).collect();
    assert_eq!(ids, [Some("1"), Some("3")]);
    assert_eq!(
        turns[1].content.to_json(),
        json!({"role": "model", "parts": [{"text": "hello", "thoughtSignature": "s"}]})
    );
}

#[test]
fn calls_come_back_with_signature_and_exactly_one_answer_although_recorded_twice() {
    let answer = response("glob__1", &json!({"output": "a.rs"}));
    let mut signed = call("glob__1", &json!([answer]));
    signed["thoughtSignature"] = json!("sig");
    let turns = contents(&json!([
        {"type": "user", "content": "go"},
        {"type": "gemini", "content": "looking", "toolCalls": [signed]},
        {"type": "user", "content": [answer]},
        {"type": "gemini", "content": "done"},
    ]));
    assert_eq!(
        turns,
        [
            json!({"role": "user", "parts": [{"text": "go"}]}),
            json!({"role": "model", "parts": [{"text": "looking"},
            {"functionCall": {"id": "glob__1", "name": "glob", "args": {"p": "*"}}, "thoughtSignature": "sig"}]}),
            json!({"role": "user", "parts": [answer]}),
            json!({"role": "model", "parts": [{"text": "done"}]}),
        ]
    );
}

#[test]
fn an_interrupted_call_gets_an_answer_that_says_so_and_the_next_prompt_is_its_own_turn() {
    let turns = contents(&json!([
        {"type": "user", "content": "go"},
        {"type": "gemini", "content": "", "toolCalls": [
            call("a", &json!("text result")), {"id": "b", "name": "glob", "args": {}, "status": "pending"}]},
        {"type": "user", "content": "still there?"},
    ]));
    assert_eq!(turns.len(), 5);
    assert_eq!(turns[2]["parts"][0], response("a", &json!({"output": "text result"})));
    let error = turns[2]["parts"][1]["functionResponse"]["response"]["error"].as_str().unwrap();
    assert!(error.contains("interrupted"), "{error}");
    assert_eq!(turns[3]["role"], "model");
    assert_eq!(turns[4]["parts"], json!([{"text": "still there?"}]));
}

#[test]
fn a_call_without_a_result_is_answered_by_its_status() {
    let cases = [
        ("denied", json!(null), "error", "denied and did not run"),
        ("cancelled", json!(null), "error", "was cancelled"),
        ("failed", json!("no such file"), "error", "failed"),
        ("failed", json!("no such file"), "error", "no such file"),
        ("error", json!({"odd": 1}), "error", "failed"),
        ("success", json!(null), "output", "succeeded. Its result was not recorded"),
        ("success", json!("3 matches"), "output", "3 matches"),
        ("pending", json!(null), "error", "may or may not have taken effect"),
        ("approved", json!(null), "error", "may or may not have taken effect"),
        ("executing", json!("x"), "error", "may or may not have taken effect"),
    ];
    for (status, display, key, expected) in cases {
        let call = json!({"id": "c", "name": "glob", "args": {}, "status": status, "result": null,
            "resultDisplay": display});
        let turns = contents(&json!([
            {"type": "user", "content": "go"},
            {"type": "gemini", "content": "", "toolCalls": [call]},
        ]));
        let response = &turns[2]["parts"][0]["functionResponse"]["response"];
        let text = response[key].as_str().unwrap_or_else(|| panic!("{status}: {response}"));
        assert!(text.contains(expected), "{status}: {text}");
        assert_eq!(
            text.contains("interrupted"),
            key == "error" && expected.starts_with("may"),
            "{status}: {text}"
        );
    }
}

#[test]
fn an_answer_in_the_next_message_comes_before_the_status() {
    let turns = contents(&json!([
        {"type": "user", "content": "go"},
        {"type": "gemini", "content": "", "toolCalls": [call("c", &json!(null))]},
        {"type": "user", "content": [response("c", &json!({"output": "a.rs"}))]},
    ]));
    assert_eq!(turns[2]["parts"], json!([response("c", &json!({"output": "a.rs"}))]));
}

#[test]
fn answers_recorded_only_as_a_message_reach_their_calls_by_either_form_of_the_id() {
    let turns = contents(&json!([
        {"type": "user", "content": "go"},
        {"type": "gemini", "content": [
            {"text": "x"}, {"functionCall": {"id": "2", "name": "glob", "args": {}}, "thoughtSignature": "s"},
            {"functionCall": {"name": "glob", "args": {}}}]},
        {"type": "user", "content": [
            {"functionResponse": {"name": "glob", "response": {"output": "second"}}},
            response("glob__2", &json!({"output": "first"})),
            {"inlineData": {"mimeType": "image/png", "data": "AA=="}}]},
    ]));
    let parts = turns[2]["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[0], response("2", &json!({"output": "first"})));
    // An answer without an id goes to a call of that name that has none.
    assert!(parts[1]["functionResponse"]["id"].as_str().unwrap().starts_with("glob__synth_"));
    assert_eq!(parts[1]["functionResponse"]["response"]["output"], "second");
}

#[test]
fn orphan_answers_vanish_and_a_conversation_never_begins_with_the_model() {
    let turns = contents(&json!([
        {"type": "user", "content": [response("gone", &json!({}))]},
        {"type": "gemini", "content": "first"},
        {"type": "gemini", "content": "second"},
        {"type": "user", "content": "a"},
        {"type": "user", "content": ["b", {"text": ""}]},
    ]));
    assert_eq!(turns[0]["role"], "user");
    assert_eq!(turns[1], json!({"role": "model", "parts": [{"text": "first"}, {"text": "second"}]}));
    assert_eq!(turns[2], json!({"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}));
    assert_eq!(turns.len(), 3);
}

#[test]
fn commands_are_skipped_unless_the_model_answered_them() {
    let turns = contents(&json!([
        {"type": "user", "content": "/help"},
        {"type": "user", "content": "/review this"},
        {"type": "gemini", "content": "reviewed"},
        {"type": "user", "content": "?"},
    ]));
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0]["parts"], json!([{"text": "/review this"}]));
}

#[test]
fn the_last_compression_decides_what_the_model_sees() {
    let messages = json!([
        {"id": "1", "type": "user", "content": "old"},
        {"id": "2", "type": "gemini", "content": "old answer"},
        {"id": "3", "type": "info", "content": "Chat history compressed from 9 to 3 tokens.",
         "compression": {"keepFrom": null, "snapshot": "first"}},
        {"id": "4", "type": "user", "content": "kept"},
        {"id": "5", "type": "gemini", "content": "kept answer"},
        {"id": "6", "type": "info", "content": "Chat history compressed from 9 to 3 tokens.",
         "compression": {"keepFrom": "4", "snapshot": "second"}},
        {"id": "7", "type": "user", "content": "new"},
    ]);
    let texts: Vec<String> = history(&session(&messages)).iter().map(|turn| turn.content.text()).collect();
    assert_eq!(texts, ["second", ACKNOWLEDGED, "kept", "kept answer", "new"]);
    let mut nothing_kept = messages;
    nothing_kept[5]["compression"]["keepFrom"] = Value::Null;
    let texts: Vec<String> =
        history(&session(&nothing_kept)).iter().map(|turn| turn.content.text()).collect();
    assert_eq!(texts, ["second", ACKNOWLEDGED, "new"]);
}

/// What a provider insists on.
fn check_sound(turns: &[RestoredTurn]) {
    for (index, turn) in turns.iter().enumerate() {
        let expected = if index % 2 == 0 { Role::User } else { Role::Model };
        assert_eq!(turn.content.role, expected);
        assert!(!turn.content.parts.is_empty());
        let calls: Vec<_> = turn.content.calls().map(|call| call.id.clone()).collect();
        let next = turns.get(index + 1);
        let answers: Vec<_> = next
            .map(|next| next.content.responses().map(|answer| answer.id.clone()).collect())
            .unwrap_or_default();
        if expected == Role::Model {
            assert_eq!(calls, answers);
        }
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn any_message() -> impl Strategy<Value = Value> {
        let id = || prop::sample::select(vec!["a", "b", "glob__a"]);
        let stored_call = (id(), prop::bool::ANY).prop_map(|(id, has_result)| {
            if has_result { call(id, &json!("r")) } else { call(id, &Value::Null) }
        });
        prop_oneof![
            prop::sample::select(vec!["hi", "", "/cmd", "<session_context>"])
                .prop_map(|text| json!({"type": "user", "content": text})),
            (id(), prop::bool::ANY).prop_map(|(id, text)| {
                let mut parts = vec![response(id, &json!({"output": "x"}))];
                parts.extend(text.then(|| json!({"text": "and"})));
                json!({"type": "user", "content": parts})
            }),
            prop::collection::vec(stored_call, 0..3)
                .prop_map(|calls| json!({"type": "gemini", "content": "t", "toolCalls": calls})),
            id().prop_map(
                |id| json!({"type": "gemini", "content": [{"functionCall": {"id": id, "name": "glob"}}]})
            ),
            Just(json!({"type": "warning", "content": "w"})),
            (prop::option::of(0..9u8)).prop_map(|keep| json!({"type": "info", "content": "c", "compression":
                {"keepFrom": keep.map(|keep| format!("message-{keep}")), "snapshot": "s"}})),
        ]
    }

    proptest! {
        #[test]
        fn whatever_was_recorded_the_conversation_is_sound(messages in prop::collection::vec(any_message(), 0..12)) {
            check_sound(&history(&session(&Value::Array(messages))));
        }
    }
}

#[test]
fn a_result_that_holds_the_answers_of_the_whole_turn_gives_each_call_its_own() {
    let media = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    let both = json!([
        response("glob__1", &json!({"output": "one"})),
        media,
        response("glob__2", &json!({"output": "two"})),
    ]);
    let turns = contents(&json!([
        {"id": "1", "type": "user", "content": "go"},
        {"id": "2", "type": "gemini", "content": "", "toolCalls": [call("glob__1", &both), call("glob__2", &both)]},
        {"id": "2_response", "type": "user", "content": both},
        {"id": "3", "type": "gemini", "content": "done"},
    ]));
    assert_eq!(
        turns[2],
        json!({"role": "user", "parts": [
            response("glob__1", &json!({"output": "one"})),
            response("glob__2", &json!({"output": "two"})),
            media,
        ]})
    );
    assert_eq!(turns.len(), 4);
}

#[test]
fn where_a_user_message_comes_from_is_read_back() {
    let mut messages = Vec::new();
    for (number, source) in
        [UserSource::Prompt, UserSource::DuringTurn, UserSource::Program].into_iter().enumerate()
    {
        let mut message = json!({"id": format!("u{number}"), "type": "user", "content": "go"});
        own::add_source(message.as_object_mut().unwrap(), source);
        messages.push(message);
        messages.push(json!({"id": format!("r{number}"), "type": "gemini", "content": "done"}));
    }
    let turns = history(&session(&Value::Array(messages)));
    let sources: Vec<UserSource> = turns.iter().step_by(2).map(|turn| turn.source).collect();
    assert_eq!(sources, [UserSource::Prompt, UserSource::DuringTurn, UserSource::Program]);
    // A turn that holds a prompt can be rewound to.
    let mut note = json!({"id": "n", "type": "user", "content": "note"});
    own::add_source(note.as_object_mut().unwrap(), UserSource::Program);
    let turns = history(&session(&json!([note, {"id": "p", "type": "user", "content": "go"}])));
    assert_eq!(turns.first().map(|turn| turn.source), Some(UserSource::Prompt));
}
