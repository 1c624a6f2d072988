//! The client leaves, vanishes or does not read.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::peer::{Peer, calls, home, says};

/// Much less than the commands take, and enough for a busy machine.
const SOON: Duration = Duration::from_secs(30);

fn shell(command: &str) -> String {
    calls("run_shell_command", json!({"command": command}))
}

fn wait_until_gone(peer: &Peer, text: &str) {
    let started = std::time::Instant::now();
    while !peer.processes(text).is_empty() {
        assert!(started.elapsed() < SOON, "{:?}", peer.processes(text));
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn the_end_of_input_ends_a_running_command_and_the_program() {
    let mut peer = Peer::ready(home(), &[shell("touch begun; sleep 96.5"), says("x")]);
    let session = peer.session();
    peer.prompt(&session, "run");
    let asked = peer.asked("session/request_permission");
    peer.select(&asked, "proceed_once");
    peer.wait_for("the call to run", |message| message["params"]["update"]["status"] == "in_progress");
    peer.close_input();
    let (code, took) = peer.end();
    assert_eq!(code, Some(0));
    assert!(took < SOON, "{took:?}");
    wait_until_gone(&peer, "sleep 96.5");
}

#[test]
fn a_signal_ends_it_with_the_code_of_the_signal() {
    let mut peer = Peer::ready(home(), &[shell("touch begun; sleep 95.4"), says("x")]);
    let session = peer.session();
    peer.prompt(&session, "run");
    let asked = peer.asked("session/request_permission");
    peer.select(&asked, "proceed_once");
    peer.wait_for("the call to run", |message| message["params"]["update"]["status"] == "in_progress");
    assert!(Command::new("kill").arg(peer.pid().to_string()).status().unwrap().success());
    let (code, took) = peer.end();
    assert_eq!(code, Some(143));
    assert!(took < SOON, "{took:?}");
    wait_until_gone(&peer, "sleep 95.4");
}

#[test]
fn a_client_that_vanishes_leaves_nothing_undecided() {
    let write = calls("write_file", json!({"file_path": "a.txt", "content": "x"}));
    let mut peer = Peer::ready(home(), &[write, says("x")]);
    let session = peer.session();
    peer.prompt(&session, "write");
    peer.asked("session/request_permission");
    peer.close_input();
    let (code, took) = peer.end();
    assert_eq!(code, Some(0));
    assert!(took < SOON, "{took:?}");
    assert!(!peer.project().join("a.txt").exists());
    // The session can be loaded, and the call did not run.
    let script = peer.home.home().join("replies.jsonl").display().to_string();
    let listed = peer.home.command(crate::peer::binary(), ["--list-sessions"]).run();
    assert!(listed.stdout.contains(&session) || listed.stdout.contains("write"), "{}", listed.stdout);
    let args = ["-m", "gemini-2.5-flash", "--resume", &session, "-p", "go on", "--fake-responses", &script];
    std::fs::write(&script, says("resumed")).unwrap();
    let run = peer.home.command(crate::peer::binary(), args).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "resumed\n"), "{}", run.stderr);
}

#[test]
fn a_client_that_does_not_read_costs_no_memory() {
    // About 30 MB of output, while the client reads nothing.
    let command = "i=0; while [ $i -lt 300 ]; do head -c 100000 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done; echo the-end";
    let mut peer = Peer::ready(home(), &[shell(command), says("done")]);
    let session = peer.session();
    let id = peer.prompt(&session, "run");
    let asked = peer.asked("session/request_permission");
    let reading = std::sync::Arc::clone(&peer.reading);
    let held = reading.lock().unwrap();
    peer.select(&asked, "proceed_once");
    std::thread::park_timeout(Duration::from_secs(5));
    assert!(peer.memory() < 150, "{} MiB", peer.memory());
    drop(held);
    assert_eq!(peer.answer(&id)["result"]["stopReason"], "end_turn");
    let last = peer.updates("tool_call_update").last().unwrap().to_string();
    assert!(last.contains("completed"), "{last:.200}");
    assert!(last.len() < 1_000_000);
}
