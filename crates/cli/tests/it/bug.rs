//! Bug reports of real sessions, and replaying them.

use std::fs;
use std::path::PathBuf;

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, all_files, parse, until};

const SCOUT: &str =
    "---\nname: scout\ndescription: looks around\ntools: [read_file]\nmax_turns: 3\n---\nYou look.\n";

/// A session with calls, an edit, a failure, a refused call, a sub-agent and a turn that was cancelled.
fn eventful() -> Scene {
    let home = TestHome::new().home_file(".gemini/agents/scout.md", SCOUT).file("map.txt", "a keep\n");
    let replies = [
        reply()
            .thought("**Looking** at the map")
            .text("I look first.")
            .call("read_file", json!({"file_path": "map.txt"}))
            .call("read_file", json!({"file_path": "missing.txt"})),
        reply().call("replace", json!({"file_path": "map.txt", "old_string": "keep", "new_string": "moat"})),
        reply().call("run_shell_command", json!({"command": "rm map.txt"})),
        reply().call("invoke_agent", json!({"agent_name": "scout", "prompt": "look"})),
        reply().call("read_file", json!({"file_path": "map.txt"})),
        reply().call("complete_task", json!({"result": "a moat"})),
        reply().text("There is a moat."),
    ];
    let scene = Scene::with(home, replies);
    let run = scene.run(&["-p", "look at @map.txt", "--approval-mode", "auto_edit"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    scene.server.push([
        reply().call("run_shell_command", json!({"command": "echo here > begun.txt; exec sleep 600"}))
    ]);
    let running = scene.prompt(&["--resume", "-p", "wait", "--yolo", "--sandbox=false"]).spawn();
    let begun = scene.home.project().join("begun.txt");
    until("the command runs", || fs::read_to_string(&begun).is_ok_and(|text| text.ends_with('\n')));
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(143));
    scene.server.push([reply().text("Going on.")]);
    let run = scene.run(&["--resume", "-p", "go on"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    scene
}

/// The capsule of the only session.
fn capsule(scene: &Scene, more: &[&str]) -> (PathBuf, Value) {
    let args: Vec<&str> = ["bug", "--yes", "-o", "capsule.json"].iter().chain(more).copied().collect();
    let run = scene.prepare(&args).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let file = scene.home.project().join("capsule.json");
    let value = parse(&fs::read_to_string(&file).unwrap());
    (file, value)
}

#[test]
fn a_real_session_is_replayed_from_its_report() {
    let scene = eventful();
    let asked = scene.server.requests().len();
    for more in [&[][..], &["--with-contents"]] {
        let (file, value) = capsule(&scene, more);
        let events = |session: usize| value["sessions"][session]["events"].as_array().unwrap();
        let tools: Vec<&str> = events(0).iter().filter_map(|event| event["tool"].as_str()).collect();
        let expected =
            ["read_file", "read_file", "replace", "run_shell_command", "invoke_agent", "run_shell_command"];
        assert_eq!(tools, expected);
        assert_eq!(value["sessions"][1]["subagent"], true);
        assert_eq!(value.to_string().contains("moat"), !more.is_empty());
        let run = scene.prepare(&["replay", "capsule.json"]).run();
        assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
        let all: usize = (0..2).map(|session| events(session).len()).sum();
        let notices = (0..2).flat_map(events).filter(|event| event["kind"] == "notice").count();
        assert_eq!(run.stdout, format!("no differences in {} events\n", all - notices));
        assert_eq!(scene.prepare(&["replay", "capsule.json"]).run(), run);

        // One event is changed.
        let mut changed = value.clone();
        let last = changed["sessions"][0]["events"].as_array_mut().unwrap().last_mut().unwrap();
        last["text"] = json!("something else");
        let number = last["number"].clone();
        fs::write(&file, changed.to_string()).unwrap();
        let run = scene.prepare(&["replay", "capsule.json"]).run();
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(run.stdout.starts_with(&format!("event {number} differs\n")), "{}", run.stdout);
    }
    assert_eq!(scene.server.requests().len(), asked, "neither command asks a model");
}

#[test]
fn a_strangers_report_runs_reads_and_changes_nothing() {
    let mark = |name: &str| format!("touch {name}");
    let home = TestHome::new()
        .settings(json!({
            "mcpServers": {"lab": {"command": "/bin/sh", "args": ["-c", mark("mcp-started")]}},
            "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": mark("hook-ran")}]}]},
        }))
        .home_file(".gemini/commands/go.toml", "prompt = \"!{touch command-ran}\"\n")
        .file("secret.txt", "the contents of a secret file");
    let scene = Scene::with(home, []);
    let call =
        |id: &str, name: &str, args: Value| json!({"functionCall": {"id": id, "name": name, "args": args}});
    let calls = json!([
        call("1", "run_shell_command", json!({"command": mark("shell-ran")})),
        call("2", "write_file", json!({"file_path": "written", "content": "x"})),
        call("3", "save_memory", json!({"fact": "remember me"})),
        call("4", "read_file", json!({"file_path": "secret.txt"})),
        call("../../5", "../../tool", json!({})),
    ]);
    let line = json!({"method": "generateContentStream", "response": [
        {"candidates": [{"content": {"parts": calls}, "finishReason": "STOP"}]}
    ]});
    let capsule = json!({
        "format": 1, "contents": "redacted", "environment": {"note": "\u{1b}[2J"},
        "sessions": [{"subagent": false, "events": [], "replay": [
            {"prompt": "@secret.txt !{touch prompt-ran}"},
            {"reply": {"line": line, "results": []}},
            {"prompt": "!touch bang-ran"},
            {"prompt": "/go"},
            {"prompt": "/quit --delete"},
        ]}],
    });
    fs::write(scene.home.project().join("capsule.json"), capsule.to_string()).unwrap();
    let state = || {
        let mut files = all_files(scene.home.home().parent().unwrap());
        files.sort();
        files.into_iter().map(|file| (fs::read(&file).unwrap(), file)).collect::<Vec<_>>()
    };
    let before = state();
    let run = scene.prepare(&["replay", "capsule.json", "--json"]).run();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert_eq!(state(), before);
    assert!(scene.server.requests().is_empty());
    let printed = format!("{}{}", run.stdout, run.stderr);
    assert!(!printed.contains("secret file") && !printed.contains('\u{1b}'), "{printed}");
}
