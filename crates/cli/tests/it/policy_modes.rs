//! Every tool in every mode, and what a run really does.

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::policy::policy;
use crate::scene::{Scene, lines, of_type};

const MODES: [&str; 4] = ["default", "auto_edit", "yolo", "plan"];

#[test]
fn every_tool_does_in_every_mode_what_the_table_says() {
    let mut cases = String::new();
    for line in include_str!("policy_modes.tsv").lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [tool, args, outcomes @ ..] = cells.as_slice() else { panic!("{line}") };
        assert_eq!(outcomes.len(), 2 * MODES.len(), "{line}");
        for (index, outcome) in outcomes.iter().enumerate() {
            let (mode, headless) = (MODES[index / 2], index % 2 == 1);
            cases.push_str(&format!("{tool}\t{args}\t{mode}\t{headless}\t{outcome}\n"));
        }
    }
    let scene = Scene::with(TestHome::new().file("modes.tsv", &cases), []);
    let run = policy(&scene, &["test", "modes.tsv"]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
}

const RULES: &str = r#"
[[rule]]
toolName = "run_shell_command"
commandPrefix = ["git log", "touch", "echo"]
decision = "allow"
priority = 100

[[rule]]
toolName = "run_shell_command"
commandPrefix = "touch forbidden"
decision = "deny"
priority = 200
denyMessage = "Not that one."

[[rule]]
toolName = "write_file"
argsPattern = '"file_path":"free/'
decision = "allow"
priority = 100

[[rule]]
toolName = "glob"
argsPattern = "secret"
decision = "deny"
priority = 300
"#;

/// Calls that a run can make without a network.
fn calls() -> Vec<(&'static str, Value)> {
    let shell = |command: &str| ("run_shell_command", json!({"command": command}));
    let write = |path: &str| ("write_file", json!({"file_path": path, "content": "x"}));
    let read = |path: &str| ("read_file", json!({"file_path": path}));
    let fetch = |prompt: &str| ("web_fetch", json!({"prompt": prompt}));
    vec![
        read("a.txt"),
        read("../outside.txt"),
        read("/etc/passwd"),
        read("way-out/secret"),
        read(".git/config"),
        read(".env"),
        read("node_modules/x.js"),
        ("read_file", json!({"path": "a.txt"})),
        ("read_file", json!({})),
        ("read_many_files", json!({"include": ["*.txt"]})),
        ("list_directory", json!({"dir_path": "."})),
        ("list_directory", json!({"dir_path": "/"})),
        ("glob", json!({"pattern": "*.txt"})),
        ("glob", json!({"pattern": "secret*"})),
        ("grep_search", json!({"pattern": "x"})),
        ("search_file_content", json!({"pattern": "x"})),
        write("new.txt"),
        write("free/new.txt"),
        write("free/../Makefile"),
        write("/etc/nothing"),
        write("way-out/new.txt"),
        write(".git/config"),
        write("Makefile"),
        write("sub/Cargo.toml"),
        write(".vscode/settings.json"),
        write("plans/plan.md"),
        write("notes.md"),
        ("replace", json!({"file_path": "a.txt", "old_string": "x", "new_string": "y", "instruction": "i"})),
        (
            "edit_file",
            json!({"file_path": "a.txt", "old_string": "y", "new_string": "x", "instruction": "i"}),
        ),
        ("save_memory", json!({"fact": "the sky is blue"})),
        shell("echo hi"),
        shell("touch made"),
        shell("touch forbidden"),
        shell("touch made; touch forbidden"),
        shell("touch $(echo forbidden)"),
        shell("echo hi > out.txt"),
        shell("echo hi | true"),
        shell("ls"),
        shell("rm -rf gone"),
        shell("mkdir sub/dir"),
        shell("git log -1"),
        shell("echo 'unclosed"),
        ("run_shell_command", json!({"command": "echo hi", "dir_path": "/"})),
        ("run_shell_command", json!({"cmd": "echo hi"})),
        ("list_background_processes", json!({})),
        fetch("read http://127.0.0.1:9/"),
        fetch("read http://localhost/x"),
        fetch("read http://[::1]/"),
        fetch("nothing to read"),
        ("no_such_tool", json!({})),
        ("ask_user", json!({"questions": []})),
    ]
}

/// Whether a result in the events is that of a call that ran.
fn ran(result: &Value) -> bool {
    let error = &result["error"];
    let refused = ["policy_violation", "tool_not_registered", "invalid_tool_params", "path_not_in_workspace"];
    let kind = error["type"].as_str().unwrap_or_default();
    let text = error["message"].as_str().unwrap_or_default();
    let asked = text.contains("requires user confirmation");
    let guarded = text.contains("[Blocked Host]");
    !refused.contains(&kind) && !asked && !guarded
}

#[test]
fn an_explanation_is_what_a_headless_run_does() {
    for mode in MODES {
        let calls = calls();
        let first = calls.iter().enumerate().fold(reply(), |reply, (index, (tool, args))| {
            reply.call_with_id(&index.to_string(), tool, args.clone())
        });
        let home = TestHome::new()
            .file("p.toml", RULES)
            .file("a.txt", "x")
            .file("sub/b.txt", "x")
            .file(".env", "A=1")
            .file("node_modules/x.js", "x")
            .file(".git/config", "");
        let scene = Scene::with(home, [first, reply().text("done")]);
        std::os::unix::fs::symlink(scene.home.home(), scene.home.project().join("way-out")).unwrap();
        let flags = ["--policy", "p.toml", "--approval-mode", mode];
        let output = ["-p", "x", "-o", "stream-json", "--output-dialect", "gemini-cli"];
        // The rules are asked before the run changes anything.
        let asked: Vec<Value> = calls
            .iter()
            .map(|(tool, args)| {
                let flags = [&flags[..], &["--headless"]].concat();
                crate::policy::explain(&scene, tool, args.clone(), &flags)
            })
            .collect();
        let run = scene.run(&[&output[..], &flags].concat());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let events = lines(&run.stdout);
        let results = of_type(&events, "tool_result");
        assert_eq!(results.len(), calls.len());
        for (index, (tool, args)) in calls.iter().enumerate() {
            let id = format!("__{index}");
            let is_its = |result: &&&Value| result["tool_id"].as_str().unwrap().ends_with(&id);
            let result = results.iter().find(is_its).unwrap();
            let expected = if ran(result) { "allow" } else { "deny" };
            assert_eq!(
                asked[index]["decision"], expected,
                "{mode}: {tool} {args}\n{result}\n{}",
                asked[index]
            );
        }
        let answers = scene.server.request(1).function_responses();
        assert_eq!(answers.len(), calls.len(), "every call is answered, and the run goes on");
    }
}
