use super::*;

use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::json;

use crate::state::AgentId;

struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

const NOW: i64 = 1_800_000_000_000;

fn store() -> (tempfile::TempDir, Arc<Hand>, SessionStore) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand(AtomicI64::new(NOW)));
    let store = SessionStore::new(folder.path().join("s/sessions.json"), DEFAULT_TTL, clock.clone());
    (folder, clock, store)
}

fn object(value: Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

fn plant(store: &SessionStore, text: &str) {
    files::replace(&store.file, text.as_bytes(), Mode::Private).unwrap();
}

#[test]
fn an_entry_gets_an_id_and_keeps_fields_that_we_do_not_know() {
    let (_folder, clock, store) = store();
    let key = SessionKey::main(&AgentId::default());
    let first = store.upsert(&key, object(json!({"mystery": {"a": [1]}, "updatedAt": NOW + 5}))).unwrap();
    clock.0.store(NOW + 1, Ordering::Relaxed);
    let second = store.upsert(&key, object(json!({"label": "x"}))).unwrap();
    assert_eq!(second["sessionId"], first["sessionId"]);
    assert_eq!(second["mystery"], json!({"a": [1]}));
    assert_eq!(second["updatedAt"], NOW + 5, "the newest of all times");
    assert_eq!(store.read().unwrap()[key.as_str()], Value::Object(second));
    assert!(store.remove(&key).unwrap() && store.read().unwrap().is_empty());
}

#[test]
fn old_names_of_fields_are_read() {
    let (_folder, _, store) = store();
    plant(
        &store,
        r#"{"k": {"provider": "irc", "lastProvider": "a", "lastChannel": "b", "room": "r"}, "n": null}"#,
    );
    let entry = &store.read().unwrap()["k"];
    assert_eq!((&entry["channel"], &entry["lastChannel"]), (&json!("irc"), &json!("b")));
    assert_eq!((&entry["groupChannel"], entry.get("room")), (&json!("r"), None));
}

#[test]
fn an_invalid_store_is_moved_aside() {
    for text in ["[1]", "{half", "\u{0}"] {
        let (_folder, _, store) = store();
        plant(&store, text);
        assert!(store.read().unwrap().is_empty());
        store.update(|_| ()).unwrap();
        let aside = store.file.with_file_name(format!("sessions.json.corrupt-{NOW}"));
        assert_eq!(fs::read_to_string(aside).unwrap(), text);
    }
}

#[test]
fn the_cache_answers_until_the_file_or_the_time_says_otherwise() {
    let (_folder, clock, store) = store();
    plant(&store, r#"{"a": {}}"#);
    assert!(store.read().unwrap().contains_key("a"));
    // The same size and the same time: only a cache can still say `a`.
    let meta = fs::metadata(&store.file).unwrap();
    plant(&store, r#"{"b": {}}"#);
    fs::File::options()
        .write(true)
        .open(&store.file)
        .unwrap()
        .set_modified(meta.modified().unwrap())
        .unwrap();
    assert!(store.read().unwrap().contains_key("a"));
    clock.0.store(NOW + 45_001, Ordering::Relaxed);
    assert!(store.read().unwrap().contains_key("b"), "the time is over");
    plant(&store, r#"{"longer": {}}"#);
    assert!(store.read().unwrap().contains_key("longer"), "another size");
}

#[test]
fn sessions_of_hooks_end_and_no_others() {
    let (_folder, _, store) = store();
    let hours = 3_600_000;
    let mut entries = JsonObject::new();
    entries.insert("hook:old".into(), json!({"updatedAt": NOW - 49 * hours, "sessionId": "gone-1"}));
    entries.insert("hook:none".into(), json!({}));
    entries.insert("hook:null".into(), Value::Null);
    entries.insert("agent:main:main".into(), json!({"updatedAt": 1}));
    for number in 0..600 {
        entries.insert(format!("hook:{number}"), json!({"updatedAt": NOW - number}));
    }
    plant(&store, &Value::Object(entries).to_string());
    let transcript = store.file.with_file_name("gone-1.jsonl");
    files::replace(&transcript, b"{}\n", Mode::Private).unwrap();
    store.update(|_| ()).unwrap();
    let left = store.read().unwrap();
    assert_eq!(left.len(), 501);
    assert!(
        left.contains_key("agent:main:main")
            && left.contains_key("hook:499")
            && !left.contains_key("hook:500")
    );
    assert!(!transcript.exists());
}

#[test]
fn the_environment_sets_the_time_of_the_cache() {
    let ttl = |value: &str| {
        cache_ttl(&Env::new([(CACHE_TTL_VARIABLE.to_owned(), value.to_owned())], PathBuf::new()))
    };
    assert_eq!((ttl("0"), ttl("100")), (Duration::ZERO, Duration::from_millis(100)));
    assert_eq!((ttl("-1"), ttl("x"), ttl("")), (DEFAULT_TTL, DEFAULT_TTL, DEFAULT_TTL));
}

#[test]
fn a_store_that_a_person_edited_is_read_and_not_put_aside() {
    let (_folder, _clock, store) = store();
    plant(&store, "{ // mine\n 'agent:main:main': {sessionId: 'a', updatedAt: 5,}, /* all */ }");
    let read = store.read().unwrap();
    assert_eq!(read["agent:main:main"], json!({"sessionId": "a", "updatedAt": 5}));
    store.upsert(&SessionKey::main(&AgentId::default()), object(json!({"label": "x"}))).unwrap();
    assert_eq!(store.read().unwrap()["agent:main:main"]["sessionId"], "a");
    let aside = std::fs::read_dir(store.file.parent().unwrap()).unwrap().flatten();
    assert_eq!(aside.filter(|entry| entry.file_name().to_string_lossy().contains("corrupt")).count(), 0);
    plant(&store, &"[".repeat(100_000));
    assert!(store.read().unwrap().is_empty());
}
