//! No tool accesses files outside the workspace: random trees and paths for every file tool.
//!
//! `POLLUX_FUZZ_SECONDS` sets how long these tests run instead of a few cases.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pollux_domain::tool::Tool;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::bench::{Bench, put};

/// The content of outside files, and the name of one of them.
const CANARY: &str = "CANARY-CONTENT";
const CANARY_NAME: &str = "canary-name";
/// The content of an outside file with a hard link inside: it can be read there.
const LINKED: &str = "LINKED-CONTENT";

const NAMES: &[&str] =
    &["a", "b", "A", "d.txt", "é", "e\u{301}", "x y", ".git", ".env", "..a", "a.", "a ", ".inbox", "~", "@a"];
const PIECES: &[&str] = &[
    "..",
    ".",
    "",
    "a",
    "b",
    "A",
    "d.txt",
    "é",
    "e\u{301}",
    "x y",
    ".git",
    "..a",
    "a.",
    "a ",
    "~",
    "@a",
    "new",
    "...",
    "a:b",
    "%2e%2e",
    "..%2f..",
    "\u{ff0e}\u{ff0e}",
    "\u{2215}",
    "\u{202e}a",
    "\\",
    "..\\",
];

/// Something inside the project; the second part of a link is where it leads.
#[derive(Debug, Clone)]
enum Node {
    File(PathBuf),
    Folder(PathBuf),
    Link(PathBuf, Spelling),
    HardLink(PathBuf),
    Pipe(PathBuf),
}

/// A path in one of many spellings.
#[derive(Debug, Clone)]
struct Spelling {
    start: Start,
    pieces: Vec<&'static str>,
    end: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    Relative,
    Outside,
    Project,
    Home,
    ProcRoot,
    ProcCwd,
    FileUrl,
    Mention,
    Slash,
    DevFd,
    Up,
}

impl Spelling {
    fn text(&self, base: &Path) -> String {
        let at = |name: &str| base.join(name).display().to_string();
        let start = match self.start {
            Start::Relative => String::new(),
            Start::Outside => at("outside/"),
            Start::Project => at("project/"),
            Start::Home => at("home/"),
            Start::ProcRoot => format!("/proc/self/root{}", at("outside/")),
            Start::ProcCwd => "/proc/self/cwd/../../".to_owned(),
            Start::FileUrl => format!("file://{}", at("outside/")),
            Start::Mention => "@".to_owned(),
            Start::Slash => "/".to_owned(),
            Start::DevFd => "/dev/fd/".to_owned(),
            Start::Up => "../outside/".to_owned(),
        };
        format!("{start}{}{}", self.pieces.join("/"), self.end)
    }
}

fn spelling() -> impl Strategy<Value = Spelling> {
    use Start::*;
    let start = prop::sample::select(vec![
        Relative, Relative, Relative, Outside, Project, Home, ProcRoot, ProcCwd, FileUrl, Mention, Slash,
        DevFd, Up,
    ]);
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..5);
    let end = prop::sample::select(vec!["", "", "", "", "/", "/.", " ", "\0", "/..", "\n"]);
    (start, pieces, end).prop_map(|(start, pieces, end)| Spelling { start, pieces, end })
}

fn place() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec(prop::sample::select(NAMES), 1..4).prop_map(|names| names.iter().collect())
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        3 => place().prop_map(Node::File),
        2 => place().prop_map(Node::Folder),
        6 => (place(), spelling()).prop_map(|(place, target)| Node::Link(place, target)),
        2 => place().prop_map(Node::HardLink),
        1 => place().prop_map(Node::Pipe),
    ]
}

/// A path that a tool is asked for.
#[derive(Debug, Clone)]
enum Asked {
    Spelled(Spelling),
    /// One of the planted nodes, or something below it.
    Planted(prop::sample::Index, Vec<&'static str>),
}

impl Asked {
    fn text(&self, base: &Path, nodes: &[Node]) -> String {
        match self {
            Self::Planted(index, below) if !nodes.is_empty() => {
                let place = match index.get(nodes) {
                    Node::File(place) | Node::Folder(place) | Node::Link(place, _) => place,
                    Node::HardLink(place) | Node::Pipe(place) => place,
                };
                below.iter().fold(place.clone(), |path, piece| path.join(piece)).display().to_string()
            }
            Self::Planted(..) => ".".to_owned(),
            Self::Spelled(spelling) => spelling.text(base),
        }
    }
}

/// The tool to call, and the path.
fn request() -> impl Strategy<Value = (&'static str, Asked)> {
    let tools = vec![
        "read_file",
        "write_file",
        "replace",
        "create",
        "list_directory",
        "glob",
        "glob_pattern",
        "grep_search",
        "read_many_files",
    ];
    let below = prop::collection::vec(prop::sample::select(PIECES), 0..3);
    let asked = prop_oneof![
        spelling().prop_map(Asked::Spelled),
        any::<prop::sample::Index>().prop_map(|index| Asked::Planted(index, Vec::new())),
        (any::<prop::sample::Index>(), below).prop_map(|(index, below)| Asked::Planted(index, below)),
    ];
    (prop::sample::select(tools), asked)
}

fn arguments(kind: &'static str, path: &str) -> (&'static str, Value) {
    let edit =
        |old: &str| json!({"file_path": path, "instruction": "i", "old_string": old, "new_string": "NEW"});
    match kind {
        "read_file" => (kind, json!({"file_path": path})),
        "write_file" => (kind, json!({"file_path": path, "content": "WRITTEN"})),
        "replace" => (kind, edit("CONTENT")),
        "create" => ("replace", edit("")),
        "list_directory" => (kind, json!({"dir_path": path})),
        "glob" => (kind, json!({"pattern": "**/*", "dir_path": path, "respect_git_ignore": false})),
        "glob_pattern" => ("glob", json!({"pattern": format!("{path}/**"), "case_sensitive": true})),
        "grep_search" => (kind, json!({"pattern": "CONTENT", "dir_path": path, "no_ignore": true})),
        _ => (
            "read_many_files",
            json!({"include": [path, format!("{path}/**"), "**/*"], "useDefaultExcludes": false}),
        ),
    }
}

/// A project with an outside world that must not be touched.
struct World {
    bench: Bench,
    tools: Vec<Arc<dyn Tool>>,
    before: BTreeMap<PathBuf, (u64, i64, i64, u32, Vec<u8>)>,
}

impl World {
    fn new(nodes: &[Node]) -> Self {
        let bench = Bench::new();
        let base = bench.base();
        for folder in ["outside", "outside/a", "outside/b/a", "outside/.git"] {
            for name in ["a", "b", "d.txt", "é", CANARY_NAME] {
                let path = base.join(folder).join(name);
                let is_folder = folder == "outside" && matches!(name, "a" | "b");
                if !is_folder && !path.exists() {
                    put(&path, format!("{CANARY} of {folder}"));
                }
            }
        }
        put(&base.join("outside/linked"), LINKED);
        put(&base.join("home/.gemini/settings.json"), CANARY);
        put(&base.join("home/a"), CANARY);
        put(&base.join("top"), CANARY);
        for node in nodes {
            plant(&base, node);
        }
        let tools = bench.tools();
        let before = snapshot(&base);
        Self { bench, tools, before }
    }

    /// Calls a tool and returns its result.
    fn call(&self, runtime: &Runtime, kind: &'static str, path: &str) -> String {
        let (name, args) = arguments(kind, path);
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        match tool.prepare(args.as_object().unwrap()) {
            Ok(call) => {
                let told = call.describe();
                format!("{told} {:?}", runtime.block_on(self.bench.run(call)))
            }
            Err(refusal) => refusal.to_string(),
        }
    }

    fn check(&self, answer: &str) -> Result<(), TestCaseError> {
        prop_assert!(!answer.contains(CANARY), "content of an outside file: {answer}");
        prop_assert!(!answer.contains(CANARY_NAME), "names of an outside folder: {answer}");
        prop_assert_eq!(&snapshot(&self.bench.base()), &self.before, "the outside has changed: {}", answer);
        Ok(())
    }
}

fn plant(base: &Path, node: &Node) {
    let inside = |path: &Path| base.join("project").join(path);
    // Whatever does not fit the nodes before it is left out.
    let parent = |path: &Path| {
        let path = inside(path);
        let folder = path.parent().unwrap().to_owned();
        let _ = fs::create_dir_all(&folder);
        // Not through a link that was planted before.
        fs::canonicalize(&folder)
            .is_ok_and(|real| real.is_dir() && real.starts_with(base.join("project")))
            .then_some(path)
    };
    match node {
        Node::File(path) => {
            if let Some(path) = parent(path).filter(|path| path.symlink_metadata().is_err()) {
                put(&path, "INSIDE CONTENT");
            }
        }
        Node::Folder(path) => {
            if let Some(path) = parent(path) {
                let _ = fs::create_dir(path);
            }
        }
        Node::Link(path, target) => {
            if let Some(path) = parent(path) {
                let _ = symlink(target.text(base).replace('\0', ""), path);
            }
        }
        Node::HardLink(path) => {
            if let Some(path) = parent(path) {
                let _ = fs::hard_link(base.join("outside/linked"), path);
            }
        }
        Node::Pipe(path) => {
            if let Some(path) = parent(path) {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                let _ = rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0);
            }
        }
    }
}

/// Everything in the temporary folder that is not open to the tools.
fn snapshot(base: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![base.to_owned()];
    let open = [base.join("project"), base.join("home/.gemini/tmp/p"), base.join("home/.gemini/GEMINI.md")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if open.contains(&path) {
                continue;
            }
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            let facts = (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.mode(), content);
            found.insert(path, facts);
        }
    }
    found
}

fn fuzz_time() -> Option<Duration> {
    let given = std::env::var_os("POLLUX_FUZZ_SECONDS")?;
    Some(Duration::from_secs(given.to_str()?.parse().ok()?))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn no_tree_and_no_path_leads_a_tool_out_of_the_workspace() {
    let calls = AtomicU64::new(0);
    let cases = AtomicU64::new(0);
    let runtime = runtime();
    let strategy = (prop::collection::vec(node(), 0..10), prop::collection::vec(request(), 1..14));
    let started = Instant::now();
    loop {
        let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
        let result = TestRunner::new(config).run(&strategy, |(nodes, requests)| {
            cases.fetch_add(1, Ordering::Relaxed);
            let world = World::new(&nodes);
            for (kind, asked) in &requests {
                calls.fetch_add(1, Ordering::Relaxed);
                let answer = world.call(&runtime, kind, &asked.text(&world.bench.base(), &nodes));
                world.check(&answer)?;
            }
            Ok(())
        });
        if let Err(error) = result {
            panic!("{error}");
        }
        if fuzz_time().is_none_or(|time| started.elapsed() >= time) {
            break;
        }
    }
    println!("{} trees, {} calls", cases.load(Ordering::Relaxed), calls.load(Ordering::Relaxed));
}

#[test]
fn no_swap_between_check_and_use_leads_a_tool_out_of_the_workspace() {
    let world = World::new(&[]);
    let base = world.bench.base();
    // `dir` and `deep/dir` change places with links to the outside, `file` with a link to an outside file.
    let pairs = [("dir", "outside"), ("deep/dir", "outside/b"), ("file", "outside/d.txt")];
    for (name, target) in pairs {
        if name == "file" {
            world.bench.write(name, "INSIDE CONTENT");
        } else {
            world.bench.write(&format!("{name}/a/d.txt"), "INSIDE CONTENT");
            world.bench.write(&format!("{name}/d.txt"), "INSIDE CONTENT");
        }
        symlink(base.join(target), world.bench.path(&format!("{name}-link"))).unwrap();
    }
    let stop = AtomicBool::new(false);
    let swaps = AtomicU64::new(0);
    let mut calls = 0_u64;
    let runtime = runtime();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (name, _) in pairs {
                    swap(&world.bench.path(name), &world.bench.path(&format!("{name}-link")));
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // The swapper must end also when an assertion fails.
        let _guard = StopOnDrop(&stop);
        let started = Instant::now();
        let mut round = 0;
        loop {
            for (kind, path) in [
                ("read_file", "dir/d.txt"),
                ("read_file", "file"),
                ("read_file", "deep/dir/a/d.txt"),
                ("write_file", "dir/d.txt"),
                ("write_file", "dir/new/file"),
                ("write_file", "file"),
                ("replace", "deep/dir/d.txt"),
                ("create", "dir/created"),
                ("list_directory", "dir"),
                ("list_directory", "deep"),
                ("glob", "deep"),
                ("glob_pattern", "dir"),
                ("grep_search", "dir"),
                ("grep_search", "."),
                ("read_many_files", "dir"),
            ] {
                let answer = world.call(&runtime, kind, path);
                calls += 1;
                assert!(!answer.contains(CANARY), "{kind} {path}: {answer}");
                assert!(!answer.contains(CANARY_NAME), "{kind} {path}: {answer}");
                let _ = fs::remove_file(world.bench.path("dir/created"));
            }
            round += 1;
            let enough = fuzz_time().map_or(round >= 60, |time| started.elapsed() >= time);
            if enough {
                break;
            }
        }
    });
    assert_eq!(snapshot(&base), world.before);
    println!("{calls} calls, {} swaps", swaps.load(Ordering::Relaxed));
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Two names change places at one moment, where the system can do that.
fn swap(one: &Path, other: &Path) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    }
    #[cfg(not(target_os = "linux"))]
    {
        let aside = one.with_extension("aside");
        let _ = fs::rename(one, &aside);
        let _ = fs::rename(other, one);
        let _ = fs::rename(&aside, other);
    }
}
