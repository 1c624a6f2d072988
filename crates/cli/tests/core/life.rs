//! The life of the core: start, stop, restart, idle time, and what it leaves behind.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::time::Instant;

use pollux_test_support::{TestHome, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, quiet, until};

fn home() -> TestHome {
    TestHome::new().settings(quiet())
}

fn pid(scene: &Scene) -> u64 {
    let run = scene.run(&["core", "status", "--json"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str::<Value>(&run.stdout).unwrap()["pid"].as_u64().unwrap()
}

#[test]
fn a_core_starts_in_the_background_once_and_stops() {
    let scene = Scene::cold(home(), []);
    let status = scene.run(&["core", "status"]);
    assert_eq!((status.code, status.stderr.contains("the core is not running")), (Some(1), true));
    assert_eq!(scene.run(&["ps"]).stdout, "The core is not running.\n");
    let starts: Vec<_> = (0..2).map(|_| scene.prepare(&["core", "start"]).spawn()).collect();
    let runs: Vec<_> = starts.into_iter().map(|start| start.wait()).collect();
    assert!(runs.iter().all(|run| run.code == Some(0)), "{runs:?}");
    let pid = pid(&scene);
    assert!(runs.iter().all(|run| run.stdout.contains(&format!("(pid {pid})"))), "{runs:?}");
    let text = scene.run(&["core", "status"]).stdout;
    assert!(text.contains("Process") && text.contains("Sessions"), "{text}");
    // It has left the terminal and the folder, and has no keys.
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap().to_str(), Some("/"));
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string());
    assert_eq!(scene.run(&["core", "start"]).stdout, format!("The core is already running (pid {pid}).\n"));
    let logs = scene.run(&["core", "logs", "-n", "3"]).stdout;
    assert_eq!(logs.lines().count(), 3, "{logs}");
    assert_eq!(fs::metadata(scene.run_dir().join("core.log")).unwrap().mode() & 0o777, 0o600);
    assert!(scene.run(&["core", "stop"]).stdout.starts_with("Stopped the core"));
    assert!(scene.socket().is_none());
    assert_eq!(scene.run(&["core", "stop"]).stdout, "The core is not running.\n");
}

#[test]
fn the_socket_of_a_killed_core_is_replaced() {
    let mut scene = Scene::with(home(), [], &[]);
    scene.kill_core();
    assert!(scene.socket().is_some());
    assert_eq!(scene.run(&["ps"]).stdout, "The core is not running.\n");
    let start = scene.run(&["core", "start"]);
    assert!(start.stdout.starts_with("Started the core"), "{start:?}");
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let scene = Scene::cold(home(), []);
    assert_eq!(scene.run(&["core", "start"]).code, Some(0));
    let socket = scene.socket().unwrap();
    assert_eq!(scene.run(&["core", "stop"]).code, Some(0));
    fs::write(&socket, "mine").unwrap();
    let start = scene.run(&["core", "run"]);
    assert!(start.code == Some(1) && start.stderr.contains("is not a socket"), "{start:?}");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");
    fs::remove_file(&socket).unwrap();
    let elsewhere = scene.home.home().join("elsewhere");
    fs::rename(scene.run_dir(), &elsewhere).unwrap();
    symlink(&elsewhere, scene.run_dir()).unwrap();
    let start = scene.run(&["core", "start"]);
    assert!(start.code == Some(1) && start.stderr.contains("is a symbolic link"), "{start:?}");
}

#[test]
fn a_core_that_nobody_uses_ends() {
    let mut scene = Scene::with(home(), [], &["--idle-exit", "4"]);
    let peer = scene.peer("test");
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert!(scene.socket().is_some(), "it stays for a front end");
    drop(peer);
    assert_eq!(scene.wait_core().code, Some(0));
    assert!(scene.socket().is_none() && scene.log().contains("ended: idle"));
}

#[test]
fn a_session_that_nobody_uses_is_unloaded_and_opens_again() {
    let scene = Scene::with(home(), [reply().text("Kept."), reply().text("More.")], &["--unload", "5"]);
    let mut peer = scene.peer("test");
    let session = peer.open(scene.opening());
    peer.prompt(&session, "remember this");
    peer.event("TurnEnded");
    drop(peer);
    until("the session to be unloaded", || scene.ps().is_empty());
    let again = scene.run(&["attach", session.get(..8).unwrap(), "-p", "go on with @gone.txt"]);
    assert!(again.code == Some(0) && again.stdout.contains("More."), "{again:?}");
    assert!(again.stderr.contains("`@gone.txt` in the prompt was not read"), "{}", again.stderr);
    let sent = scene.server.request(1).body.to_string();
    assert!(sent.contains("remember this") && sent.contains("Kept."), "{sent}");
}

#[test]
fn a_restart_keeps_sessions_and_front_ends() {
    let answers = (0..5).flat_map(|number| {
        [reply().text(&format!("Before {number}.")), reply().text(&format!("After {number}."))]
    });
    let scene = Scene::cold(home(), answers);
    assert_eq!(scene.run(&["core", "start"]).code, Some(0));
    let mut peer = scene.peer("test");
    let sessions: Vec<String> = (0..4).map(|_| peer.open(scene.opening())).collect();
    for session in &sessions {
        peer.prompt(session, "before the restart");
        peer.notified(|message| message["params"]["event"]["type"] == "TurnEnded");
    }
    let screen = scene.screen(&["attach", &sessions[0]]);
    screen.expect("before the restart");
    let began = Instant::now();
    let restart = scene.run(&["core", "restart"]);
    println!("restart with 4 sessions took {:?}", began.elapsed());
    assert_eq!(restart.stdout, "Restarted the core with 4 sessions.\n", "{restart:?}");
    let ended = peer.notified(|message| message["method"] == "ended");
    assert_eq!(ended["reason"], "restart");
    screen.expect("Reconnected to the core.");
    let mut ids: Vec<String> =
        scene.ps().iter().map(|session| session["session"].as_str().unwrap().to_owned()).collect();
    let mut wanted = sessions.clone();
    ids.sort();
    wanted.sort();
    assert_eq!(ids, wanted);
    screen.say("after the restart").expect("> after the restart");
    until("the answer", || scene.server.requests().len() == 5);
    let body = scene.server.request(4).body.to_string();
    assert_eq!(body.matches("before the restart").count(), 1, "{body}");
}

#[test]
fn running_turns_stop_a_restart_unless_they_may_be_cancelled() {
    let scene = Scene::cold(
        home(),
        [reply().call("run_shell_command", json!({"command": "touch waits.txt; sleep 60"}))],
    );
    assert_eq!(scene.run(&["core", "start"]).code, Some(0));
    let mut peer = scene.peer("test");
    let session = peer.open(scene.opening());
    peer.prompt(&session, "wait");
    peer.event("ApprovalWanted");
    assert_eq!(scene.ps()[0]["state"], "waiting");
    let refused = scene.run(&["core", "restart"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("1 session is running a turn"), "{refused:?}");
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    let forced = scene.run(&["core", "restart", "--force"]);
    assert_eq!(forced.stdout, "Restarted the core with 1 session.\n", "{forced:?}");
    assert_eq!(scene.ps()[0]["state"], "idle");
}

#[test]
fn a_killed_core_loses_nothing_that_was_recorded() {
    let mut scene = Scene::with(home(), [reply().text("Recorded."), reply().text("After.")], &[]);
    let mut peer = scene.peer("test");
    let session = peer.open(scene.opening());
    peer.prompt(&session, "before the kill");
    peer.event("TurnEnded");
    scene.kill_core();
    assert!(peer.read().is_none());
    let again = scene.run(&["attach", &session, "-p", "after the kill"]);
    assert!(again.code == Some(0) && again.stdout.contains("After."), "{again:?}");
    assert!(scene.server.request(1).body.to_string().contains("before the kill"));
}

/// Two sessions at once: one in the middle of a reply, one at a call that waits for an answer, with a prompt behind it.
#[test]
fn a_core_killed_during_turns_loses_no_prompt_and_no_reply() {
    let mut scene = Scene::with(
        home(),
        [
            reply().text("Kept.").call("glob", json!({"pattern": "*"})),
            reply().text("Begun").text("more").stall_after(1),
        ],
        &[],
    );
    let mut streaming = scene.peer("test");
    let first = streaming.open(scene.opening());
    streaming.prompt(&first, "the first prompt");
    until("the second reply", || scene.server.requests().len() == 2);
    scene
        .server
        .push([reply().text("May I?").call("run_shell_command", json!({"command": "touch made.txt"}))]);
    let mut asking = scene.peer("test");
    let second = asking.open(scene.opening());
    asking.prompt(&second, "the second prompt");
    asking.event("ApprovalWanted");
    scene.kill_core();
    scene.server.push([reply().text("After."), reply().text("After.")]);
    for (session, kept) in [(first, ["the first prompt", "Kept."]), (second, ["the second prompt", "May I?"])]
    {
        let again = scene.run(&["attach", &session, "-p", "go on"]);
        assert!(again.code == Some(0) && again.stdout.contains("After."), "{again:?}");
        let sent = scene.server.requests().last().unwrap().body.to_string();
        assert!(kept.iter().all(|text| sent.contains(text)) && !sent.contains("Begun"), "{sent}");
    }
    scene.server.assert_valid();
    assert!(!scene.home.project().join("made.txt").exists(), "nobody allowed it");
}

#[test]
fn attaching_names_what_it_cannot_find() {
    let scene = Scene::with(home(), [], &[]);
    let none = scene.run(&["attach"]);
    assert!(none.code == Some(42) && none.stderr.contains("the core has no sessions"), "{none:?}");
    let unknown = scene.run(&["attach", "../evil"]);
    assert!(unknown.code == Some(42) && unknown.stderr.contains("no session matches"), "{unknown:?}");
}
