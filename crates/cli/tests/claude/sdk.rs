//! The public Python SDK of Claude Code, if `scripts/python-peers.sh` has installed it.

use std::io::Write as _;
use std::path::Path;

use pollux_test_support::{Run, TestHome};
use serde_json::json;

use crate::script::{binary, calls, home, says};
use crate::{shell, write};

/// Runs a scenario of `peers/claude_sdk.py`; `None`, and a line that says so, where the SDK is not installed.
fn run(home: &TestHome, scenario: &str, replies: &[String], second: &[String]) -> Option<Run> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("../../target/claude-sdk");
    if !folder.join("installed").exists() {
        let _ = writeln!(std::io::stderr(), "skipped: scripts/python-peers.sh has not installed the SDK");
        return None;
    }
    let file = home.home().join("replies.jsonl");
    std::fs::write(&file, replies.concat()).unwrap();
    std::fs::write(home.home().join("replies.jsonl.2"), second.concat()).unwrap();
    let script = root.join("tests/peers/claude_sdk.py").display().to_string();
    let project = home.project().canonicalize().unwrap().display().to_string();
    let args =
        [script, binary().display().to_string(), project, file.display().to_string(), scenario.to_owned()];
    let run = home.command(&folder.join("python/bin/python"), args).run();
    assert_eq!(run.code, Some(0), "{scenario}: {}\n{}", run.stdout, run.stderr);
    Some(run)
}

fn assert_lines(run: &Run, lines: &[&str]) {
    for line in lines {
        assert!(
            run.stdout.lines().any(|found| found == *line),
            "no `{line}` in:\n{}\n{}",
            run.stdout,
            run.stderr
        );
    }
}

#[test]
fn one_prompt() {
    let home = home();
    let Some(run) = run(&home, "one_shot", &[says("hi there")], &[]) else { return };
    assert_lines(
        &run,
        &["delta hi there", "text hi there", "result success False 1 hi there", "usage 5 0.0 0"],
    );
}

#[test]
fn a_client_with_follow_ups() {
    let home = home();
    let Some(run) = run(&home, "follow_ups", &[says("one"), says("two")], &[]) else { return };
    assert_lines(
        &run,
        &[
            "commands True",
            "result success False 1 one",
            "result success False 1 two",
            "context True gemini-2.5-flash",
            "servers {'mcpServers': []}",
        ],
    );
}

#[test]
fn a_callback_decides_on_calls() {
    let home = home();
    let replies = [write("a.txt"), shell("rm a.txt"), says("done")];
    let Some(run) = run(&home, "approvals", &replies, &[]) else { return };
    assert_eq!(home.read("a.txt"), "changed\n");
    assert_lines(
        &run,
        &[
            "asked write_file ['content', 'file_path'] True True",
            "asked run_shell_command ['command'] True True",
            "result success False 3 done",
            "usage 15 0.0 1",
        ],
    );
    assert_eq!(run.stdout.matches("asked ").count(), 2, "{}", run.stdout);
    assert!(run.stdout.contains("not today"), "{}", run.stdout);
}

#[test]
fn an_interrupt() {
    let home = home();
    let Some(run) = run(&home, "interrupt", &[shell("sleep 95.7"), says("yes")], &[]) else { return };
    assert_lines(&run, &["result error_during_execution True 1 None", "result success False 1 yes"]);
}

#[test]
fn a_hook_that_denies() {
    let home = home();
    let Some(run) = run(&home, "hooks", &[write("a.txt"), says("blocked")], &[]) else { return };
    assert!(!home.project().join("a.txt").exists());
    assert_lines(
        &run,
        &[
            "hook UserPromptSubmit write it",
            "hook PreToolUse write_file True",
            "hook Stop write it",
            "tool_result True Tool execution blocked: guarded",
            "result success False 2 blocked",
        ],
    );
}

#[test]
fn a_tool_of_the_program() {
    let home = home();
    let replies = [calls("mcp_calc_add", json!({"a": 1, "b": 2})), says("three")];
    let Some(run) = run(&home, "servers", &replies, &[]) else { return };
    assert_lines(&run, &["use mcp_calc_add {'a': 1, 'b': 2}", "sum 3", "result success False 2 three"]);
}

#[test]
fn a_session_is_resumed() {
    let home = home();
    let Some(run) = run(&home, "resume", &[says("ok")], &[says("seven")]) else { return };
    assert_lines(&run, &["text ok", "text seven"]);
    let sessions: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("session ")).collect();
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions[0], sessions[1]);
}
