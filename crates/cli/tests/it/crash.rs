//! `kill -9` at bad moments, then `--resume`: what was complete is there.
//!
//! `walk.rs` is a random walk of starts, kills, resumes, listings, rivals, deletions and full disks; the tests
//! here are situations that are worth a name. How long the walk is comes from the environment:
//! `POLLUX_CRASH_SEQUENCES` (30), and `POLLUX_CRASH_SEED`, which a failure names so that it can be repeated.

#[path = "crash/crowd.rs"]
mod crowd;
#[path = "crash/fixtures.rs"]
mod fixtures;
#[path = "crash/oracle.rs"]
mod oracle;
#[path = "crash/script.rs"]
mod script;
#[path = "crash/tally.rs"]
mod tally;
#[path = "crash/untouched.rs"]
mod untouched;
#[path = "crash/walk.rs"]
mod walk;

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use pollux_test_support::{Reply, chance, reply};
use serde_json::{Value, json};

use crate::scene::{Scene, until};
use oracle::{Kind, Violation};
use tally::Tally;
use walk::Walk;

const SHORT: u64 = 30;
const LONG: u64 = 1_000;
/// Walks that once went wrong: results were told before they were on disk.
const FOUND: [u64; 4] = [1005, 1014, 1018, 1055];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn sequences() -> u64 {
    number("POLLUX_CRASH_SEQUENCES").unwrap_or(SHORT)
}

fn is_long() -> bool {
    sequences() >= LONG
}

/// Whether a process may mount something in a world of its own; otherwise two kinds of trouble are left out.
fn may_mount() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let script = "mount -t tmpfs -o size=64k tmpfs /tmp";
        let tried = Command::new("unshare").args(["-m", "sh", "-c", script]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    })
}

/// Walks with each of these seeds; what happened, and what must not have.
fn walk_all(seeds: &[u64]) -> (Tally, Vec<(u64, Violation)>) {
    let next = AtomicUsize::new(0);
    let results = Mutex::new((Tally::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)).copied() else { return };
                    let mut walk = Walk::new(seed);
                    let verdict = walk.run();
                    let mut results = results.lock().unwrap();
                    results.0 += walk.tally;
                    results.1.extend(verdict.err().map(|violation| (seed, violation)));
                }
            });
        }
    });
    results.into_inner().unwrap()
}

#[test]
fn whatever_happens_nothing_complete_is_lost() {
    let (first, count) = (number("POLLUX_CRASH_SEED").unwrap_or(1), sequences());
    let seeds: Vec<u64> = (0..count).map(|index| first.wrapping_add(index)).collect();
    let (tally, violations) = walk_all(&seeds);
    let of = |kind: Kind| violations.iter().filter(|(_, violation)| violation.kind == kind).count();
    let summary = format!(
        "{count} sequences from seed {first}: {tally}; {} lost, {} unreadable, {} deleted, {} other",
        of(Kind::Lost),
        of(Kind::Unreadable),
        of(Kind::Deleted),
        of(Kind::Conduct)
    );
    println!("{summary}");
    let named: Vec<String> = violations
        .iter()
        .take(10)
        .map(|(seed, violation)| {
            format!("POLLUX_CRASH_SEED={seed} POLLUX_CRASH_SEQUENCES=1 repeats: {violation}")
        })
        .collect();
    assert!(violations.is_empty(), "{summary}\n{}", named.join("\n"));
}

#[test]
fn walks_that_once_went_wrong_go_right() {
    let (_, violations) = walk_all(&FOUND);
    assert!(violations.is_empty(), "{violations:?}");
}

fn contents(session: &Value) -> Vec<String> {
    let messages = session["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Goes on with the killed session and returns it.
fn resume(scene: &Scene) -> Value {
    let asked = scene.server.requests().len();
    scene.server.push([reply().text("Still here.")]);
    let list = scene.prepare(&["--list-sessions"]).run();
    assert!(list.stdout.contains("(1):"), "{} {}", list.stdout, list.stderr);
    let run = scene.run(&["--resume", "-p", "go on"]);
    assert_eq!((run.stdout.as_str(), run.code), ("Still here.\n", Some(0)), "{}", run.stderr);
    assert_eq!(scene.server.requests().len(), asked + 1);
    scene.server.assert_valid();
    scene.session()
}

#[test]
fn killed_while_the_reply_streams() {
    let scene = Scene::new([
        reply().text("First.").call("glob", json!({"pattern": "*"})),
        reply().text("Begun").text("more").stall_after(1),
    ]);
    let running = scene.prompt(&["-p", "the prompt", "-o", "stream-json"]).spawn();
    running.wait_for_stdout("Begun");
    running.kill();
    let session = resume(&scene);
    assert_eq!(contents(&session), ["the prompt", "First.", "go on", "Still here."]);
    assert_eq!(session["messages"][1]["toolCalls"][0]["status"].as_str().map(str::trim), Some("success"));
    let sent = scene.server.request(2).body.to_string();
    assert!(sent.contains("the prompt") && sent.contains("First.") && !sent.contains("Begun"), "{sent}");
}

#[test]
fn killed_before_the_model_said_anything() {
    let scene = Scene::new([Reply::never()]);
    let running = scene.prompt(&["-p", "the prompt"]).spawn();
    until("the request arrived", || !scene.server.requests().is_empty());
    running.kill();
    assert_eq!(contents(&scene.session()), ["the prompt"], "what was said is on disk before it is sent");
    assert_eq!(contents(&resume(&scene)), ["the prompt", "go on", "Still here."]);
}

#[test]
fn killed_while_a_command_runs() {
    let command = "echo $$ > pid.txt; exec sleep 60";
    let step = reply()
        .text("Running it.")
        .call_with_id("done", "write_file", json!({"file_path": "a.txt", "content": "written"}))
        .signature("sig-9")
        .call_with_id("open", "run_shell_command", json!({"command": command}));
    let scene = Scene::new([step]);
    let running = scene.prompt(&["-p", "the prompt", "--yolo"]).spawn();
    let pid_file = scene.home.project().join("pid.txt");
    until("the command runs", || fs::read_to_string(&pid_file).is_ok_and(|text| text.ends_with('\n')));
    running.kill();
    let pid = scene.home.read("pid.txt");
    // The command may have outlived its parent.
    let _ = std::process::Command::new("kill").args(["-KILL", pid.trim()]).output();
    assert_eq!(scene.home.read("a.txt"), "written");
    let session = resume(&scene);
    assert_eq!(contents(&session), ["the prompt", "Running it.", "go on", "Still here."]);
    let request = scene.server.request(1);
    let turn = request.contents().into_iter().nth(2).unwrap();
    let parts = turn["parts"].as_array().unwrap();
    let answers: Vec<&Value> = parts.iter().filter_map(|part| part.get("functionResponse")).collect();
    assert_eq!(answers.len(), 2, "{turn:#}");
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!("done"), &json!("open")));
    assert!(answers[0]["response"].get("output").is_some(), "{turn:#}");
    assert!(answers[1].to_string().to_lowercase().contains("interrupt"), "{turn:#}");
    assert!(request.body.to_string().contains("sig-9"));
}

#[test]
fn killed_again_and_again_the_session_only_grows() {
    let scene = Scene::new([]);
    for round in 0..4 {
        scene.server.push([
            reply().text(&format!("Step {round}.")).call("glob", json!({"pattern": format!("{round}*")})),
            Reply::never(),
        ]);
        let prompt = format!("prompt {round}");
        let args: &[&str] =
            if round == 0 { &["-p", &prompt] } else { &["--resume", "latest", "-p", &prompt] };
        let running = scene.prompt(args).spawn();
        until("the second step was asked for", || scene.server.requests().len() == 2 * (round + 1));
        running.kill();
    }
    let expected: Vec<String> =
        (0..4).flat_map(|round| [format!("prompt {round}"), format!("Step {round}.")]).collect();
    let session = resume(&scene);
    assert_eq!(contents(&session)[..8], expected);
}
