use serde_json::json;

use super::*;
use crate::scratch::Scratch;

#[test]
fn updates_keep_what_they_do_not_touch() {
    let scratch = Scratch::new();
    let home = scratch.home();
    assert!(read(&home).is_empty());
    scratch.write("home/.gemini/state.json", "{\"tipsShown\": 1, \"later\": {\"x\": []}}");
    update(&home, |state| drop(state.insert("tipsShown".to_owned(), json!(2)))).unwrap();
    assert_eq!(Value::Object(read(&home)), json!({"tipsShown": 2, "later": {"x": []}}));
    scratch.write("home/.gemini/state.json", "{broken");
    assert!(read(&home).is_empty());
    let aside = update(&home, |state| drop(state.insert("a".to_owned(), json!(1)))).unwrap().unwrap();
    assert_eq!(scratch.read("home/.gemini/state.json"), "{\n  \"a\": 1\n}");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "{broken");
}

#[test]
fn counts_from_many_threads_add_up() {
    let scratch = Scratch::new();
    let home = scratch.home();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let count = |state: &mut Map<String, Value>| {
                        let count = state.get("n").and_then(Value::as_i64).unwrap_or_default();
                        state.insert("n".to_owned(), json!(count + 1));
                    };
                    update(&home, count).unwrap();
                }
            });
        }
    });
    assert_eq!(read(&home)["n"], json!(80));
}

#[test]
fn the_installation_id_is_made_once() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let id = installation_id(&home);
    assert_eq!((id.len(), installation_id(&home)), (36, id.clone()));
    assert_eq!(scratch.read("home/.gemini/installation_id"), id, "no newline");
    scratch.write("home/.gemini/installation_id", "  mine \n");
    assert_eq!(installation_id(&home), "mine");
    scratch.write("home/.gemini/installation_id", "\n");
    assert_eq!(installation_id(&home).len(), 36);
    std::fs::remove_file(home.installation_id_file()).unwrap();
    std::fs::create_dir(home.installation_id_file()).unwrap();
    assert_eq!(installation_id(&home), "123456789");
}
