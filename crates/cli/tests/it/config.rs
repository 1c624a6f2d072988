//! `pollux config` from the command line.

use std::fs;

use pollux_test_support::{Run, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, parse, read_json};

fn config(scene: &Scene, args: &[&str]) -> Run {
    let args: Vec<&str> = ["config"].into_iter().chain(args.iter().copied()).collect();
    // Settings need neither a key nor a server.
    scene.prepare(&args).without_env("GEMINI_API_KEY").without_env("GOOGLE_GEMINI_BASE_URL").run()
}

#[test]
fn each_value_comes_with_where_it_came_from() {
    let home = TestHome::new()
        .settings(json!({"ui": {"theme": "User"}, "model": {"name": "user-model", "maxSessionTurns": 5}}))
        .project_settings(json!({"model": {"name": "project-model"}}))
        .home_file("defaults.json", r#"{"ui": {"theme": "System", "hideTips": true}}"#)
        .home_file("overrides.json", r#"{"general": {"vimMode": true}}"#);
    let (defaults, overrides) = (home.home().join("defaults.json"), home.home().join("overrides.json"));
    let home = home
        .env("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", defaults.to_str().unwrap())
        .env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", overrides.to_str().unwrap());
    let scene = Scene::with(home, []);
    let shown = config(&scene, &["show", "--origin", "--json"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    let object = parse(&shown.stdout);
    let user = scene.home.gemini_dir().join("settings.json");
    let project = scene.home.project().join(".gemini/settings.json");
    let expected: &[(&str, Value, &str)] = &[
        ("ui.theme", json!("User"), user.to_str().unwrap()),
        ("ui.hideTips", json!(true), defaults.to_str().unwrap()),
        ("model.name", json!("project-model"), project.to_str().unwrap()),
        ("model.maxSessionTurns", json!(5), user.to_str().unwrap()),
        ("general.vimMode", json!(true), overrides.to_str().unwrap()),
        ("output.format", json!("text"), "default"),
    ];
    for (key, value, origin) in expected {
        assert_eq!(object[key]["value"], *value, "{key}");
        let found = object[key]["origin"].as_str().unwrap();
        assert!(found.contains(origin), "{key}: {found} is not {origin}");
    }
    let with_env = scene.prepare(&["config", "show", "--origin", "--json"]).env("GEMINI_MODEL", "env-model").run();
    let object = parse(&with_env.stdout);
    assert_eq!(object["model.name"]["value"], "env-model");
    assert!(object["model.name"]["origin"].as_str().unwrap().contains("GEMINI_MODEL"));
    let flagged = scene.prepare(&["-m", "flag-model", "config", "show", "--origin"]).run();
    let line = flagged.stdout.lines().find(|line| line.starts_with("model.name ")).unwrap_or_default().to_owned();
    assert!(line.contains("\"flag-model\"") && line.contains("(command line)"), "{line} {}", flagged.stderr);
}

#[test]
fn one_value_or_a_group_is_printed_bare() {
    let scene = Scene::with(TestHome::new().settings(json!({"model": {"name": "m1"}})), []);
    assert_eq!(config(&scene, &["get", "model.name"]).stdout, "m1\n");
    assert_eq!(config(&scene, &["get", "model.maxSessionTurns"]).stdout, "-1\n");
    assert_eq!(parse(&config(&scene, &["get", "model"]).stdout)["name"], "m1");
    let unknown = config(&scene, &["get", "model.nam"]);
    assert_eq!((unknown.stdout.as_str(), unknown.code), ("", Some(1)));
    assert!(unknown.stderr.contains("model.name"), "{}", unknown.stderr);
}

#[test]
fn setting_a_value_keeps_comments_unknown_keys_and_references() {
    let text = "{\n  // why this theme\n  \"ui\": { \"theme\": \"Dark\" }, /* mine */\n  \"mcpServers\": {\"s\": {\"command\": \"x\", \"env\": {\"T\": \"$MY_TOKEN\"}}},\n  \"somethingNew\": [1, 2]\n}\n";
    let home = TestHome::new().home_file(".gemini/settings.json", text).env("MY_TOKEN", "canary-token-value");
    let scene = Scene::with(home, []);
    let run = config(&scene, &["set", "model.name", "m2"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let file = scene.home.gemini_dir().join("settings.json");
    let after = fs::read_to_string(&file).unwrap();
    for kept in ["// why this theme", "/* mine */", "$MY_TOKEN", "\"somethingNew\": [1, 2]", "\"Dark\""] {
        assert!(after.contains(kept), "{kept} in {after}");
    }
    assert!(!after.contains("canary-token-value"));
    assert_eq!(config(&scene, &["get", "model.name"]).stdout, "m2\n");
    let servers = config(&scene, &["get", "mcpServers"]).stdout;
    assert!(servers.contains("***") && !servers.contains("canary-token-value"), "{servers}");
    config(&scene, &["set", "model.maxSessionTurns", "7"]);
    config(&scene, &["set", "general.vimMode", "true"]);
    assert_eq!(config(&scene, &["get", "model.maxSessionTurns"]).stdout, "7\n");
    assert_eq!(config(&scene, &["get", "general.vimMode"]).stdout, "true\n");
}

#[test]
fn a_new_file_is_made_in_the_asked_scope() {
    let scene = Scene::new([]);
    let run = config(&scene, &["set", "ui.theme", "Light", "--scope", "project"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(read_json(&scene.home.project().join(".gemini/settings.json")), json!({"ui": {"theme": "Light"}}));
    assert!(!scene.home.gemini_dir().join("settings.json").exists());
    let at_home = scene.prepare(&["config", "set", "ui.theme", "X", "--scope", "project"]).in_dir(&scene.home.home()).run();
    assert_eq!(at_home.code, Some(1));
    assert!(at_home.stderr.contains("Please use --scope user to edit settings in the home directory."));
}

#[test]
fn a_wrong_value_or_key_is_refused_and_changes_nothing() {
    let scene = Scene::with(TestHome::new().settings(json!({"ui": {"theme": "Dark"}})), []);
    let file = scene.home.gemini_dir().join("settings.json");
    let before = fs::read(&file).unwrap();
    for args in [["set", "general.vimMode", "maybe"], ["set", "model.nmae", "x"], ["set", "output.format", "xml"]] {
        let run = config(&scene, &args);
        assert_eq!(run.code, Some(1), "{args:?}: {} {}", run.stdout, run.stderr);
        assert!(run.stderr.contains(args[1]), "{}", run.stderr);
        assert_eq!(fs::read(&file).unwrap(), before);
    }
    fs::write(&file, "{ broken").unwrap();
    let broken = config(&scene, &["set", "ui.theme", "Light"]);
    assert_eq!(broken.code, Some(52), "{}", broken.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ broken");
}

#[test]
fn references_are_expanded_for_use_and_never_on_disk() {
    let settings = json!({"model": {"name": "${MY_MODEL:-fallback-model}"}});
    let scene = Scene::with(TestHome::new().settings(settings), [reply().text("a"), reply().text("b")]);
    scene.prepare(&["-p", "x"]).run();
    scene.prepare(&["-p", "x"]).env("MY_MODEL", "chosen-model").run();
    assert!(scene.server.request(0).path.contains("/fallback-model:"));
    assert!(scene.server.request(1).path.contains("/chosen-model:"));
    let text = fs::read_to_string(scene.home.gemini_dir().join("settings.json")).unwrap();
    assert!(text.contains("${MY_MODEL:-fallback-model}"), "{text}");
}

#[test]
fn old_flat_settings_are_migrated_with_a_backup() {
    let old = "{\n  // my model\n  \"model\": \"old-model\",\n  \"theme\": \"Dark\",\n  \"disableAutoUpdate\": true,\n  \"maxSessionTurns\": 9,\n  \"selectedAuthType\": \"gemini-api-key\",\n  \"myOwn\": {\"k\": 1}\n}\n";
    let scene = Scene::with(TestHome::new().home_file(".gemini/settings.json", old), [reply().text("ok")]);
    let run = scene.prepare(&["-p", "x"]).run();
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert!(scene.server.request(0).path.contains("/old-model:"));
    let dir = scene.home.gemini_dir();
    assert_eq!(fs::read_to_string(dir.join("settings.json.orig")).unwrap(), old);
    let object = config(&scene, &["show", "--json"]);
    let shown = parse(&object.stdout);
    assert_eq!(shown["general.enableAutoUpdate"]["value"], false);
    assert_eq!(shown["model.maxSessionTurns"]["value"], 9);
    assert_eq!(shown["ui.theme"]["value"], "Dark");
    let text = fs::read_to_string(dir.join("settings.json")).unwrap();
    assert!(text.contains("\"myOwn\"") && text.contains("my model"), "{text}");
    assert!(run.stderr.contains("settings.json.orig"), "{}", run.stderr);
}

#[test]
fn secrets_are_not_shown() {
    let scene = Scene::with(TestHome::new().settings(json!({"api": {"key": "canary-in-settings"}})), []);
    for args in [&["show"][..], &["show", "--json"], &["show", "--origin"], &["get", "api.key"], &["get", "api"]] {
        let run = config(&scene, args);
        assert_eq!(run.code, Some(0), "{args:?} {}", run.stderr);
        assert!(!run.stdout.contains("canary-in-settings") && !run.stderr.contains("canary-in-settings"), "{args:?}");
    }
}

#[test]
fn a_key_in_settings_is_enough_to_ask_the_model() {
    let scene = Scene::with(TestHome::new().settings(json!({"api": {"key": "from-settings"}})), [reply().text("ok")]);
    let run = scene.prompt(&["-p", "x"]).without_env("GEMINI_API_KEY").run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(scene.server.request(0).header("x-goog-api-key"), Some("from-settings"));
}

#[test]
fn a_key_in_a_dotenv_file_is_used_and_the_real_environment_wins() {
    let home = TestHome::new().home_file(".gemini/.env", "GEMINI_API_KEY=from-dotenv\n");
    let scene = Scene::with(home, [reply().text("a"), reply().text("b")]);
    scene.prompt(&["-p", "x"]).without_env("GEMINI_API_KEY").run();
    scene.prompt(&["-p", "x"]).run();
    assert_eq!(scene.server.request(0).header("x-goog-api-key"), Some("from-dotenv"));
    assert_eq!(scene.server.request(1).header("x-goog-api-key"), Some("test-key"));
}

#[test]
fn the_home_can_be_moved_in_both_ways() {
    let scene = Scene::new([reply().text("a"), reply().text("b")]);
    let upstream = scene.home.home().join("upstream");
    let seed = scene.home.home().join("seed");
    fs::create_dir_all(&seed).unwrap();
    fs::write(seed.join("settings.json"), r#"{"model": {"name": "seed-model"}}"#).unwrap();
    scene.prompt(&["-p", "x"]).env("GEMINI_CLI_HOME", upstream.to_str().unwrap()).run();
    assert!(upstream.join(".gemini/tmp").is_dir());
    scene.prepare(&["-p", "x"]).env("GEMINI_CLI_HOME", seed.to_str().unwrap()).run();
    assert!(seed.join("tmp").is_dir() && !seed.join(".gemini").exists());
    assert!(scene.server.request(1).path.contains("/seed-model:"));
}
