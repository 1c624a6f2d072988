//! Several processes on one state directory. A child is this test program again; what it is to do it reads
//! from its input.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::time::SystemClock;
use pollux_memory::{AgentId, SessionKey, SessionStore};

use crate::scratch::Scratch;

pub(crate) fn child(test: &str, input: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child
}

/// The parent's request; `None` if the ignored tests are run by hand.
pub(crate) fn job() -> Option<Vec<String>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    (!lines.is_empty()).then_some(lines)
}

fn store(file: &str) -> SessionStore {
    SessionStore::new(file.into(), Duration::from_secs(45), Arc::new(SystemClock))
}

#[test]
#[ignore = "a child of the tests below"]
fn child_updates() {
    let Some(job) = job() else { return };
    let [file, name, count] = job.as_slice() else { return };
    let store = store(file);
    for number in 0..count.parse::<usize>().unwrap() {
        let key = SessionKey::session(&AgentId::default(), &format!("{name}-{number}"));
        store.upsert(&key, pollux_domain::JsonObject::new()).unwrap();
        // Reading in between must not lose writes.
        assert!(store.read().unwrap().contains_key(key.as_str()));
    }
}

#[test]
#[ignore = "a child of the tests below"]
fn child_holds_the_lock() {
    let Some(job) = job() else { return };
    store(&job[0])
        .update(|_| {
            println!("held");
            std::thread::sleep(Duration::from_secs(60));
        })
        .unwrap();
}

fn updates(processes: usize, each: usize) {
    let scratch = Scratch::new();
    let file = scratch.agent().store_file();
    let input = |number: usize| format!("{}\np{number}\n{each}\n", file.display());
    let children: Vec<Child> =
        (0..processes).map(|number| child("processes::child_updates", &input(number))).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_eq!(store(file.to_str().unwrap()).read().unwrap().len(), processes * each);
    let left = std::fs::read_dir(scratch.agent().sessions_dir()).unwrap().count();
    assert_eq!(left, 1, "no lock and no temporary file");
}

#[test]
fn no_update_of_any_process_is_lost() {
    updates(6, 20);
}

#[test]
#[ignore = "takes a while; sixteen processes with two hundred updates each"]
fn no_update_of_sixteen_processes_is_lost() {
    updates(16, 200);
}

#[test]
fn the_lock_of_a_killed_owner_is_taken_over_at_once() {
    let scratch = Scratch::new();
    let file = scratch.agent().store_file();
    let mut owner = child("processes::child_holds_the_lock", &format!("{}\n", file.display()));
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("held")));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(file.with_file_name("sessions.json.lock").exists());
    // A lock whose owner lives is given up after 10 s.
    store(file.to_str().unwrap()).update(|_| ()).unwrap();
}
