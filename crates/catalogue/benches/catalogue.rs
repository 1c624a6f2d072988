//! Listing and searching many sessions.
//!
//! `cargo bench -p pollux-catalogue` writes 5,000 sessions of 577 MB, builds the index over them and asks it.
//! `cargo bench -p pollux-catalogue --bench catalogue -- 500 58` does so with 500 sessions of 58 MB. The time
//! of the processor stands beside that of the clock, since other work on the machine changes only the latter.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and fails where something is wrong"
)]

#[path = "catalogue/corpus.rs"]
mod corpus;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pollux_catalogue::{Catalogue, Filter, Source};
use pollux_domain::time::Timestamp;

use corpus::{Random, Vocabulary};

const SEARCHES: usize = 200;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list", root] => list(Path::new(root)),
        ["build", root] => build(Path::new(root)),
        ["search", root] => search(Path::new(root)),
        ["write", root] => drop(corpus::write(Path::new(root), 5000, 577_000_000)),
        ["measure", root] => measure(Path::new(root)),
        [sessions, megabytes] => run(sessions.parse().unwrap(), megabytes.parse().unwrap()),
        _ => run(5000, 577),
    }
}

fn run(sessions: usize, megabytes: usize) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    corpus::write(root, sessions, megabytes * 1_000_000);
    println!("corpus: {sessions} sessions, {megabytes} MB");
    measure(root);
}

fn measure(root: &Path) {
    println!("cold list, whole process: {}", child("list", root));
    println!("warm list, whole process: {}", (0..5).map(|_| child("list", root)).min().unwrap());
    println!("words, whole process: {}", child("build", root));
    println!("warm list with words, whole process: {}", (0..5).map(|_| child("list", root)).min().unwrap());
    search(root);
    change(root);
    println!("index: {} MB", fs::metadata(index(root)).unwrap().len() / 1_000_000);
}

/// Runs this program again: time, and the most memory it had at once.
fn child(what: &str, root: &Path) -> String {
    let begin = Instant::now();
    let output = Command::new(std::env::current_exe().unwrap()).arg(what).arg(root).output().unwrap();
    let time = begin.elapsed();
    assert!(output.status.success(), "{output:?}");
    format!("{:>6.1} ms, {}", millis(time), String::from_utf8(output.stdout).unwrap().trim())
}

fn list(root: &Path) {
    let mut catalogue = Catalogue::open(&index(root));
    let refreshed = catalogue.refresh(&sources(root), &mut |_| {});
    let listed = catalogue.list(&Filter::default());
    println!("{} listed, {} read, {}", listed.len(), refreshed.read, peak());
}

fn build(root: &Path) {
    let mut catalogue = Catalogue::open(&index(root));
    catalogue.refresh(&sources(root), &mut |_| {});
    catalogue.refresh_texts(&mut |_| {});
    println!("{}", peak());
}

fn search(root: &Path) {
    let mut catalogue = opened(root);
    println!("before the first search: {}", peak());
    let (vocabulary, mut random) = (Vocabulary::new(), Random::new(99));
    let now = Timestamp::parse("2026-11-01T00:00:00Z").unwrap();
    let mut times = Vec::new();
    let mut found = 0;
    for number in 0..SEARCHES {
        let words = match number % 4 {
            0 => vocabulary.word(&mut random).to_owned(),
            1 => format!("{} {}", vocabulary.word(&mut random), vocabulary.word(&mut random)),
            2 => vocabulary.word(&mut random).chars().take(3).collect(),
            _ => "read_file src".to_owned(),
        };
        let begin = Instant::now();
        found += catalogue.search(&words, &Filter::default(), now).len();
        times.push(begin.elapsed());
    }
    times.sort();
    let at = |percent: usize| millis(times[times.len() * percent / 100]);
    println!("search: median {:.1} ms, p95 {:.1} ms, p99 {:.1} ms, {found} hits", at(50), at(95), at(99));
    println!("after the last search: {}", peak());
}

/// Measures the cost of one changed session.
fn change(root: &Path) {
    let mut catalogue = opened(root);
    let changed = catalogue.list(&Filter { limit: Some(1), ..Filter::default() }).remove(0).record.file;
    let text = fs::read_to_string(&changed).unwrap().replacen("ba", "bo", 1);
    std::io::Write::write_all(&mut fs::File::create(&changed).unwrap(), text.as_bytes()).unwrap();
    let begin = Instant::now();
    let refreshed = catalogue.refresh(&sources(root), &mut |_| {});
    catalogue.refresh_texts(&mut |_| {});
    println!("one session changed: {:.1} ms, {} read", millis(begin.elapsed()), refreshed.read);
}

fn opened(root: &Path) -> Catalogue {
    let mut catalogue = Catalogue::open(&index(root));
    catalogue.refresh(&sources(root), &mut |_| {});
    catalogue.refresh_texts(&mut |_| {});
    catalogue
}

fn index(root: &Path) -> PathBuf {
    root.join("pollux/catalogue.db")
}

fn sources(root: &Path) -> Vec<Source> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(root.join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
        .into_iter()
        .map(|folder| Source::Own { project: Some(folder.clone()), dirs: vec![folder.join("chats")] })
        .collect()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The most memory this process had at once, and the time it kept processors busy.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may contain anything: `utime` and `stime` in hundredths of a second.
    let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let busy: u64 = numbers.filter_map(|number| number.parse::<u64>().ok()).sum::<u64>() * 10;
    format!("peak {}, busy {busy} ms", line.unwrap_or(" unknown").trim())
}
