//! Sessions under `kill -9` and everything else that can happen to their files.
//!
//! `walk.rs` is a random walk of starts, kills, resumes, rewinds, renames, deletions, listings, rivals, forks, exports
//! and imports, files that other programs delete or replace, sessions of earlier releases, full and read-only disks, slow disks and clocks that jump; what must be there is kept by the test,
//! not read from the program. `situations.rs` has those that are worth a name.
//!
//! The environment says how much: `POLLUX_CRASH_SEQUENCES` (30), `POLLUX_CRASH_SEED`, and `POLLUX_CRASH_STEPS`, which
//! keeps only these steps of each walk; a failure names the ones that repeat it. `POLLUX_TEST_BINARY` names another
//! build, and `TMPDIR` another file system.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]
#![allow(clippy::print_stdout, reason = "a long run reports to a person")]

#[path = "crash/crowd.rs"]
mod crowd;
#[path = "crash/fixtures.rs"]
mod fixtures;
#[path = "crash/oracle.rs"]
mod oracle;
#[path = "it/scene.rs"]
#[allow(dead_code, reason = "shared with other test programs")]
mod scene;
#[path = "crash/script.rs"]
mod script;
#[path = "crash/situations.rs"]
mod situations;
#[path = "crash/tally.rs"]
mod tally;
#[path = "crash/untouched.rs"]
mod untouched;
#[path = "crash/walk.rs"]
mod walk;
#[path = "crash/world.rs"]
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oracle::{Kind, Violation};
use tally::Tally;
use walk::{STEPS, Walk};

const SHORT: u64 = 30;
const LONG: u64 = 1_000;
/// A kill that comes by time may miss the moment, so a walk counts as right only after so many tries.
const TRIES: usize = 3;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn sequences() -> u64 {
    number("POLLUX_CRASH_SEQUENCES").unwrap_or(SHORT)
}

fn is_long() -> bool {
    sequences() >= LONG
}

/// The steps of every walk.
fn steps() -> Vec<usize> {
    let named = std::env::var("POLLUX_CRASH_STEPS").ok();
    let named = named.map(|text| text.split(',').filter_map(|step| step.trim().parse().ok()).collect());
    named.unwrap_or_else(|| (0..STEPS).collect())
}

/// Walks with each of these seeds; what happened, and what must not have.
fn walk_all(first: u64, count: u64) -> (Tally, Vec<(u64, Violation)>) {
    let steps = steps();
    let next = AtomicUsize::new(0);
    let results = Mutex::new((Tally::default(), Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let done = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if done >= count {
                        return;
                    }
                    let seed = first.wrapping_add(done);
                    let mut walk = Walk::new(seed);
                    let verdict = walk.run(&steps);
                    let mut results = results.lock().unwrap();
                    results.0 += walk.tally;
                    if let Err(violation) = verdict {
                        println!("seed {seed}: {violation}");
                        results.1.push((seed, violation));
                    }
                    if (done + 1).is_multiple_of(LONG) {
                        println!("{} sequences: {}", done + 1, results.0);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap()
}

/// Leaves out steps as long as the walk still goes wrong; what is left is easier to understand.
fn minimised(seed: u64) -> Vec<usize> {
    let goes_wrong = |steps: &[usize]| (0..TRIES).any(|_| Walk::new(seed).run(steps).is_err());
    let mut left = steps();
    for step in steps() {
        let fewer: Vec<usize> = left.iter().copied().filter(|other| *other != step).collect();
        if !fewer.is_empty() && goes_wrong(&fewer) {
            left = fewer;
        }
    }
    left
}

/// The variables that repeat a walk, and what went wrong in it.
fn named(seed: u64, violation: &Violation) -> String {
    let steps: Vec<String> = minimised(seed).iter().map(ToString::to_string).collect();
    let steps = steps.join(",");
    format!(
        "POLLUX_CRASH_SEED={seed} POLLUX_CRASH_SEQUENCES=1 POLLUX_CRASH_STEPS={steps} repeats: {violation}"
    )
}

#[test]
fn whatever_happens_nothing_complete_is_lost() {
    let omitted = world::omitted();
    if !omitted.is_empty() {
        println!("omitted for lack of a program or of permission: {}", omitted.join(", "));
    }
    let (first, count) = (number("POLLUX_CRASH_SEED").unwrap_or(1), sequences());
    let (tally, violations) = walk_all(first, count);
    let of = |kind: Kind| violations.iter().filter(|(_, violation)| violation.kind == kind).count();
    let summary = format!(
        "{count} sequences from seed {first}: {tally}; {} lost, {} unreadable, {} deleted, {} other",
        of(Kind::Lost),
        of(Kind::Unreadable),
        of(Kind::Deleted),
        of(Kind::Conduct)
    );
    println!("{summary}");
    let shown = violations.iter().take(5).map(|(seed, violation)| named(*seed, violation));
    let shown: Vec<String> = shown.collect();
    assert!(violations.is_empty(), "{summary}\n{}", shown.join("\n"));
}
