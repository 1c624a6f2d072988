#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::collections::HashSet;
use std::fs;

use serde_json::json;

use super::*;

fn object(value: Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

#[test]
fn long_texts_and_media_leave_sensible_parts_and_come_back_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::of_chats(dir.path(), SessionKind::Main);
    let long = "größe ".repeat(20_000);
    let picture = "iVBORw0K".repeat(10_000);
    let medium = json!({"inlineData": {"mimeType": "image/png", "data": picture}, "extra": 1});
    let answer = json!({"functionResponse": {"id": "c", "response": {"output": long, "a/b~c": long},
        "parts": [medium, {"fileData": {}}, medium]}});
    let original =
        object(json!({"id": "c", "result": [answer, medium, {"text": "short"}], "resultDisplay": "x"}));
    let mut stored = original.clone();
    blobs.extract(&mut stored, Record::Call, &mut Guard::default());
    // What a reader sees that knows nothing of this.
    let result = stored["result"].as_array().unwrap();
    let output = result[0]["functionResponse"]["response"]["output"].as_str().unwrap();
    assert!(output.starts_with("größe größe") && output.contains("bytes left out") && output.len() < 5000);
    assert_eq!(result[0]["functionResponse"]["parts"], json!([{"fileData": {}}]));
    assert!(result[1]["text"].as_str().unwrap().starts_with("[image/png, 58 KB, kept in .blobs/"));
    assert_eq!(fs::read_dir(dir.path().join(FOLDER)).unwrap().count(), 2, "each content is stored once");
    assert_eq!(resolve(&blobs, &mut stored), 0);
    assert_eq!(stored, original);
}

#[test]
fn a_lost_or_damaged_blob_leaves_the_excerpt_and_the_order_of_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::of_chats(dir.path(), SessionKind::Main);
    let medium = |fill: &str| json!({"inlineData": {"mimeType": "image/png", "data": fill.repeat(70_000)}});
    let original =
        object(json!({"result": {"functionResponse": {"parts": [medium("a"), medium("b"), medium("c")]}},
        "resultDisplay": "x".repeat(70_000)}));
    let mut stored = original.clone();
    blobs.extract(&mut stored, Record::Call, &mut Guard::default());
    fs::remove_file(dir.path().join(FOLDER).join(sha256_hex("a".repeat(70_000).as_bytes()))).unwrap();
    fs::write(dir.path().join(FOLDER).join(sha256_hex("x".repeat(70_000).as_bytes())), "y".repeat(70_000))
        .unwrap();
    assert_eq!(resolve(&blobs, &mut stored), 2);
    assert_eq!(stored["result"]["functionResponse"]["parts"], json!([medium("b"), medium("c")]));
    assert!(stored["resultDisplay"].as_str().unwrap().contains("bytes left out"));
}

#[test]
fn hostile_marks_lead_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), "s").unwrap();
    let blobs = Blobs::of_chats(dir.path(), SessionKind::Main);
    let marks = json!([{"at": "/content", "sha256": "../secret", "bytes": 1}, {"at": "nowhere"}, 7,
        {"at": "/content/9/x", "sha256": "a".repeat(64), "bytes": u64::MAX, "omitted": true}]);
    let mut fields = object(json!({"content": "kept", FIELD: marks}));
    assert_eq!(resolve(&blobs, &mut fields), 4);
    assert_eq!(Value::Object(fields), json!({"content": "kept"}));
}

#[test]
fn the_words_of_a_person_stay_and_their_pictures_go() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::of_chats(dir.path(), SessionKind::Main);
    let words = "word ".repeat(40_000);
    let medium = json!({"inlineData": {"mimeType": "image/png", "data": "A".repeat(70_000)}});
    let original = object(json!({"content": [{"text": words}, medium], "displayContent": words}));
    let mut stored = original.clone();
    blobs.extract(&mut stored, Record::Prompt, &mut Guard::default());
    assert_eq!((&stored["content"][0], &stored["displayContent"]), (&json!({"text": words}), &json!(words)));
    assert!(stored["content"][1]["text"].as_str().unwrap().starts_with("[image/png, 51 KB"));
    assert_eq!(resolve(&blobs, &mut stored), 0);
    assert_eq!(stored, original);
}

#[test]
fn a_damaged_blob_is_mended_when_its_text_is_stored_again() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::of_chats(dir.path(), SessionKind::Main);
    let hash = blobs.put("whole").unwrap();
    fs::write(dir.path().join(FOLDER).join(&hash), "wrong").unwrap();
    assert_eq!(blobs.get(&hash, 5), None);
    assert_eq!(blobs.put("whole").unwrap(), hash);
    assert_eq!(blobs.get(&hash, 5).as_deref(), Some("whole"));
}

#[test]
fn marks_without_end_on_one_blob_cost_a_bounded_amount() {
    let dir = tempfile::tempdir().unwrap();
    let mut blobs = Blobs::of_chats(dir.path(), SessionKind::Main);
    let text = "x".repeat(1000);
    let hash = blobs.put(&text).unwrap();
    blobs.left = 2500.into();
    let mark = json!({"at": "/content/0", "sha256": hash, "bytes": 1000, "omitted": true});
    let mut fields = object(json!({"content": ["kept"], FIELD: vec![mark.clone(); 5000]}));
    assert_eq!(resolve(&blobs, &mut fields), 4998);
    assert_eq!(fields["content"], json!([text, text, "kept"]));
    let mut fields = object(json!({"content": ["kept"], FIELD: [mark]}));
    assert_eq!(resolve(&blobs, &mut fields), 1, "the sum counts over all records");
}

#[test]
fn only_blobs_without_users_are_swept() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::of_chats(dir.path(), SessionKind::Main);
    fs::create_dir_all(dir.path().join(FOLDER)).unwrap();
    let [one, two, three] = ["1", "2", "3"].map(|text| blobs.put(text).unwrap());
    fs::write(dir.path().join("session-x.json.torn-1"), format!("cut {{\"sha256\":\"{one}\"")).unwrap();
    fs::create_dir(dir.path().join("parent")).unwrap();
    fs::write(dir.path().join("parent/agent.jsonl"), format!("\"{two}\"")).unwrap();
    let only = HashSet::from([one.clone()]);
    assert!(sweep(dir.path(), Some(&only)).unwrap().is_empty());
    assert_eq!(sweep(dir.path(), None).unwrap(), [dir.path().join(FOLDER).join(three)]);
    assert_eq!(blobs.get(&one, 1).as_deref(), Some("1"));
    assert_eq!(Blobs::of_file(&dir.path().join("parent/agent.jsonl")).get(&two, 1).as_deref(), Some("2"));
}
