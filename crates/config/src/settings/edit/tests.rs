use std::fs;

use serde_json::json;

use super::*;
use crate::scratch::{Scratch, USER};

#[test]
fn only_the_value_changes_and_the_rest_keeps_its_bytes() {
    let scratch = Scratch::new();
    let before = "{\n    // my theme\n    \"ui\": { \"theme\":\"a\" }, /* b */\n\n    \"mine\": [1,2 ,3],\n    \"mcpServers\": { \"x\": {\"env\": {\"T\": \"$TOKEN\"}} }\n}\n\n";
    let file = scratch.write(USER, before);
    set_value(&file, "ui.theme", &json!("b")).unwrap();
    assert_eq!(scratch.read(USER), before.replace("\"a\"", "\"b\""));
    set_value(&file, "general.vimMode", &json!(true)).unwrap();
    let wanted = before.replace("\"a\"", "\"b\"").replace(
        "\"$TOKEN\"}} }\n}",
        "\"$TOKEN\"}} },\n    \"general\": {\n        \"vimMode\": true\n    }\n}",
    );
    assert_eq!(scratch.read(USER), wanted);
    remove_value(&file, "general.vimMode").unwrap();
    remove_value(&file, "general.vimMode").unwrap();
    remove_value(&file, "no.such.key").unwrap();
    assert_eq!(scratch.read(USER), wanted.replace("{\n        \"vimMode\": true\n    }", "{}"));
}

#[test]
fn a_missing_file_is_created_and_removing_from_none_creates_nothing() {
    let scratch = Scratch::new();
    let file = scratch.path(USER);
    remove_value(&file, "ui.theme").unwrap();
    assert!(!file.exists() && scratch.names("home").is_empty());
    set_value(&file, "tools.exclude", &json!(["a"])).unwrap();
    assert_eq!(scratch.read(USER), "{\n  \"tools\": {\n    \"exclude\": [\n      \"a\"\n    ]\n  }\n}\n");
    assert_eq!(scratch.names("home/.gemini"), ["settings.json"]);
}

#[test]
fn a_file_that_does_not_parse_is_refused_and_left() {
    let scratch = Scratch::new();
    for bad in ["{\n  \"a\": 1,\n}", "", "[]"] {
        let file = scratch.write(USER, bad);
        let error = set_value(&file, "ui.theme", &json!("b")).unwrap_err();
        assert!(matches!(&error, EditError::BadFile(bad) if bad.path == file), "{error}");
        assert_eq!(scratch.read(USER), bad);
    }
    let file = scratch.write(USER, "{\n  \"a\": 1,\n}");
    let error = remove_value(&file, "a").unwrap_err().to_string();
    assert!(error.contains("line 2, column 9: trailing comma (fix: remove the trailing comma)"), "{error}");
}

#[test]
fn short_telemetry_becomes_an_object_and_other_values_are_not_overwritten() {
    let scratch = Scratch::new();
    let file = scratch.write(USER, "{\"telemetry\": true, \"ui\": 5}");
    set_value(&file, "telemetry.target", &json!("gcp")).unwrap();
    let value: Value = serde_json::from_str(&scratch.read(USER)).unwrap();
    assert_eq!(value, json!({"telemetry": {"enabled": true, "target": "gcp"}, "ui": 5}));
    let error = set_value(&file, "ui.theme", &json!("x")).unwrap_err();
    assert!(matches!(error, EditError::Blocked { ref key, .. } if key == "ui"), "{error}");
}

#[test]
fn secrets_and_impossible_keys_are_refused() {
    let scratch = Scratch::new();
    let file = scratch.path(USER);
    for key in ["api.key", "api"] {
        assert!(matches!(set_value(&file, key, &json!("k")), Err(EditError::Secret { .. })), "{key}");
    }
    for key in ["", "a..b", ".a", "__proto__.x", "a.constructor"] {
        assert!(matches!(set_value(&file, key, &json!(1)), Err(EditError::BadKey { .. })), "{key}");
    }
    assert!(!file.exists());
}

#[test]
fn names_with_dots_are_set_by_path() {
    let scratch = Scratch::new();
    let file = scratch.path(USER);
    set_path(&file, &["mcpServers", "my.server", "command"], &json!("x")).unwrap();
    let value: Value = serde_json::from_str(&scratch.read(USER)).unwrap();
    assert_eq!(value, json!({"mcpServers": {"my.server": {"command": "x"}}}));
    remove_path(&file, &["mcpServers", "my.server"]).unwrap();
    assert_eq!(scratch.read(USER), "{\n  \"mcpServers\": {}\n}\n");
}

#[test]
fn a_dotted_key_is_replaced_by_the_nested_one() {
    let scratch = Scratch::new();
    for (before, after) in [
        (
            "{\n  // why\n  \"model.name\": \"dotted\"\n}\n",
            "{\n  \"model\": {\n    // why\n    \"name\": \"flash\"\n  }\n}\n",
        ),
        (
            "{\n  \"model.name\": \"dotted\",\n  \"model\": { \"name\": \"nested\" }\n}\n",
            "{\n  \"model\": { \"name\": \"flash\" }\n}\n",
        ),
    ] {
        let file = scratch.write(USER, before);
        let old = set_value(&file, "model.name", &json!("flash")).unwrap();
        assert_eq!(old, Some(json!("dotted")));
        assert_eq!(scratch.read(USER), after);
        assert_eq!(scratch.load().groups.model.name, "flash");
        scratch.write(USER, before);
        remove_value(&file, "model.name").unwrap();
        assert_eq!(scratch.load().groups.model.name, "auto");
    }
    let file = scratch
        .write(USER, "{\"general\": {\"rewind.enabled\": false}, \"general.rewind\": {\"maxFileMB\": 3}}");
    set_value(&file, "general.rewind.enabled", &json!(true)).unwrap();
    let value: Value = serde_json::from_str(&scratch.read(USER)).unwrap();
    assert_eq!(value, json!({"general": {"rewind": {"enabled": true}}, "general.rewind": {"maxFileMB": 3}}));
}

#[test]
fn a_dot_in_the_name_of_a_server_is_not_a_spelling_of_a_key() {
    let scratch = Scratch::new();
    let file = scratch.write(USER, "{\"mcpServers\": {\"a.command\": {\"command\": \"x\"}}}");
    set_value(&file, "mcpServers.a.command", &json!("y")).unwrap();
    let value: Value = serde_json::from_str(&scratch.read(USER)).unwrap();
    assert_eq!(value, json!({"mcpServers": {"a.command": {"command": "x"}, "a": {"command": "y"}}}));
}

#[test]
fn changes_from_many_threads_are_all_kept() {
    let scratch = Scratch::new();
    let file = scratch.write(USER, "{\n  // stays\n  \"ui\": {}\n}\n");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let file = &file;
            scope.spawn(move || {
                for number in 0..25 {
                    set_value(file, &format!("mine.t{thread}.n{number}"), &json!(number)).unwrap();
                }
            });
        }
    });
    let text = scratch.read(USER);
    assert!(text.starts_with("{\n  // stays\n"));
    let value = crate::jsonc::parse(&text).unwrap().value;
    for thread in 0..8 {
        let own = value["mine"][format!("t{thread}")].as_object().unwrap();
        assert_eq!(own.len(), 25);
        assert!((0..25).all(|number| own[&format!("n{number}")] == json!(number)));
    }
    assert_eq!(scratch.names("home/.gemini"), ["settings.json"]);
}

#[cfg(unix)]
#[test]
fn an_edit_through_a_link_changes_the_real_file() {
    let scratch = Scratch::new();
    scratch.write("dotfiles/s.json", "{}");
    fs::create_dir_all(scratch.path("home/.gemini")).unwrap();
    std::os::unix::fs::symlink(scratch.path("dotfiles/s.json"), scratch.path(USER)).unwrap();
    set_value(&scratch.path(USER), "ui.theme", &json!("x")).unwrap();
    assert!(fs::symlink_metadata(scratch.path(USER)).unwrap().is_symlink());
    assert!(scratch.read("dotfiles/s.json").contains("\"theme\": \"x\""));
    assert_eq!(scratch.names("dotfiles"), ["s.json"]);
}

#[test]
fn typed_text_becomes_a_value_of_the_keys_type() {
    for (key, text, value) in [
        ("general.vimMode", "true", json!(true)),
        ("general.vimMode", "FALSE", json!(false)),
        ("general.maxAttempts", "3", json!(3)),
        ("model.compressionThreshold", "0.7", json!(0.7)),
        ("model.name", "gemini-2.5-pro", json!("gemini-2.5-pro")),
        ("model.name", "\"quoted\"", json!("quoted")),
        ("model.name", "7", json!("7")),
        ("output.format", "stream-json", json!("stream-json")),
        ("tools.exclude", "a, b", json!(["a", "b"])),
        ("tools.exclude", "[\"a,b\"]", json!(["a,b"])),
        ("tools.exclude", "", json!([])),
        ("context.fileName", "AGENTS.md", json!("AGENTS.md")),
        ("context.fileName", "[\"A\", \"B\"]", json!(["A", "B"])),
        ("tools.sandbox", "false", json!(false)),
        ("tools.sandbox", "docker", json!("docker")),
        ("mcpServers.github.command", "npx", json!("npx")),
        ("mcpServers.github.args", "[\"-y\"]", json!(["-y"])),
        ("theirs.key", "{\"a\": 1}", json!({"a": 1})),
    ] {
        assert_eq!(parse_user_value(key, text).as_ref(), Ok(&value), "{key} {text}");
    }
}

#[test]
fn typed_text_that_does_not_fit_is_explained() {
    for (key, text, message) in [
        (
            "general.vimMode",
            "yes",
            "invalid value `yes` for `general.vimMode`: expected a boolean, got a string",
        ),
        (
            "general.maxAttempts",
            "2.5",
            "invalid value `2.5` for `general.maxAttempts`: expected an integer, got a float",
        ),
        (
            "output.format",
            "xml",
            "invalid value `xml` for `output.format`: expected one of text, json, stream-json",
        ),
        ("tools.exclude", "[1]", "invalid value `[1]` for `tools.exclude`: expected a string, got a number"),
        ("mcpServers", "x", "invalid value `x` for `mcpServers`: expected an object as JSON"),
        (
            "general.vimMod",
            "true",
            "`general.vimMod` is not a known setting; did you mean `general.vimMode`?",
        ),
        ("vimMode", "true", "`vimMode` is not a known setting; did you mean `general.vimMode`?"),
        (
            "general.vimMode.x",
            "true",
            "`general.vimMode.x` is not a known setting; did you mean `general.vimMode`?",
        ),
        ("theirs.key", "not json", "`theirs.key` is not a known setting"),
        ("output", "{}", "`output` is a group of settings, for example `output.dialect`"),
        ("api.key", "k", "`api.key` is a secret and is never written to a settings file"),
    ] {
        assert_eq!(parse_user_value(key, text).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_change_that_an_editor_saves_meanwhile_is_kept() {
    let scratch = Scratch::new();
    let file = scratch.write(USER, "{\"ui\": {\"theme\": \"Default\"}}");
    let mut is_saved = false;
    change(&file, true, |patch| {
        if !std::mem::replace(&mut is_saved, true) {
            scratch.write(USER, "{\"ui\": {\"theme\": \"Dracula\"}}");
        }
        patch.set(&["ui", "hideTips"], &serde_json::json!(true))
    })
    .unwrap();
    let text = scratch.read(USER);
    assert!(text.contains("Dracula") && text.contains("\"hideTips\": true"), "{text}");
}
