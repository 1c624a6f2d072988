//! The examples of `docs/src/scripting.md`, run as they are printed.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use pollux_test_support::{Run, TestHome};
use serde_json::json;

use crate::script::{binary, calls, home, says};

/// The block of code after this mark.
fn example(mark: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/scripting.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once(&format!("<!-- tested: {mark} -->\n```")).unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Runs an example with a `pollux` whose model is scripted; `None`, and a line that says so, without the program for it.
fn run(home: &TestHome, program: &str, needs: &str, code: &str, replies: &[String]) -> Option<Run> {
    let found = Command::new("sh").args(["-c", &format!("command -v {needs}")]).output().unwrap();
    if !found.status.success() {
        let _ = writeln!(std::io::stderr(), "skipped: {needs} is not installed");
        return None;
    }
    let folder = home.home().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let script = home.home().join("replies.jsonl");
    std::fs::write(&script, replies.concat()).unwrap();
    let wrapper = format!(
        "#!/bin/sh\nexec {} -m gemini-2.5-flash --fake-responses {} \"$@\"\n",
        binary().display(),
        script.display()
    );
    std::fs::write(folder.join("pollux"), wrapper).unwrap();
    Command::new("chmod").arg("+x").arg(folder.join("pollux")).status().unwrap();
    let file = home.home().join("example");
    std::fs::write(&file, code).unwrap();
    let line = format!("PATH={}:$PATH exec {program} {}", folder.display(), file.display());
    Some(home.command(Path::new("/bin/sh"), ["-c", &line]).run())
}

#[test]
fn the_shell_example_runs() {
    let home = home();
    let replies = [says("It counts words. "), says("main.rs")];
    let Some(run) = run(&home, "sh", "jq", &example("shell"), &replies) else { return };
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "It counts words. main.rs"), "{}", run.stderr);
}

#[test]
fn the_python_example_runs() {
    let home = home();
    let replies = [
        calls("ticket", json!({"id": "17"})),
        calls("write_file", json!({"file_path": "title.txt", "content": "Title\n"})),
        calls("run_shell_command", json!({"command": "touch shell.txt"})),
        says("The title is fixed."),
    ];
    let Some(run) = run(&home, "python3", "python3", &example("python"), &replies) else { return };
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "The title is fixed."), "{}", run.stderr);
    assert_eq!(home.read("title.txt"), "Title\n");
    assert!(!home.project().join("shell.txt").exists(), "the example refuses other tools");
}

#[test]
fn the_example_with_the_claude_sdk_runs() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/claude-sdk/python/bin/python");
    let python = python.display().to_string();
    let home = home();
    let replies = [
        calls("mcp_tickets_ticket", json!({"id": "17"})),
        calls("write_file", json!({"file_path": "title.txt", "content": "Title\n"})),
        calls("run_shell_command", json!({"command": "touch shell.txt"})),
        says("The title is fixed."),
    ];
    let Some(run) = run(&home, &python, &python, &example("claude"), &replies) else { return };
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "The title is fixed."), "{}", run.stderr);
    assert_eq!(home.read("title.txt"), "Title\n");
    assert!(!home.project().join("shell.txt").exists(), "the example refuses other tools");
}
