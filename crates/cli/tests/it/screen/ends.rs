//! However it ends, nothing stays behind, and what was said is on disk.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use pollux_test_support::{Screen, executable, reply};
use serde_json::json;

use super::{open, quit, shell};
use crate::scene::{MODEL, Scene, binary, until};

/// Time limit for a process to exit: normally two seconds, far more on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The program in the middle of a command that runs for long, with a child of its own.
fn at_work() -> (Scene, Screen, Vec<String>) {
    let scene = scene();
    let screen = open(&scene, &["--yolo", "--sandbox=false"]);
    screen.say("the prompt").expect("esc to cancel");
    let pids = pids(&scene);
    (scene, screen, pids)
}

fn scene() -> Scene {
    let command = "sleep 600 & echo $! > child.txt; echo $$ > pid.txt; wait";
    Scene::new([reply().text("Running it.").call("run_shell_command", json!({"command": command}))])
}

fn pids(scene: &Scene) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(scene.home.project().join(name)).unwrap_or_default();
    until("the command runs", || read("pid.txt").ends_with('\n') && read("child.txt").ends_with('\n'));
    vec![read("pid.txt").trim().to_owned(), read("child.txt").trim().to_owned()]
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !stat.is_empty() && !rest.starts_with(['Z', 'X']))
}

fn all_gone(pids: &[String]) {
    let left = || pids.iter().filter(|pid| is_alive(pid)).cloned().collect::<Vec<_>>();
    until("everything is gone", || left().is_empty());
}

/// The session holds the prompt, the reply and an end of the call, and can be gone on with.
fn is_complete(scene: &Scene) {
    let session = scene.session();
    let contents: Vec<&str> = session["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert_eq!(contents[..2], ["the prompt", "Running it."], "{session:#}");
    let call = &session["messages"][1]["toolCalls"][0];
    assert_eq!(call["name"], "run_shell_command", "{session:#}");
    scene.server.push([reply().text("Still here.")]);
    let run = scene.run(&["--resume", "-p", "go on"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Still here.\n", Some(0)), "{}", run.stderr);
    let sent = scene.server.requests().last().unwrap().body.to_string();
    assert_eq!(sent.matches("\"functionResponse\"").count(), 1, "{sent}");
}

#[test]
fn a_signal_ends_it_in_order() {
    for (signal, code) in [(rustix::process::Signal::TERM, 143), (rustix::process::Signal::HUP, 129)] {
        let (scene, mut screen, mut pids) = at_work();
        pids.push(screen.pid().to_string());
        screen.signal(signal);
        assert_eq!(screen.wait_exit().code(), Some(code), "{}", screen.text());
        all_gone(&pids);
        // The terminal is as it was found.
        assert!(!screen.look(|window| window.hide_cursor() || window.bracketed_paste()));
        is_complete(&scene);
    }
}

#[test]
fn a_closed_window_ends_it() {
    let (scene, mut screen, mut pids) = at_work();
    pids.push(screen.pid().to_string());
    screen.close_master();
    screen.wait_exit();
    all_gone(&pids);
    is_complete(&scene);
}

#[test]
fn a_closed_window_ends_it_while_it_waits_for_a_prompt_or_an_answer() {
    let scene = Scene::new([shell("touch made.txt")]);
    let mut screen = open(&scene, &[]);
    let since = Instant::now();
    screen.close_master();
    screen.wait_exit();
    assert!(since.elapsed() < SOON, "it took {:?}", since.elapsed());

    let mut screen = open(&scene, &[]);
    screen.say("go").expect("Allow once");
    let since = Instant::now();
    screen.close_master();
    screen.wait_exit();
    assert!(since.elapsed() < SOON, "it took {:?}", since.elapsed());
    assert!(!scene.home.project().join("made.txt").exists());
}

#[test]
fn it_does_not_outlive_a_parent_that_was_killed() {
    let scene = scene();
    // A parent in between, as a terminal's shell is; killed, it says goodbye to nobody.
    let script = format!(
        "echo $$ > parent.txt; '{}' -m {MODEL} --yolo --sandbox=false & echo $! > it.txt; fg; true",
        binary().display()
    );
    let script = format!("set -m; {script}");
    let args = ["-c", script.as_str()];
    let mut screen =
        scene.home.command(Path::new("/bin/bash"), args).against(&scene.server).on_screen(100, 40);
    screen.expect(super::PLACEHOLDER).say("the prompt").expect("esc to cancel");
    let mut pids = pids(&scene);
    pids.push(scene.home.read("it.txt").trim().to_owned());
    screen.signal(rustix::process::Signal::KILL);
    screen.wait_exit();
    all_gone(&pids);
    is_complete(&scene);
}

#[test]
fn killed_itself_its_command_ends_with_it() {
    let (scene, mut screen, pids) = at_work();
    screen.signal(rustix::process::Signal::KILL);
    screen.wait_exit();
    // Nobody is left who could end what the command started; a sandbox does it where there is one.
    all_gone(&pids[..1]);
    let _ = std::process::Command::new("kill").args(["-9", &pids[1]]).status();
    is_complete(&scene);
}

#[test]
fn a_resumed_session_warns_about_an_interrupted_call() {
    const NOTE: &str = "A tool call was interrupted before its result was recorded.";
    let (scene, mut screen, pids) = at_work();
    screen.signal(rustix::process::Signal::KILL);
    screen.wait_exit();
    let _ = std::process::Command::new("kill").args(["-9", &pids[1]]).status();
    let resumed = super::open(&scene, &["--resume", "latest"]);
    resumed
        .expect(NOTE)
        .expect("It may or may not have taken")
        .expect("The model will be told with your next prompt.");
    super::quit(resumed);
    let mut plain = scene.prepare(&["-m", MODEL, "--resume", "latest"]).on_terminal();
    plain.expect("(interrupted)]").expect(NOTE).expect("User: ").say("/quit");
    assert_eq!(plain.end().0, Some(0));
}

/// The program as a job of an interactive shell, and its process.
fn as_job(scene: &Scene, args: &str) -> (Screen, String) {
    let shell = ["--norc", "--noprofile", "-i"];
    let run = scene.home.command(Path::new("/bin/bash"), shell).against(&scene.server);
    let screen = run.env("PS1", "ready: ").on_screen(100, 40);
    let command = format!("'{}' -m {MODEL} {args}", binary().display());
    screen.expect("ready: ").type_text(&command).key("Enter");
    let children = format!("/proc/{0}/task/{0}/children", screen.pid());
    let child = || fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
    until("the program runs", || !child().is_empty());
    (screen, child())
}

/// How many processes a process has started that still run.
fn children(pid: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    lists.map(|list| list.split_whitespace().count()).sum()
}

#[test]
fn what_belongs_to_a_session_ends_when_it_is_opened_again() {
    let turn = |word: &str| [shell(&format!("echo {word}")), reply().text(word)];
    let scene = Scene::new(["first", "second", "third"].into_iter().flat_map(turn));
    let screen = open(&scene, &["--yolo", "--sandbox=false"]);
    screen.say("one").expect("✦ first").expect(super::PLACEHOLDER);
    let at_first = children(screen.pid());
    assert!(at_first > 0);
    for (command, told, prompt, answer) in [
        ("/mcp reload", "MCP servers reconnected.", "two", "✦ second"),
        ("/clear", "New session.", "three", "✦ third"),
    ] {
        screen.say(command).expect_raw(told).expect(super::PLACEHOLDER);
        screen.forget();
        screen.say(prompt).expect(answer).expect(super::PLACEHOLDER);
    }
    until("only the last session has processes", || children(screen.pid()) <= at_first);
    quit(screen);
}

/// Closes the window; the program must be gone, and so must what it started.
fn closes(mut screen: Screen, mut pids: Vec<String>) {
    pids.push(screen.pid().to_string());
    screen.close_master();
    screen.wait_exit();
    all_gone(&pids);
}

fn suspend(screen: &Screen) {
    screen.key("Ctrl+Z").expect("Stopped");
}

#[test]
fn a_closed_window_ends_it_while_it_is_stopped() {
    let scene = Scene::new([]);
    let (screen, pid) = as_job(&scene, "");
    screen.expect(super::PLACEHOLDER);
    suspend(&screen);
    closes(screen, vec![pid]);

    // The same with a command that runs.
    let scene = self::scene();
    let (screen, pid) = as_job(&scene, "--yolo --sandbox=false");
    screen.expect(super::PLACEHOLDER).say("the prompt").expect("esc to cancel");
    let mut all = pids(&scene);
    all.push(pid);
    suspend(&screen);
    closes(screen, all);
    is_complete(&scene);
}

#[test]
fn a_closed_window_ends_it_after_it_was_stopped_and_went_on() {
    let scene = Scene::new([]);
    let (screen, pid) = as_job(&scene, "");
    screen.expect(super::PLACEHOLDER);
    suspend(&screen);
    screen.type_text("fg").key("Enter").expect(super::PLACEHOLDER);
    closes(screen, vec![pid]);
}

#[test]
fn a_closed_window_ends_it_while_an_editor_has_the_terminal() {
    // An editor that does not mind the hang-up.
    let script = "#!/bin/sh\ntrap '' HUP\necho $$ > \"$HOME/editor.txt\"\nexec sleep 600\n";
    let home = pollux_test_support::TestHome::new();
    let editor = home.home().join("editor.sh");
    executable(&editor, script);
    let scene = Scene::with(home.env("VISUAL", editor.to_str().unwrap()), []);
    let (screen, pid) = as_job(&scene, "");
    screen.expect(super::PLACEHOLDER).key("Ctrl+G");
    let file = scene.home.home().join("editor.txt");
    until("the editor is open", || fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
    closes(screen, vec![pid]);
    let editor = fs::read_to_string(&file).unwrap();
    let _ = std::process::Command::new("kill").args(["-9", editor.trim()]).status();
}

#[test]
fn a_closed_window_ends_it_in_a_list_in_shell_mode_and_at_a_question() {
    let scene = Scene::new([shell("touch made.txt")]);
    let (screen, pid) = as_job(&scene, "");
    screen.expect(super::PLACEHOLDER).say("/resume").expect("Chat Sessions");
    closes(screen, vec![pid]);

    let (screen, pid) = as_job(&scene, "");
    screen.expect(super::PLACEHOLDER).key("!").say("sleep 600").expect("esc to cancel");
    closes(screen, vec![pid]);

    let (screen, pid) = as_job(&scene, "");
    screen.expect(super::PLACEHOLDER).say("go").expect("Allow once");
    closes(screen, vec![pid]);
    assert!(!scene.home.project().join("made.txt").exists());
}

#[test]
fn a_closed_window_ends_it_in_the_middle_of_typing() {
    let scene = Scene::new([]);
    for _ in 0..5 {
        let (screen, pid) = as_job(&scene, "");
        screen.expect(super::PLACEHOLDER);
        for _ in 0..20 {
            screen.type_text("abc");
        }
        closes(screen, vec![pid]);
    }
}

#[test]
fn a_closed_window_ends_a_conversation_in_lines() {
    let scene = Scene::new([shell("touch made.txt")]);
    let (screen, pid) = as_job(&scene, "--screen-reader");
    screen.expect("User: ");
    closes(screen, vec![pid]);

    let (screen, pid) = as_job(&scene, "--screen-reader");
    screen.expect("User: ");
    suspend(&screen);
    closes(screen, vec![pid]);

    let (screen, pid) = as_job(&scene, "--screen-reader");
    screen.expect("User: ").type_text("go").key("Enter").expect("Answer");
    closes(screen, vec![pid]);
    assert!(!scene.home.project().join("made.txt").exists());
}
