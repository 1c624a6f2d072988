//! No child gets an open file that the program itself was started with.

use std::path::{Path, PathBuf};

use pollux_test_support::{TestHome, TestRun, executable, reply};
use serde_json::{Value, json};

use crate::scene::{MODEL, Scene, binary, scripted, until};

/// Writes down what a child has open, and tries what it must not have.
const PROBE: &str = r#"
{ ls -l /proc/self/fd; cat /proc/self/fd/7/key /proc/self/fd/8; } > "$1.probe.new" 2>&1
mv "$1.probe.new" "$1.probe"
"#;

/// A home with a secret folder, and a project with the probe.
fn home() -> TestHome {
    TestHome::new()
        .home_file(".ssh/key", "SECRET")
        .file("probe.sh", PROBE)
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
}

/// A run that was started with the secret folder open as 7 and a file in it as 8.
fn started(home: &TestHome, args: &[&str]) -> TestRun {
    let wrapper = r#"exec 7<"$1" 8<"$1/key"; shift; exec "$@""#;
    let secret = home.home().join(".ssh");
    let words = ["-c", wrapper, "sh", secret.to_str().unwrap(), binary().to_str().unwrap()];
    home.command(Path::new("/bin/sh"), words.into_iter().chain(args.iter().copied()))
}

fn assert_nothing_inherited(home: &TestHome, kind: &str, level: &str) {
    let said = home.read(&format!("{kind}.probe"));
    assert!(said.contains(" 0 -> "), "{level}, {kind}: {said}");
    assert!(!said.contains("SECRET") && !said.contains(".ssh"), "{level}, {kind}: {said}");
    let is_own = |to: &str| {
        ["pipe:", "/dev/null", "/dev/pts/"].iter().any(|own| to.starts_with(own))
            || to.ends_with("/fd")
            || to.contains(".probe")
    };
    for line in said.lines() {
        if let Some((_, to)) = line.split_once(" -> ") {
            assert!(is_own(to), "{level}, {kind}: {said}");
        }
    }
}

fn call(name: &str, args: Value) -> String {
    scripted(&[json!({"functionCall": {"name": name, "args": args}})])
}

#[test]
fn no_kind_of_child_inherits_a_descriptor_whatever_the_sandbox() {
    let declared =
        json!([{"name": "probe", "description": "probes", "parametersJsonSchema": {"type": "object"}}]);
    // The watcher that ends what is left over is a child too.
    let siblings =
        "for c in $(cat /proc/$PPID/task/*/children); do ls -l /proc/$c/fd; done > watcher.probe 2>&1";
    let script = call("run_shell_command", json!({"command": "sh probe.sh first"}))
        + &call("run_shell_command", json!({"command": format!("{siblings}; sh probe.sh shell")}))
        + &call(
            "run_shell_command",
            json!({"command": "sh probe.sh background; sleep 600", "is_background": true, "delay_ms": 100}),
        )
        // The run ends what is in the background, so the probe must be over before.
        + &call(
            "run_shell_command",
            json!({"command": "until [ -e background.probe ]; do sleep 0.05; done"}),
        )
        + &call("discovered_tool_probe", json!({}))
        + &call("mcp_p_probe", json!({}))
        + &scripted(&[json!({"text": "done"})]);
    for level in ["false", "landlock", "bwrap", "namespaces"] {
        let home = home()
            .file("script.jsonl", &script)
            .file("declared.json", &declared.to_string())
            .file("discover.sh", "sh probe.sh discovery; cat declared.json")
            .file("call.sh", "sh probe.sh discovered; echo {}")
            .home_file(".gemini/commands/c.toml", "prompt = \"go on !{sh probe.sh custom}\"\n")
            .settings(json!({
                "tools": {"discoveryCommand": "sh discover.sh", "callCommand": "sh call.sh"},
                "hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": "sh probe.sh hook"}]}]},
                "mcpServers": {"p": {"command": "sh", "args": ["probe.sh", "server"]}},
            }));
        let args = ["-m", MODEL, "--fake-responses", "script.jsonl", "-p", "/c", "-y"];
        let run = started(&home, &args).env("GEMINI_SANDBOX", level).run();
        if run.code == Some(44) {
            continue;
        }
        assert_eq!(run.code, Some(0), "{level}: {}", run.stderr);
        for kind in ["custom", "first", "shell", "background", "discovery", "discovered", "hook", "server"] {
            assert_nothing_inherited(&home, kind, level);
        }
        if level == "false" {
            assert_nothing_inherited(&home, "watcher", level);
        }
    }
}

#[test]
fn neither_an_editor_nor_a_command_of_the_persons_own_inherits_a_descriptor() {
    let home = home();
    let editor = home.home().join("editor.sh");
    executable(&editor, "#!/bin/sh\nsh probe.sh editor\nprintf 'written\\n' > \"$1\"\n");
    let scene = Scene::with(home.env("VISUAL", editor.to_str().unwrap()), [reply().text("read")]);
    let screen = started(&scene.home, &["-m", MODEL]).against(&scene.server).on_screen(100, 40);
    screen.expect("Authenticated with").key("Ctrl+G").expect("> written").key("Enter").expect("✦ read");
    screen.key("!").expect("shell mode enabled").say("sh probe.sh own");
    let written: PathBuf = scene.home.project().join("own.probe");
    until("the command has run", || written.exists());
    drop(screen);
    assert_nothing_inherited(&scene.home, "editor", "none");
    assert_nothing_inherited(&scene.home, "own", "none");
}
