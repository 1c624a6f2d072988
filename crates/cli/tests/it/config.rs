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
    let with_env =
        scene.prepare(&["config", "show", "--origin", "--json"]).env("GEMINI_MODEL", "env-model").run();
    let object = parse(&with_env.stdout);
    assert_eq!(object["model.name"]["value"], "env-model");
    assert!(object["model.name"]["origin"].as_str().unwrap().contains("GEMINI_MODEL"));
    let flagged = scene.prepare(&["-m", "flag-model", "config", "show", "--origin"]).run();
    let line =
        flagged.stdout.lines().find(|line| line.starts_with("model.name ")).unwrap_or_default().to_owned();
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
    assert_eq!(
        read_json(&scene.home.project().join(".gemini/settings.json")),
        json!({"ui": {"theme": "Light"}})
    );
    assert!(!scene.home.gemini_dir().join("settings.json").exists());
    let at_home = scene
        .prepare(&["config", "set", "ui.theme", "X", "--scope", "project"])
        .in_dir(&scene.home.home())
        .run();
    assert_eq!(at_home.code, Some(1));
    assert!(at_home.stderr.contains("Please use --scope user to edit settings in the home directory."));
}

#[test]
fn a_wrong_value_or_key_is_refused_and_changes_nothing() {
    let scene = Scene::with(TestHome::new().settings(json!({"ui": {"theme": "Dark"}})), []);
    let file = scene.home.gemini_dir().join("settings.json");
    let before = fs::read(&file).unwrap();
    for args in
        [["set", "general.vimMode", "maybe"], ["set", "model.nmae", "x"], ["set", "output.format", "xml"]]
    {
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
fn a_settings_file_that_is_mounted_is_written_in_place() {
    let home = TestHome::new().home_file(".gemini/settings.json", "{\n  \"ui\": { \"theme\": \"Dark\" }\n}");
    let file = home.gemini_dir().join("settings.json");
    let script = "mount --bind \"$1\" \"$1\" || exit 99; exec \"$0\" config set ui.theme Light";
    let inside = ["--user", "--map-root-user", "--mount", "sh", "-c", script];
    let args = [&inside[..], &[crate::scene::binary().to_str().unwrap(), file.to_str().unwrap()]].concat();
    let run = home.command("unshare".as_ref(), args).run();
    if run.code == Some(99) || run.stderr.contains("unshare") {
        return;
    }
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(read_json(&file)["ui"]["theme"], "Light");
    let left: Vec<_> =
        fs::read_dir(home.gemini_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[test]
fn secrets_are_not_shown() {
    let scene = Scene::with(TestHome::new().settings(json!({"api": {"key": "canary-in-settings"}})), []);
    for args in
        [&["show"][..], &["show", "--json"], &["show", "--origin"], &["get", "api.key"], &["get", "api"]]
    {
        let run = config(&scene, args);
        assert_eq!(run.code, Some(0), "{args:?} {}", run.stderr);
        assert!(
            !run.stdout.contains("canary-in-settings") && !run.stderr.contains("canary-in-settings"),
            "{args:?}"
        );
    }
}

#[test]
fn a_key_in_settings_is_enough_to_ask_the_model() {
    let scene =
        Scene::with(TestHome::new().settings(json!({"api": {"key": "from-settings"}})), [reply().text("ok")]);
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

#[test]
fn many_writers_at_once_lose_nothing() {
    let scene = Scene::with(TestHome::new().home_file(".gemini/settings.json", "{\n  // kept\n}\n"), []);
    let keys = [
        "ui.theme",
        "model.name",
        "general.preferredEditor",
        "ui.hideTips",
        "general.vimMode",
        "ui.hideBanner",
    ];
    let values = ["Dark", "m", "vim", "true", "true", "true"];
    let running: Vec<_> = keys
        .iter()
        .zip(values)
        .map(|(key, value)| scene.prepare(&["config", "set", key, value]).spawn())
        .collect();
    for run in running {
        let run = run.wait();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    let text = fs::read_to_string(scene.home.gemini_dir().join("settings.json")).unwrap();
    assert!(text.contains("// kept"), "{text}");
    for (key, value) in keys.iter().zip(values) {
        assert_eq!(config(&scene, &["get", key]).stdout.trim(), value, "{key}: {text}");
    }
    assert_eq!(crate::scene::all_files(&scene.home.gemini_dir()).len(), 1, "no temporary file is left");
}

#[test]
fn a_linked_settings_file_stays_a_link() {
    let scene = Scene::with(TestHome::new().home_file("dotfiles/settings.json", "{}"), []);
    fs::create_dir_all(scene.home.gemini_dir()).unwrap();
    let link = scene.home.gemini_dir().join("settings.json");
    let real = scene.home.home().join("dotfiles/settings.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(config(&scene, &["set", "model.name", "m3"]).code, Some(0));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read_json(&real)["model"]["name"], "m3");
}

#[test]
fn the_settings_of_an_untrusted_folder_are_neither_migrated_nor_emptied() {
    let old = "{\"theme\": \"Dark\", \"maxSessionTurns\": 1}";
    let scene = Scene::untrusted(TestHome::new().file(".gemini/settings.json", old), [reply().text("ok")]);
    let file = scene.home.project().join(".gemini/settings.json");
    assert_eq!(scene.prepare(&["-p", "x"]).run().code, Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), old);
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    let set = scene.prepare(&["config", "set", "model.name", "m4", "--scope", "project"]).run();
    let after = read_json(&file);
    assert!(after.to_string().contains("Dark"), "{after} {}", set.stderr);
}

#[test]
fn the_system_prompt_can_be_written_out_and_replaced() {
    let scene = Scene::new([reply().text("a"), reply().text("b")]);
    let file = scene.home.home().join("system.md");
    let name = file.to_str().unwrap();
    assert_eq!(scene.prompt(&["-p", "x"]).env("GEMINI_WRITE_SYSTEM_MD", name).run().code, Some(0));
    let written = fs::read_to_string(&file).unwrap();
    assert!(scene.server.request(0).system_text().contains(written.trim()), "{written:.200}");
    fs::write(&file, "ONLY THIS").unwrap();
    assert_eq!(scene.prompt(&["-p", "x"]).env("GEMINI_SYSTEM_MD", name).run().code, Some(0));
    assert!(scene.server.request(1).system_text().starts_with("ONLY THIS"));
    let missing = scene.prompt(&["-p", "x"]).env("GEMINI_SYSTEM_MD", "/no/such/file.md").run();
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("missing system prompt file '/no/such/file.md'"), "{}", missing.stderr);
}

#[test]
fn a_value_that_looks_like_a_reference_is_stored_as_typed() {
    let scene = Scene::with(TestHome::new().env("MY_MODEL", "expanded"), []);
    assert_eq!(config(&scene, &["set", "model.name", "$MY_MODEL"]).code, Some(0));
    let file = scene.home.gemini_dir().join("settings.json");
    assert_eq!(read_json(&file)["model"]["name"], "$MY_MODEL");
    assert_eq!(config(&scene, &["get", "model.name"]).stdout, "expanded\n");
    let secret = config(&scene, &["set", "api.key", "k-123"]);
    assert_eq!(secret.code, Some(1));
    assert!(!fs::read_to_string(&file).unwrap().contains("k-123"));
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_never_waited_for() {
    let scene = Scene::with(TestHome::new(), []);
    let pipe = scene.home.project().join(".env");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let run = config(&scene, &["get", "model.name"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "auto\n"), "{}", run.stderr);
}

#[test]
fn a_secret_that_is_not_set_is_shown_as_unset() {
    let scene = Scene::with(TestHome::new(), []);
    assert_eq!(config(&scene, &["get", "api.key"]).stdout, "null\n");
}
