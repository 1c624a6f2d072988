use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn contents(turns: &Value) -> Vec<Content> {
    turns.as_array().unwrap().iter().map(Content::from_json).collect()
}

fn sent(turns: Value, nested_media: bool) -> Value {
    let contents = contents(&turns);
    serde_json::to_value(hygiene(&contents, nested_media)).unwrap()
}

fn call(id: &str, signature: Option<&str>) -> Value {
    let mut part = json!({"functionCall": {"id": id, "name": "ls", "args": {"z": 1, "a": 2}}});
    if let Some(signature) = signature {
        part["thoughtSignature"] = json!(signature);
    }
    part
}

fn response(id: &str) -> Value {
    json!({"functionResponse": {"id": id, "name": "ls", "response": {"output": "x"}}})
}

fn user(parts: Value) -> Value {
    json!({"role": "user", "parts": parts})
}

fn model(parts: Value) -> Value {
    json!({"role": "model", "parts": parts})
}

#[test]
fn ids_lose_their_prefix_on_both_sides_and_only_their_own() {
    let turns = json!([
        user(json!([{"text": "go"}])),
        model(json!([call("ls__1", Some("s")), call("other__2", None)])),
        user(json!([response("ls__1"), response("other__2")])),
    ]);
    let expected = json!([
        user(json!([{"text": "go"}])),
        model(json!([call("1", Some("s")), call("other__2", None)])),
        user(json!([response("1"), response("other__2")])),
    ]);
    assert_eq!(sent(turns, false).to_string(), expected.to_string());
}

#[test]
fn only_the_first_unsigned_call_of_turns_under_way_gets_the_synthetic_signature() {
    let turns = json!([
        user(json!([{"text": "old"}])),
        model(json!([call("1", None)])),
        user(json!([response("1")])),
        model(json!([{"text": "done"}])),
        user(json!([{"text": "new"}])),
        model(json!([{"text": "first"}, call("2", None), call("3", None)])),
        user(json!([response("2"), response("3")])),
        model(json!([call("4", Some("real")), call("5", None)])),
        user(json!([response("4"), response("5"), {"text": "a note beside the answers"}])),
    ]);
    let mut expected = turns.clone();
    expected[5]["parts"][1] = call("2", Some("skip_thought_signature_validator"));
    assert_eq!(sent(turns, false), expected);
}

#[test]
fn thoughts_are_never_sent_but_a_signed_one_signs_the_call_it_led_to() {
    let turns = json!([
        user(json!([{"text": "old"}])),
        model(json!([{"text": "hm", "thought": true, "thoughtSignature": "t"}, call("1", None)])),
        user(json!([response("1")])),
        model(json!([{"text": "only thinking", "thought": true}])),
        user(json!([{"text": "new"}])),
    ]);
    let expected = json!([
        user(json!([{"text": "old"}])),
        model(json!([call("1", Some("skip_thought_signature_validator"))])),
        user(json!([response("1"), {"text": "new"}])),
    ]);
    assert_eq!(sent(turns, false), expected);
}

#[test]
fn empty_parts_and_turns_vanish_and_equal_roles_are_joined() {
    let turns = json!([
        user(json!([{"text": "<session_context>"}])),
        user(json!([{"text": "hi"}])),
        model(json!([])),
        model(json!([{"text": ""}, {}, call("1", Some("s"))])),
        model(json!([{"text": "", "thoughtSignature": "kept"}])),
        user(json!([{"text": ""}])),
        user(json!([{"text": "after"}])),
        user(json!([response("1")])),
    ]);
    let expected = json!([
        user(json!([{"text": "<session_context>"}, {"text": "hi"}])),
        model(json!([call("1", Some("s")), {"text": "", "thoughtSignature": "kept"}])),
        user(json!([response("1"), {"text": "after"}])),
    ]);
    assert_eq!(sent(turns, false), expected);
}

#[test]
fn media_of_a_response_nest_or_follow_as_the_model_wants() {
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    let file = json!({"fileData": {"mimeType": "text/plain", "fileUri": "gs://x"}});
    let mut with_media = response("1");
    with_media["functionResponse"]["parts"] = json!([image, file]);
    let turns = json!([
        user(json!([{"text": "go"}])),
        model(json!([call("1", Some("s")), call("2", None)])),
        user(json!([with_media, response("2")])),
    ]);
    let beside = sent(turns.clone(), false);
    assert_eq!(beside[2]["parts"], json!([response("1"), response("2"), image, file]));
    let nested = sent(turns, true);
    let mut inside = response("1");
    inside["functionResponse"]["parts"] = json!([image]);
    assert_eq!(nested[2]["parts"], json!([inside, response("2"), file]));
}

#[test]
fn unknown_fields_and_key_order_survive() {
    let part = json!({"text": "x", "thoughtSignature": "s", "videoMetadata": {"fps": 1}});
    let other = json!({"executableCode": {"language": "PYTHON", "code": "1"}});
    let turns = json!([user(json!([{"text": "go"}])), model(json!([part, other]))]);
    assert_eq!(sent(turns.clone(), false).to_string(), turns.to_string());
}

fn any_part() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"text": "t"}),
        json!({"text": ""}),
        json!({"text": "why", "thought": true}),
        json!({"text": "why", "thought": true, "thoughtSignature": "s"}),
        json!({}),
        call("ls__1", None),
        call("1", Some("s")),
        response("ls__1"),
    ])
}

proptest! {
    #[test]
    fn whatever_the_history_roles_alternate_and_no_thought_is_sent(
        turns in prop::collection::vec((any::<bool>(), prop::collection::vec(any_part(), 0..4)), 0..8)
    ) {
        let turns: Vec<Value> = turns
            .into_iter()
            .map(|(is_user, parts)| if is_user { user(json!(parts)) } else { model(json!(parts)) })
            .collect();
        let sent = sent(Value::Array(turns), true);
        let sent = sent.as_array().unwrap();
        for pair in sent.windows(2) {
            prop_assert_ne!(&pair[0]["role"], &pair[1]["role"]);
        }
        for part in sent.iter().flat_map(|turn| turn["parts"].as_array().unwrap()) {
            prop_assert!(part.as_object().is_some_and(|part| !part.is_empty()));
            prop_assert!(part["thought"] != true);
        }
        prop_assert!(sent.iter().all(|turn| !turn["parts"].as_array().unwrap().is_empty()));
    }
}

#[test]
fn what_is_anothers_or_the_programs_own_is_not_sent() {
    use pollux_domain::content::{Seal, SealKind};
    use pollux_domain::model::{Origin, ProviderId};
    use std::sync::Arc;

    let elsewhere = Origin {
        provider: ProviderId::new("anthropic"),
        dialect: Dialect::new("messages"),
        host: String::new(),
        model: String::new(),
        response_id: None,
        phase: None,
    };
    let seal = || Some(Seal { kind: SealKind::AnthropicThinking, data: json!("s") });
    let thinking = Part::from(Body::Reasoning { text: "hm".into(), summary: false, seal: seal() });
    let mut text = Part::text("a");
    text.seal = seal();
    text.extra = json!({"cache_control": 1, "pollux": {"x": 1}}).as_object().unwrap().clone();
    let block = Body::Other(json!({"anthropicBlock": {"type": "x"}}).as_object().unwrap().clone());
    let mut turn = Content::model(vec![thinking, text, block.into()]);
    let sent = |turn: &Content| serde_json::to_value(hygiene([turn], false)).unwrap()[0]["parts"].clone();
    assert_eq!(sent(&turn)[0], json!({"text": "a", "cache_control": 1}));
    turn.origin = Some(Arc::new(elsewhere));
    assert_eq!(sent(&turn), json!([{"text": "a"}]));
}
