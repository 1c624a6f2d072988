//! What idle sessions cost.

use std::fs;
use std::time::Duration;

use pollux_test_support::{TestHome, reply};

use crate::scene::{Scene, quiet};

/// Resident memory of a process in KiB.
fn resident(pid: u64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Prints a measurement; run it with `--run-ignored only --no-capture`.
#[test]
#[ignore = "a measurement"]
fn a_hundred_idle_sessions() {
    let replies = (0..100).map(|number| reply().text(&format!("Answer {number}.")));
    let scene = Scene::with(TestHome::new().settings(quiet()), replies, &[]);
    let mut peer = scene.peer("test");
    let pid = peer.call("core/status", serde_json::json!({})).unwrap()["pid"].as_u64().unwrap();
    println!("empty: {:.1} MiB", resident(pid) as f64 / 1024.0);
    for number in 1..=100 {
        let session = peer.open(scene.opening());
        peer.prompt(&session, "hello");
        peer.notified(|message| message["params"]["event"]["type"] == "TurnEnded");
        if [10, 50, 100].contains(&number) {
            std::thread::sleep(Duration::from_millis(500));
            println!("{number} sessions: {:.1} MiB", resident(pid) as f64 / 1024.0);
        }
    }
    let mib = resident(pid) / 1024;
    assert!(mib <= 90, "{mib} MiB");
}
