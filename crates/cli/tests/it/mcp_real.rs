//! Servers that others wrote, if `scripts/mcp-servers.sh` has installed them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use pollux_test_support::{Listening, Run, TestHome, git, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, binary};

/// Where the script puts them; `None`, and a line that says so, where it has not run.
fn installed() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mcp-servers");
    let complete = folder.join("installed").exists();
    if !complete {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: scripts/mcp-servers.sh has not installed the servers");
    }
    complete.then_some(folder)
}

fn package(folder: &Path, name: &str) -> String {
    folder.join("node_modules/@modelcontextprotocol").join(name).join("dist/index.js").display().to_string()
}

fn calls(scene: &Scene) -> Vec<String> {
    let answers = scene.server.request(1).function_responses();
    answers.iter().map(Value::to_string).collect()
}

#[test]
fn real_servers_work_over_pipes() {
    let Some(folder) = installed() else { return };
    let home = TestHome::new().file("hello.txt", "hello from a file");
    let project = home.project().canonicalize().unwrap();
    assert!(git(&project).args(["init", "-q"]).status().unwrap().success());
    let python = |name: &str| folder.join("python/bin").join(name).display().to_string();
    let home = home.settings(json!({"mcpServers": {
        "everything": {"command": "node", "args": [package(&folder, "server-everything"), "stdio"], "trust": true, "timeout": 30_000},
        "files": {"command": "node", "args": [package(&folder, "server-filesystem"), project], "trust": true, "timeout": 30_000},
        // Slow to start on a busy machine.
        "git": {"command": python("mcp-server-git"), "trust": true, "timeout": 30_000},
        "time": {"command": python("mcp-server-time"), "trust": true, "timeout": 30_000},
    }, "mcp": {"firstRequestWaitMs": 60_000}}));
    let step = reply()
        .call("mcp_everything_echo", json!({"message": "pollux"}))
        .call("mcp_everything_get-sum", json!({"a": 20, "b": 22}))
        .call("mcp_everything_get-tiny-image", json!({}))
        .call("mcp_everything_trigger-long-running-operation", json!({"duration": 0.1, "steps": 2}))
        .call("mcp_files_read_text_file", json!({"path": project.join("hello.txt")}))
        .call("mcp_files_write_file", json!({"path": project.join("made.txt"), "content": "made"}))
        .call("mcp_git_git_status", json!({"repo_path": project}))
        .call(
            "mcp_time_convert_time",
            json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
        );
    let scene = Scene::with(home, [step, reply().text("done")]);
    let run = scene.run(&["-p", "use them all"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "done\n"), "{}", run.stderr);
    let answers = calls(&scene);
    let expected = [
        "Echo: pollux",
        "42",
        "image/png",
        "completed",
        "hello from a file",
        "made.txt",
        "hello.txt",
        "21:00",
    ];
    for (answer, expected) in answers.iter().zip(expected) {
        assert!(answer.contains(expected) && !answer.contains("\"error\""), "{expected}: {answer}");
    }
    assert_eq!(scene.home.read("made.txt"), "made");
    let list = mcp(&scene.home, &["list"]);
    assert_eq!(list.stdout.matches(" - Connected").count(), 4, "{} {}", list.stdout, list.stderr);
}

fn mcp(home: &TestHome, args: &[&str]) -> Run {
    let args: Vec<&str> = ["mcp"].into_iter().chain(args.iter().copied()).collect();
    home.command(binary(), args).env("GEMINI_CLI_TRUST_WORKSPACE", "true").run()
}

/// Starts server-everything on a free port.
fn on_the_network(folder: &Path, manner: &str) -> Listening {
    Listening::start(Duration::from_secs(60), |port| {
        let mut command = Command::new("node");
        command.args([package(folder, "server-everything").as_str(), manner]).env("PORT", port.to_string());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    })
}

#[test]
fn a_real_server_works_over_both_http_transports() {
    let Some(folder) = installed() else { return };
    for (manner, path, kind) in [("streamableHttp", "mcp", "http"), ("sse", "sse", "sse")] {
        let server = on_the_network(&folder, manner);
        let port = server.port();
        let entry = json!({"url": format!("http://127.0.0.1:{port}/{path}"), "type": kind, "trust": true});
        let step = reply()
            .call("mcp_remote_echo", json!({"message": "over the network"}))
            .call("mcp_remote_get-sum", json!({"a": 1, "b": 2}));
        let home = TestHome::new()
            .settings(json!({"mcpServers": {"remote": entry}, "mcp": {"firstRequestWaitMs": 60_000}}));
        let scene = Scene::with(home, [step, reply().text("done")]);
        let run = scene.run(&["-p", "go"]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(0), "done\n"), "{manner}: {}", run.stderr);
        let answers = calls(&scene);
        assert!(
            answers[0].contains("Echo: over the network") && answers[1].contains('3'),
            "{manner}: {answers:?}"
        );
        let test = mcp(&scene.home, &["test", "remote"]);
        assert!(
            test.stdout.contains("Connected, mcp-servers/everything"),
            "{manner}: {} {}",
            test.stdout,
            test.stderr
        );
    }
}
