//! Exit codes and the messages that go with them.

use std::fs;

use pollux_test_support::{Run, TestHome, reply};
use serde_json::json;

use crate::scene::{Scene, lines, panicked, parse};

#[test]
fn without_credentials_the_exit_is_41_and_the_text_tells_the_ways_in() {
    let scene = Scene::new([]);
    let plain =
        scene.prompt(&["-p", "x"]).without_env("GEMINI_API_KEY").without_env("GOOGLE_GEMINI_BASE_URL");
    let run = plain.run();
    assert_eq!((run.stdout.as_str(), run.code), ("", Some(41)));
    let settings = scene.home.gemini_dir().join("settings.json");
    let text = format!(
        "Please set an Auth method in your {} or specify one of the following environment variables before running: GEMINI_API_KEY, GOOGLE_GENAI_USE_VERTEXAI",
        settings.display()
    );
    assert!(run.stderr.contains(&text), "{}", run.stderr);
    assert!(run.stderr.contains("pollux demo"), "a newcomer is told what works at once: {}", run.stderr);

    let upstream = scene
        .prompt(&["-p", "x", "-o", "json", "--output-dialect", "gemini-cli"])
        .without_env("GEMINI_API_KEY")
        .without_env("GOOGLE_GEMINI_BASE_URL")
        .run();
    assert_eq!((upstream.stdout.as_str(), upstream.code), ("", Some(41)));
    let object = parse(&upstream.stderr);
    assert_eq!((&object["error"]["code"], &object["error"]["type"]), (&json!(41), &json!("Error")));
}

#[test]
fn a_scripted_model_needs_credentials_too() {
    let home = TestHome::new().file("f.jsonl", "");
    let run = Scene::with(home, [])
        .prompt(&["-p", "x", "--fake-responses", "f.jsonl"])
        .without_env("GEMINI_API_KEY")
        .without_env("GOOGLE_GEMINI_BASE_URL")
        .run();
    assert_eq!(run.code, Some(41));
}

#[test]
fn an_enforced_auth_type_that_differs_is_refused() {
    let auth = json!({"auth": {"enforcedType": "gemini-api-key", "selectedType": "oauth-personal"}});
    let scene = Scene::with(TestHome::new().settings(json!({"security": auth})), []);
    let run = scene.run(&["-p", "x"]);
    assert_eq!(run.code, Some(41));
    assert!(run.stderr.contains("enforced authentication type is 'gemini-api-key'"), "{}", run.stderr);
    assert!(run.stderr.contains("current type is 'oauth-personal'"), "{}", run.stderr);
}

fn broken(make: impl FnOnce(&std::path::Path)) -> (Scene, Run) {
    let scene = Scene::new([]);
    let file = scene.home.gemini_dir().join("settings.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    make(&file);
    let run = scene.run(&["-p", "x"]);
    (scene, run)
}

#[test]
fn settings_that_cannot_be_read_are_exit_52_and_stay_as_they_are() {
    let texts: &[(&[u8], &str)] = &[
        (b"{\"model\": {\"name\": }}", "settings.json"),
        (b"{\n  \"a\": 1,\n  \"b\": 2,,\n}", "3"),
        (b"", "settings.json"),
        (b"[1, 2]", "Settings file is not a valid JSON object."),
        (b"\x00\x01\xff\xfebinary\x00", "settings.json"),
        (b"{\"a\": 1", "settings.json"),
    ];
    for (bytes, needle) in texts {
        let (scene, run) = broken(|file| fs::write(file, bytes).unwrap());
        let shown = String::from_utf8_lossy(bytes).into_owned();
        assert_eq!((run.stdout.as_str(), run.code), ("", Some(52)), "{shown:?}: {}", run.stderr);
        assert!(
            run.stderr.contains(needle) && run.stderr.contains("settings.json"),
            "{shown:?}: {}",
            run.stderr
        );
        assert!(!panicked(&run));
        assert_eq!(fs::read(scene.home.gemini_dir().join("settings.json")).unwrap(), *bytes);
        let others: Vec<_> = fs::read_dir(scene.home.gemini_dir()).unwrap().flatten().collect();
        assert_eq!(others.len(), 1, "{others:?}");
    }
}

#[test]
fn a_folder_in_place_of_the_settings_is_exit_52() {
    let (_scene, run) = broken(|file| fs::create_dir(file).unwrap());
    assert_eq!(run.code, Some(52), "{}", run.stderr);
    assert!(run.stderr.contains("settings.json"), "{}", run.stderr);
}

#[test]
fn settings_without_read_permission_are_exit_52() {
    use std::os::unix::fs::PermissionsExt;
    let mut readable = false;
    let (_scene, run) = broken(|file| {
        fs::write(file, "{}").unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o0)).unwrap();
        // Root reads everything.
        readable = fs::read(file).is_ok();
    });
    if !readable {
        assert_eq!(run.code, Some(52), "{}", run.stderr);
    }
}

#[test]
fn a_failure_at_the_start_is_told_in_the_asked_format() {
    let scene = Scene::with(TestHome::new().home_file(".gemini/settings.json", "{"), []);
    let ours = scene.run(&["-p", "x", "-o", "json"]);
    assert_eq!(parse(&ours.stdout)["error"]["type"], "CONFIG_ERROR");
    assert_eq!(ours.code, Some(52));
    let stream = scene.run(&["-p", "x", "-o", "stream-json"]);
    let events = lines(&stream.stdout);
    assert_eq!(events.last().unwrap()["success"], false);
    let upstream = scene.run(&["-p", "x", "-o", "stream-json", "--output-dialect", "gemini-cli"]);
    assert_eq!((upstream.stdout.as_str(), upstream.code), ("", Some(52)));
}

#[test]
fn a_wrong_value_in_readable_settings_warns_and_goes_on() {
    let home = TestHome::new().settings(json!({"general": {"vimMode": "maybe"}, "unknownThing": 1}));
    let scene = Scene::with(home, [reply().text("ok")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)));
    assert!(run.stderr.contains("general.vimMode") && run.stderr.contains("settings.json"), "{}", run.stderr);
}

#[test]
fn the_turn_limit_is_exit_53() {
    let home = TestHome::new().settings(json!({"model": {"maxSessionTurns": 2}}));
    let call = |pattern: &str| reply().call("glob", json!({"pattern": pattern}));
    let scene = Scene::with(home, [call("a"), call("b"), call("c"), call("d"), call("e"), call("f")]);
    let (events, code) = scene.events(&["-p", "x"]);
    assert_eq!(code, Some(53));
    assert_eq!(scene.server.requests().len(), 2);
    assert_eq!(events.last().unwrap()["error"]["code"], "MAX_TURNS");
    let upstream = scene.run(&["-p", "x", "-o", "stream-json", "--output-dialect", "gemini-cli"]);
    let result = lines(&upstream.stdout).pop().unwrap();
    assert_eq!((&result["error"]["type"], upstream.code), (&json!("FatalTurnLimitedError"), Some(53)));
}

#[test]
fn a_sandbox_that_does_not_exist_is_exit_44() {
    let scene = Scene::new([]);
    let run = scene.prompt(&["-p", "x"]).env("GEMINI_SANDBOX", "bogus").run();
    assert_eq!(run.code, Some(44), "{}", run.stderr);
    let off = Scene::new([reply().text("ok")]);
    assert_eq!(off.prompt(&["-p", "x"]).env("GEMINI_SANDBOX", "false").run().code, Some(0));
}

#[test]
fn forbidden_yolo_is_exit_52() {
    let home = TestHome::new().settings(json!({"security": {"disableYoloMode": true}}));
    let run = Scene::with(home, []).run(&["-p", "x", "--yolo"]);
    assert_eq!(run.code, Some(52), "{}", run.stderr);
}

#[test]
fn mistakes_on_the_command_line_are_exit_1_and_told_in_a_few_lines() {
    let scene = Scene::new([]);
    let cases: &[(&[&str], &str)] = &[
        (&["-p", "a", "b"], "Cannot use both a positional prompt and the --prompt (-p) flag together"),
        (&["-p", "a", "-i", "b"], "Cannot use both --prompt (-p) and --prompt-interactive (-i) together"),
        (
            &["-y", "--approval-mode", "plan", "x"],
            "Cannot use both --yolo (-y) and --approval-mode together.",
        ),
        (
            &["-o", "xml", "x"],
            "Argument: output-format, Given: \"xml\", Choices: \"text\", \"json\", \"stream-json\"",
        ),
        (&["--session-id", "", "x"], "The --session-id option cannot be empty."),
        (&["--session-id", "a/b", "x"], "Only alphanumeric characters, dashes, and underscores are allowed."),
        (&["--session-id", "7", "x"], "numbers and \"latest\" select sessions of the list"),
        (&["--resume", "1", "--session-id", "a", "-p", "x"], "mutually exclusive"),
        (&["--nope"], "Unknown argument: nope"),
    ];
    for (args, message) in cases {
        let run = scene.prepare(args).run();
        assert_eq!((run.stdout.as_str(), run.code), ("", Some(1)), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(message), "{args:?}: {}", run.stderr);
        assert!(run.stderr.lines().count() <= 4, "{args:?}: {}", run.stderr);
    }
}
