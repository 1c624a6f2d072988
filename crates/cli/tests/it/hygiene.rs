//! Text of others never drives the terminal, on whatever way it gets there.

use std::fs;

use pollux_test_support::{Reply, Run, TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, lines};

/// A link, the clipboard, the title, a cleared screen, a device string, a command in one byte, a bell, a line
/// drawn over and a text turned round; a word between them shows that the text itself arrived.
const HOSTILE: &str = "\u{1b}]8;;http://evil\u{1b}\\\u{1b}]52;c;aGk=\u{7}\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}Pq\u{1b}\\\
    \u{9b}2J\u{9d}0;t\u{9c}\u{7}over\rwritten\u{202e}MARK\u{2066}\u{1b}";

fn assert_harmless(run: &Run, what: &str) {
    for (stream, text) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
        let found = text.chars().find(|c| {
            let line_end = matches!(c, '\n' | '\t');
            (c.is_control() && !line_end) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(found, None, "{what}, {stream}: {text:?}");
    }
}

fn said_and_harmless(run: &Run, what: &str) {
    assert_harmless(run, what);
    assert!(run.stdout.contains("MARK") || run.stderr.contains("MARK"), "{what}: {run:?}");
}

fn answer() -> Reply {
    // Sequences are cut anywhere on the way.
    HOSTILE.chars().fold(reply(), |reply, c| reply.text(&c.to_string()))
}

#[test]
fn the_models_text_is_stripped_unless_raw_output_is_wanted() {
    let scene = Scene::new([answer(), answer()]);
    let run = scene.run(&["-p", "x"]);
    said_and_harmless(&run, "answer");
    assert_eq!(run.stdout, "overwrittenMARK\n");
    let run = scene.run(&["-p", "x", "--raw-output", "--accept-raw-output-risk"]);
    assert_eq!(run.stdout, format!("{HOSTILE}\n"));
}

#[test]
fn documents_escape_what_they_carry() {
    for (format, raw) in [("json", false), ("stream-json", false), ("json", true), ("stream-json", true)] {
        for dialect in ["pollux", "gemini-cli"] {
            let call =
                reply().thought(HOSTILE).call("read_file", json!({"file_path": HOSTILE, HOSTILE: HOSTILE}));
            let scene = Scene::with(TestHome::new().env("POLLUX_OUTPUT_DIALECT", dialect), [call, answer()]);
            let more: &[&str] = if raw { &["--raw-output"] } else { &[] };
            let args = [&["-o", format, "-p", HOSTILE], more].concat();
            let run = scene.run(&args);
            said_and_harmless(&run, &format!("{format} {dialect} {raw}"));
            if format == "stream-json" {
                assert!(lines(&run.stdout).len() > 2);
            } else {
                serde_json::from_str::<Value>(&run.stdout).unwrap();
            }
        }
    }
}

#[test]
fn calls_and_their_failures_are_told_without_sequences() {
    let calls = reply()
        .thought(&format!("**{HOSTILE}** {HOSTILE}"))
        .call(&format!("no{HOSTILE}"), json!({"a": HOSTILE}))
        .call("read_file", json!({"file_path": format!("x{}", HOSTILE.replace('\r', ""))}))
        .call(
            "run_shell_command",
            json!({"command": "printf '\\033]0;owned\\007MARK\\033[2J\\rX' >&2; exit 3"}),
        )
        .call("grep_search", json!({"pattern": format!("({HOSTILE}")}));
    let scene = Scene::new([calls, reply().text("done")]);
    said_and_harmless(&scene.run(&["-p", "x", "--yolo", "--sandbox=false", "--debug"]), "calls");
}

#[test]
fn errors_of_the_server_are_told_without_sequences() {
    for status in [400, 403, 404] {
        for format in ["text", "json", "stream-json"] {
            let scene = Scene::new([Reply::error(status, "INVALID", HOSTILE)]);
            said_and_harmless(
                &scene.run(&["-p", "x", "-o", format, "--debug"]),
                &format!("{status} {format}"),
            );
        }
    }
    let scene = Scene::new([Reply::http(400, HOSTILE)]);
    assert_harmless(&scene.run(&["-p", "x"]), "body");
    let blocked =
        json!({"candidates": [], "promptFeedback": {"blockReason": HOSTILE, "blockReasonMessage": HOSTILE}});
    let scene = Scene::new(std::iter::repeat_n(Reply::http(200, format!("data: {blocked}\n\n")), 5));
    assert_harmless(&scene.run(&["-p", "x"]), "block reason");
}

#[test]
fn sessions_are_listed_and_deleted_without_sequences() {
    let scene = Scene::new([answer()]);
    scene.run(&["-p", &format!("first {HOSTILE} prompt")]);
    let file = scene.session_files().remove(0);
    let mut session: Value = crate::scene::read_json(&file);
    session["summary"] = json!(format!("sum{HOSTILE}"));
    fs::write(&file, session.to_string()).unwrap();
    let odd = file.with_file_name(format!("session-2026-01-01T00-00-{}.json", HOSTILE.replace('/', "")));
    fs::write(&odd, "{broken").unwrap();
    said_and_harmless(&scene.prepare(&["--list-sessions"]).run(), "list");
    assert_harmless(&scene.run(&["-p", "x", "--resume", HOSTILE]), "resume");
    assert_harmless(&scene.prepare(&["--delete-session", HOSTILE]).run(), "delete nothing");
    assert_harmless(&scene.prepare(&["--delete-session", "1"]).run(), "delete");
}

#[test]
fn settings_and_rules_of_a_project_are_shown_without_sequences() {
    let home = || {
        TestHome::new()
            .project_settings(json!({
                "model": {"name": HOSTILE},
                HOSTILE: HOSTILE,
                "mcpServers": {HOSTILE: {"command": HOSTILE}},
                "tools": {"exclude": [HOSTILE]}, "output": {"format": HOSTILE},
            }))
            .file(
                ".gemini/policies/a.toml",
                &format!(
                    "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"rm\"\ndecision = \"deny\"\npriority = 100\n\
                     denyMessage = {m}\nname = {m}\n[[rule]]\ntoolName = {m}\ndecision = {m}\npriority = 1\n",
                    m = toml_text(HOSTILE)
                ),
            )
            .file("cases.txt", &format!("{HOSTILE}\nallow {HOSTILE} {{}}\n"))
    };
    let scene = Scene::with(home(), []);
    let command = json!({"command": format!("rm {HOSTILE}; echo {HOSTILE}")}).to_string();
    for args in [
        &["config", "show", "--origin"][..],
        &["config", "show", "--json"],
        &["config", "get", "model.name"],
        &["config", "get", HOSTILE],
        &["config", "set", HOSTILE, HOSTILE],
        &["policy", "lint"],
        &["policy", "list"],
        &["policy", "test", "cases.txt"],
        &["policy", "explain", "--tool", "run_shell_command", "--args", &command],
        &["policy", "explain", "--json", "--tool", "run_shell_command", "--args", &command],
        &["policy", "explain", "--tool", HOSTILE, "--args", "{}"],
        &["-p", "x"],
        &["--no-such-flag", HOSTILE],
        &["--output-format", HOSTILE, "-p", "x"],
        &["--policy", HOSTILE, "-p", "x"],
        &["--include-directories", HOSTILE, "-p", "x"],
    ] {
        assert_harmless(&scene.prepare(args).run(), &format!("{args:?}"));
    }
}

fn toml_text(text: &str) -> String {
    let escaped: String = text.chars().map(|c| format!("\\U{:08X}", u32::from(c))).collect();
    format!("\"{escaped}\"")
}

#[test]
fn names_of_files_are_shown_without_sequences() {
    let name = HOSTILE.replace('/', "");
    let home =
        TestHome::new().file(&format!("{name}.txt"), "x").file("GEMINI.md", &format!("@{name}.md {HOSTILE}"));
    let scene = Scene::with(
        home,
        [
            reply().call("list_directory", json!({"dir_path": "."})).call("glob", json!({"pattern": "**/*"})),
            reply().text("done"),
        ],
    );
    for args in [&["-p", "x"][..], &["-p", &format!("see @{name}.txt and @{name}")]] {
        assert_harmless(&scene.run(args), &format!("{args:?}"));
    }
}
