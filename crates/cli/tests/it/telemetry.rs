//! The telemetry file as existing drivers read it, and the key that must be in no file.

use std::fs;

use pollux_test_support::{Reply, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, all_files};

/// A home that writes telemetry to `telemetry.log` in it.
fn home(more: Value) -> TestHome {
    let home = TestHome::new();
    let mut telemetry = json!({"enabled": true, "target": "local", "otlpEndpoint": "",
        "outfile": home.home().join("telemetry.log")});
    for (key, value) in more.as_object().unwrap() {
        telemetry[key] = value.clone();
    }
    home.settings(json!({"telemetry": telemetry}))
}

/// The records, split as drivers split them.
fn records(scene: &Scene) -> Vec<Value> {
    let text = fs::read_to_string(scene.home.home().join("telemetry.log")).unwrap();
    let text = text.trim();
    let count = text.matches("}\n{").count();
    text.split("}\n{")
        .enumerate()
        .map(|(index, piece)| {
            let open = if index > 0 { "{" } else { "" };
            let close = if index < count { "}" } else { "" };
            let whole = format!("{open}{piece}{close}");
            serde_json::from_str(&whole).unwrap_or_else(|error| panic!("{error}: {whole}"))
        })
        .collect()
}

fn named(records: &[Value], name: &str) -> Vec<Value> {
    let name = format!("gemini_cli.{name}");
    records
        .iter()
        .filter(|record| record["attributes"]["event.name"] == name)
        .map(|record| record["attributes"].clone())
        .collect()
}

fn metric(records: &[Value], name: &str) -> Option<Value> {
    let metrics = records.iter().filter_map(|record| record["scopeMetrics"].as_array()).flatten();
    metrics
        .filter_map(|scope| scope["metrics"].as_array())
        .flatten()
        .find(|metric| metric["descriptor"]["name"].as_str().is_some_and(|known| known.ends_with(name)))
        .cloned()
}

fn replies() -> [Reply; 2] {
    [
        reply()
            .call("write_file", json!({"file_path": "a.txt", "content": "x\n"}))
            .call("read_file", json!({"file_path": "none.txt"}))
            .call("no_such_tool", json!({})),
        reply().text("Done.").usage(10, 3),
    ]
}

#[test]
fn a_command_that_failed_counts_as_a_failure() {
    let failing = reply().call("run_shell_command", json!({"command": "echo 'all well'; exit 3"}));
    let scene = Scene::with(home(json!({})), [failing, reply().text("Done.")]);
    assert_eq!(scene.run(&["-p", "x", "--yolo", "--sandbox=false"]).code, Some(0));
    let records = records(&scene);
    let call = &named(&records, "tool_call")[0];
    assert_eq!((&call["success"], &call["error"]), (&json!(false), &json!("Command exited with code 3")));
    assert_eq!(call["error_type"], "shell_execute_error");
    let count = metric(&records, "tool.call.count").unwrap();
    assert_eq!(count["dataPoints"][0]["attributes"]["success"], false, "{count}");
}

#[test]
fn a_run_leaves_the_records_that_drivers_look_for() {
    let scene = Scene::with(home(json!({"logPrompts": true})), replies());
    let run = scene.prompt(&["-p", "the prompt", "--yolo"]).stdin("piped text").run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let records = records(&scene);
    let prompt = named(&records, "user_prompt");
    assert_eq!(prompt.len(), 1);
    assert_eq!(prompt[0]["prompt"], "piped text\n\nthe prompt");
    let requests = named(&records, "api_request");
    assert_eq!(requests.len(), 2);
    assert!(requests[0]["request_text"].as_str().unwrap().contains("piped text"));
    let responses = named(&records, "api_response");
    assert_eq!(responses.len(), 2);
    assert_eq!(responses[1]["total_token_count"], 13);
    let calls = named(&records, "tool_call");
    let facts: Vec<(&str, bool)> = calls
        .iter()
        .map(|call| (call["function_name"].as_str().unwrap(), call["success"].as_bool().unwrap()))
        .collect();
    for fact in [("write_file", true), ("read_file", false), ("no_such_tool", false)] {
        assert!(facts.contains(&fact), "{fact:?} in {facts:?}");
    }
    assert_eq!(facts.len(), 3);
    for call in &calls {
        assert!(call["function_args"].is_string() && call["duration_ms"].is_number(), "{call}");
        assert!(call["prompt_id"].is_string());
        assert_eq!(call["success"] == false, call.get("error").is_some() && call.get("error_type").is_some());
    }
    let count = metric(&records, "session.count").expect("session.count");
    assert!(!count["dataPoints"].as_array().unwrap().is_empty());
    assert!(metric(&records, "ui.flicker.count").is_none());
    assert!(named(&records, "chat_compression").is_empty());
}

#[test]
fn telemetry_is_flushed_before_every_exit() {
    let failing =
        Scene::with(home(json!({})), [Reply::error(400, "INVALID_ARGUMENT", "refused by the server")]);
    assert_eq!(failing.run(&["-p", "x"]).code, Some(1));
    let found = records(&failing);
    let errors = named(&found, "api_error");
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0]["status_code"], 400);
    assert!(metric(&found, "session.count").is_some());

    let stalled = Scene::with(home(json!({})), [reply().text("Begun").text("x").stall_after(1)]);
    let running = stalled.prompt(&["-p", "x"]).spawn();
    running.wait_for_stdout("Begun");
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(143));
    let found = records(&stalled);
    assert_eq!(named(&found, "user_prompt").len(), 1);
    assert!(metric(&found, "session.count").is_some());

    let limited = Scene::with(home(json!({})), [reply().call("glob", json!({"pattern": "*"}))]);
    let settings = limited.home.gemini_dir().join("settings.json");
    let mut value = crate::scene::read_json(&settings);
    value["model"] = json!({"maxSessionTurns": 1});
    fs::write(&settings, value.to_string()).unwrap();
    assert_eq!(limited.run(&["-p", "x"]).code, Some(53));
    assert_eq!(named(&records(&limited), "tool_call").len(), 1);
}

#[test]
fn texts_are_left_out_unless_the_setting_allows_them() {
    let scene = Scene::with(
        home(json!({"logPrompts": false})),
        [
            reply()
                .text("SECRET ANSWER")
                .call("write_file", json!({"file_path": "a.txt", "content": "SECRET FILE"})),
            reply().text("SECRET END"),
        ],
    );
    scene.run(&["-p", "SECRET PROMPT", "--yolo"]);
    let text = fs::read_to_string(scene.home.home().join("telemetry.log")).unwrap();
    assert!(!text.contains("SECRET"), "{text}");
    let records = records(&scene);
    assert_eq!(named(&records, "user_prompt")[0]["prompt_length"], 13);
    assert_eq!(named(&records, "tool_call").len(), 1);
}

#[test]
fn nothing_is_written_when_telemetry_is_off() {
    let scene = Scene::new([reply().text("ok")]);
    scene.run(&["-p", "x"]);
    let files = all_files(&scene.home.home());
    assert!(files.iter().all(|file| !file.to_string_lossy().contains("telemetry")), "{files:?}");
}

#[test]
fn a_telemetry_file_that_cannot_be_opened_costs_a_warning_only() {
    let home = TestHome::new().home_file("taken/file", "");
    let outfile = home.home().join("taken");
    let settings = json!({"telemetry": {"enabled": true, "target": "local", "outfile": outfile}});
    let scene = Scene::with(home.settings(settings), [reply().text("ok")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert!(
        run.stderr.contains("Warning: telemetry is off") && run.stderr.contains("taken"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_full_disk_behind_telemetry_costs_no_run() {
    let settings = json!({"telemetry": {"enabled": true, "target": "local", "outfile": "/dev/full"}});
    let scene = Scene::with(TestHome::new().settings(settings), [reply().text("ok")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert!(!crate::scene::panicked(&run));
}

#[test]
fn telemetry_can_be_switched_on_by_variables() {
    let scene = Scene::new([reply().text("ok")]);
    let outfile = scene.home.home().join("telemetry.log");
    let run = scene
        .prompt(&["-p", "shown"])
        .env("GEMINI_TELEMETRY_ENABLED", "true")
        .env("GEMINI_TELEMETRY_TARGET", "local")
        .env("GEMINI_TELEMETRY_OUTFILE", outfile.to_str().unwrap())
        .env("GEMINI_TELEMETRY_LOG_PROMPTS", "false")
        .run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let prompt = named(&records(&scene), "user_prompt").remove(0);
    assert_eq!((prompt["prompt_length"].as_u64(), prompt.get("prompt")), (Some(5), None));
}

#[test]
fn the_key_is_in_no_file_and_no_output() {
    const CANARY: &str = "AIzaCanary-0123456789abcdefghijklmnopq";
    let leak = json!({"error": {"code": 400, "message": format!("API key {CANARY} is not valid"), "status": "INVALID_ARGUMENT"}});
    let scene = Scene::with(
        home(json!({"logPrompts": true})),
        [
            reply()
                .call(
                    "run_shell_command",
                    json!({"command": "env; set; cat /proc/self/environ | tr '\\0' '\\n'"}),
                )
                .call("read_file", json!({"file_path": "missing.txt"}))
                .call("write_file", json!({"file_path": "a.txt", "content": "x"})),
            Reply::error(429, "RESOURCE_EXHAUSTED", "slow").header("Retry-After", "0"),
            reply().text("Done."),
            Reply::http(400, leak.to_string()).header("Content-Type", "application/json"),
        ],
    );
    let mut shown = String::new();
    for args in [
        &["-p", "x", "--yolo", "--debug"][..],
        &["--resume", "-p", "y", "-o", "stream-json"],
        &["config", "show"],
    ] {
        let args: Vec<&str> = if args[0] == "config" {
            args.to_vec()
        } else {
            ["-m", "m"].into_iter().chain(args.iter().copied()).collect()
        };
        let run = scene.prepare(&args).env("GEMINI_API_KEY", CANARY).run();
        shown.push_str(&run.stdout);
        shown.push_str(&run.stderr);
    }
    assert_eq!(scene.server.requests().len(), 4);
    assert_eq!(scene.server.request(0).header("x-goog-api-key"), Some(CANARY));
    assert!(!shown.contains(CANARY), "{shown}");
    let mut files = all_files(&scene.home.home());
    files.extend(all_files(&scene.home.project()));
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "the key is in {}", file.display());
    }
    for request in scene.server.requests() {
        assert!(!request.body.to_string().contains(CANARY), "the key is in a request's body");
    }
}

#[test]
fn debug_runs_are_logged_next_to_their_session_and_the_log_goes_with_it() {
    let scene = Scene::new([reply().text("Good morning."), reply().text("Again.")]);
    let logs = |scene: &Scene| -> Vec<std::path::PathBuf> {
        let files = all_files(&scene.home.gemini_dir()).into_iter();
        files.filter(|path| path.parent().is_some_and(|folder| folder.ends_with("logs"))).collect()
    };
    assert_eq!(scene.run(&["-p", "hello"]).code, Some(0));
    assert!(logs(&scene).is_empty(), "only on request");
    let run = scene.run(&["--debug", "-p", "hello", "--session-id", "logged-1"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let [log] = logs(&scene).try_into().unwrap_or_else(|found| panic!("{found:?}"));
    assert!(log.ends_with("logs/session-logged-1.jsonl"), "{}", log.display());
    assert!(run.stderr.contains(&format!("Debug log: {}", log.display())), "{}", run.stderr);
    let text = fs::read_to_string(&log).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(named(&records, "api_response").len(), 1);
    assert!(!text.contains("test-key"), "{text}");
    assert_eq!(scene.run(&["--delete-session", "logged-1"]).code, Some(0));
    assert!(logs(&scene).is_empty());
}
