//! Measures a snapshot and a rewind of a workspace with 10,000 files.
//!
//! Run with `cargo bench -p pollux-rewind --bench snapshot`. Prints medians next to a plain walk of the same
//! tree in the same run; nothing passes or fails.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reports to a person and writes its own scratch files"
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use pollux_domain::id::SessionId;
use pollux_rewind::{ChangeScope, Conflicts, Journal, JournalSetup, Limits, Point, Target, default_skips};

const FOLDERS: usize = 500;
const FILES: usize = 20;
const ROUNDS: usize = 15;
const DIRTY: usize = 100;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ws");
    for number in 0..FOLDERS * FILES {
        let path = file(&root, number);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("file {number}\n").repeat(100)).unwrap();
    }
    // Files that just changed are read again; let them settle.
    std::thread::sleep(Duration::from_millis(300));
    let setup = |session: &str| JournalSetup {
        root: root.clone(),
        store: folder.path().join("store"),
        session: SessionId::parse(session).unwrap(),
        limits: Limits::default(),
        skip: default_skips(),
        never: Vec::new(),
    };
    println!("{} files in {FOLDERS} folders", FOLDERS * FILES);
    let journal = Journal::open(setup("first")).unwrap();
    report(
        "first snapshot of a project",
        &[timed(|| drop(journal.before(&point(0), ChangeScope::Workspace)))],
    );
    report("its end", &[timed(|| drop(journal.after("0")))]);
    let other = Journal::open(setup("second")).unwrap();
    report(
        "first snapshot of a later session",
        &[timed(|| drop(other.before(&point(0), ChangeScope::Workspace)))],
    );

    let (mut walks, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        walks.push(timed(|| assert!(walk(&root) > FILES)));
        before.push(timed(|| drop(journal.before(&point(round), ChangeScope::Workspace))));
        after.push(timed(|| drop(journal.after(&round.to_string()))));
    }
    report("plain walk with metadata", &walks);
    report("before a command, nothing changed", &before);
    report("after a command, nothing changed", &after);

    let (mut after, mut plans, mut applies, mut edits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 100..100 + ROUNDS {
        journal.before(&point(round), ChangeScope::Workspace).unwrap();
        for number in 0..DIRTY {
            fs::write(file(&root, number * 97), format!("round {round}")).unwrap();
        }
        after.push(timed(|| drop(journal.after(&round.to_string()))));
        let mut plan = None;
        plans.push(timed(|| plan = journal.plan(&Target::Call(round.to_string())).ok()));
        applies.push(timed(|| drop(journal.apply(&plan.unwrap(), Conflicts::Keep))));
        let edit = Point { call: format!("edit-{round}"), ..point(round) };
        edits.push(timed(|| drop(journal.before(&edit, ChangeScope::File(file(&root, round))))));
        journal.after(&edit.call).unwrap();
    }
    report(&format!("after a command, {DIRTY} files changed"), &after);
    report(&format!("plan of a rewind, {DIRTY} files"), &plans);
    report(&format!("rewind, {DIRTY} files"), &applies);
    report("before an edit of one file", &edits);
}

fn file(root: &Path, number: usize) -> std::path::PathBuf {
    let folder = number % FOLDERS;
    root.join(format!("dir-{}/sub-{folder}/file-{number}.txt", folder % 20))
}

fn point(number: usize) -> Point {
    Point { call: number.to_string(), prompt: String::new(), tool: "run_shell_command".to_owned() }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn walk(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if fs::symlink_metadata(&path).unwrap().is_dir() { 1 + walk(&path) } else { 1 }).sum()
}

fn report(name: &str, times: &[Duration]) {
    let mut times = times.to_vec();
    times.sort();
    println!("{name:42} {:8.1} ms", times[times.len() / 2].as_secs_f64() * 1000.0);
}
