//! Power failures: runs of the real program are recorded call by call, and after each call that changes a file the power
//! fails. Every message that was synced must be there, and no other file may be damaged.
//!
//! Needs `strace`; without it the tests say so and end. `POLLUX_POWER_FAILURES` is the number of failures after each
//! call (3), `POLLUX_POWER_SEED` repeats a run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]
#![allow(clippy::print_stderr, reason = "a long run reports to a person")]

#[path = "power/checks.rs"]
mod checks;
#[path = "power/disk.rs"]
mod disk;
#[path = "power/trace.rs"]
mod trace;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pollux_test_support::chance::Chance;
use pollux_test_support::{TestHome, TestRun};
use serde_json::{Value, json};

use checks::{Disks, Kind, Past, check, kind};
use disk::{Disk, Failure, Image};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn can_trace() -> bool {
    let tried = Command::new("strace").arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: strace is not installed or not permitted");
    }
    can
}

/// A user's machine on which every run is recorded, and whose power fails.
struct Machine {
    home: TestHome,
    disk: Disk,
    past: Past,
    chance: Chance,
    /// For files of the test.
    folder: tempfile::TempDir,
    failures: u64,
    changes: usize,
    images: usize,
    /// After how many changes in 100 the power fails.
    share: usize,
    /// After how many failures in 100 the program is run.
    looks: usize,
}

impl Machine {
    fn new(settings: Value, seed: u64) -> Self {
        let home =
            TestHome::new().settings(settings).file("notes.txt", "one\n").file("long.txt", &long_text());
        let disk = Disk::of(home.home().parent().unwrap());
        let past = Past::of(disk.live());
        let seed = number("POLLUX_POWER_SEED", seed);
        eprintln!("POLLUX_POWER_SEED={seed}");
        Self {
            home,
            disk,
            past,
            chance: Chance::new(seed),
            folder: in_memory(),
            failures: number("POLLUX_POWER_FAILURES", 3),
            changes: 0,
            images: 0,
            share: 100,
            looks: 0,
        }
    }

    /// Runs the program, then lets the power fail after each change.
    fn run(&mut self, args: &[&str]) {
        self.run_with(args, "");
    }

    fn run_with(&mut self, args: &[&str], input: &str) {
        let run = self.traced(args).stdin(input).run();
        assert_eq!(run.code, Some(0), "{args:?}: {:.2000}", run.stderr);
        self.fail_after_each_change(args);
    }

    /// A run that ends with an error.
    fn fails(&mut self, args: &[&str], code: i32) {
        let run = self.traced(args).stdin("").run();
        assert_eq!(run.code, Some(code), "{args:?}: {:.2000}", run.stderr);
        self.fail_after_each_change(args);
    }

    /// The sessions on the disk, and as programs see them, while a run that began with this disk goes on.
    fn sessions_during(&self, before: &Disk) -> [Vec<Vec<u8>>; 2] {
        let mut disk = before.clone();
        let trace = fs::read_to_string(self.trace_file()).unwrap_or_default();
        let whole_lines = trace.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in trace::read(whole_lines) {
            disk.follow(&line);
        }
        let synced = disk.after(Failure::Everything, &mut Chance::new(1));
        [synced, disk.live()].map(|image| {
            let sessions = image.into_iter().filter(|(path, _)| kind(path) == Kind::Session);
            sessions.map(|(_, bytes)| bytes).collect()
        })
    }

    /// Answers the question about a call so that it is never asked again.
    fn grant(&mut self, command: &str) {
        let replies = [
            json!([call("g", "run_shell_command", &json!({"command": command}))]),
            json!([{"text": "Done."}]),
        ];
        let script = self.script(&replies);
        let args = ["-i", "go", "--sandbox=false", "--fake-responses-non-strict", &script];
        let mut terminal = self.traced(&args).env("GEMINI_CLI_TRUST_WORKSPACE", "true").on_terminal();
        terminal.expect("for all future sessions").expect("Answer").say("4").expect("Done.");
        terminal.expect("User: ").say("/quit");
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(0), "{screen}");
        self.fail_after_each_change(&args);
    }

    fn trace_file(&self) -> PathBuf {
        self.folder.path().join("trace")
    }

    fn traced(&self, args: &[&str]) -> TestRun {
        let program = Path::new(env!("CARGO_BIN_EXE_pollux"));
        let options = ["-f", "-y", "-xx", "-s", "100000000", "-e", trace::CALLS, "-o"];
        let all = options.map(OsString::from).into_iter().chain([self.trace_file().into(), program.into()]);
        self.home.command(Path::new("strace"), all.chain(args.iter().map(OsString::from)))
    }

    fn fail_after_each_change(&mut self, args: &[&str]) {
        for line in trace::read(&fs::read_to_string(self.trace_file()).unwrap()) {
            let changed = self.disk.follow(&line);
            if !changed.is_empty() {
                self.changes += 1;
                self.past.note(&self.disk, &changed);
                if self.chance.below(100) < self.share {
                    self.fail(args);
                }
            }
        }
        self.compare();
        self.all_is_synced(args);
    }

    /// When the program has ended, nothing of the user's home waits for the disk any more.
    fn all_is_synced(&mut self, args: &[&str]) {
        let (live, synced) = (self.disk.live(), self.disk.after(Failure::Everything, &mut self.chance));
        let kept = live.iter().filter(|(path, _)| path.starts_with("home") && kind(path) != Kind::Other);
        let waiting: Vec<_> = kept.filter(|(path, bytes)| synced.get(*path) != Some(*bytes)).collect();
        assert!(waiting.is_empty(), "{args:?} left {:?}", waiting.iter().map(|it| it.0).collect::<Vec<_>>());
    }

    fn fail(&mut self, args: &[&str]) {
        let live = self.disk.live();
        let synced = self.disk.after(Failure::Everything, &mut self.chance);
        for _ in 0..self.failures {
            let failure = match self.chance.below(8) {
                0 => Failure::Everything,
                1 => Failure::Nothing,
                2 => Failure::Some(5),
                3 => Failure::Some(95),
                _ => Failure::Some(50),
            };
            let found = self.disk.after(failure, &mut self.chance);
            let disks = Disks { synced: &synced, live: &live, found: &found };
            let wrong = check(&disks, &self.past, &self.folder.path().join("found"));
            assert!(
                wrong.is_empty(),
                "{args:?}, change {}, {failure:?}:\n{}",
                self.changes,
                wrong.join("\n")
            );
            self.images += 1;
            if self.looks > 0 && self.chance.below(100) < self.looks {
                self.look(&found, args);
            }
        }
    }

    /// Everyday commands work on what is left.
    fn look(&self, found: &Image, args: &[&str]) {
        let root = in_memory();
        for folder in ["home", "project"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for (path, bytes) in found {
            let target = root.path().join(path);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(target, bytes).unwrap();
        }
        let program = Path::new(env!("CARGO_BIN_EXE_pollux"));
        let commands: [&[&str]; 5] = [
            &["sessions", "list"],
            &["sessions", "search", "answer"],
            &["config", "show"],
            &["auth", "status"],
            &["memory", "search", "answer"],
        ];
        for command in commands {
            let run = self.home.command(program, command);
            let home = root.path().join("home");
            let run = run.env("HOME", home.to_str().unwrap()).in_dir(&root.path().join("project")).run();
            assert!(
                run.code == Some(0) && !run.stderr.contains("panicked"),
                "{command:?} after a failure in {args:?}, change {}: {:?} {}{}",
                self.changes,
                run.code,
                run.stdout,
                run.stderr
            );
        }
    }

    /// The disk is followed well only if it ends as the real one did.
    fn compare(&self) {
        let real = Disk::of(self.home.home().parent().unwrap()).live();
        let ours = self.disk.live();
        let differing = real.keys().chain(ours.keys()).filter(|path| real.get(*path) != ours.get(*path));
        // A shared memory file is written without calls.
        let differing: Vec<_> = differing.filter(|path| !path.to_string_lossy().ends_with("-shm")).collect();
        assert!(differing.is_empty(), "not followed: {differing:?}");
    }

    /// Scripted replies for the next run.
    fn script(&self, replies: &[Value]) -> String {
        let path = self.folder.path().join("replies.jsonl");
        let lines = replies.iter().map(|parts| {
            let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP"});
            json!({"method": "generateContentStream", "response": [{"candidates": [candidate]}]}).to_string()
        });
        fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
        path.to_string_lossy().into_owned()
    }

    fn prompt(&mut self, text: &str, replies: &[Value], more: &[&str]) {
        let script = self.script(replies);
        let args = ["-p", text, "--approval-mode", "auto_edit", "--fake-responses-non-strict", &script];
        self.run(&[&args[..], more].concat());
    }
}

/// A folder in memory, where syncing takes no time.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn long_text() -> String {
    (0..3_000)
        .map(|line| format!("line {line} of a long file, longer than a session file holds itself\n"))
        .collect()
}

/// A text that does not repeat itself, as a model in a loop does.
fn words(count: usize) -> String {
    (0..count).map(|number| format!("w{number} ")).collect()
}

fn call(id: &str, name: &str, args: &Value) -> Value {
    json!({"functionCall": {"id": id, "name": name, "args": args}})
}

/// Prompts with results that move others, fail, are long, and with a resumed session.
fn converse(machine: &mut Machine) {
    let read = |id: &str, path: &str| call(id, "read_file", &json!({"file_path": path}));
    let write = |id: &str, path: &str| {
        call(id, "write_file", &json!({"file_path": path, "content": format!("{id}\n").repeat(90)}))
    };
    machine.prompt(
        "first",
        &[
            json!([{"text": "I look."}, read("a", "notes.txt"), write("b", "made.txt"), read("c", "missing.txt")]),
            json!([{"text": "And once more."}, read("d", "long.txt")]),
            json!([{"text": format!("The first answer. {}", words(300))}]),
        ],
        &[],
    );
    machine.prompt(
        "second",
        &[
            json!([read("e", "missing.txt")]),
            json!([write("f", "made.txt"), read("g", "made.txt"), write("h", "other.txt")]),
            json!([{"text": "The second answer."}]),
        ],
        &["--resume", "latest"],
    );
}

#[test]
fn a_document_keeps_every_synced_message() {
    if can_trace() {
        let mut machine = Machine::new(json!({"general": {"sessionFormat": "json"}}), 1);
        converse(&mut machine);
        machine.run(&["sessions", "rewind", "latest", "--to", "2", "--both", "--yes"]);
        machine.prompt("third", &[json!([{"text": "The third answer."}])], &["--resume", "latest"]);
        eprintln!("{} changes, {} failures of power", machine.changes, machine.images);
    }
}

#[test]
fn a_record_log_keeps_every_synced_message() {
    if can_trace() {
        let mut machine = Machine::new(json!({"general": {"sessionFormat": "jsonl"}}), 2);
        converse(&mut machine);
        eprintln!("{} changes, {} failures of power", machine.changes, machine.images);
    }
}

/// Otherwise a power failure would cost everything since the program started.
#[test]
fn messages_reach_the_disk_while_the_program_waits() {
    for format in ["json", "jsonl"] {
        if !can_trace() {
            return;
        }
        let machine = Machine::new(json!({"general": {"sessionFormat": format}}), 5);
        let script = machine.script(&[json!([{"text": "The only answer."}])]);
        let args = ["-i", "the question", "--fake-responses-non-strict", &script];
        let mut terminal = machine.traced(&args).env("GEMINI_CLI_TRUST_WORKSPACE", "true").on_terminal();
        terminal.expect("The only answer.").expect("User: ");
        // Far longer than records wait for each other, and no limit that a busy machine reaches.
        let end = Instant::now() + Duration::from_secs(60);
        let has = |session: &Vec<u8>, text: &str| String::from_utf8_lossy(session).contains(text);
        loop {
            let [synced, live] = machine.sessions_during(&machine.disk);
            let all = ["the question", "The only answer."];
            if synced == live && synced.iter().any(|it| all.iter().all(|text| has(it, text))) {
                break;
            }
            assert!(Instant::now() < end, "{format}: not synced after a minute: {synced:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        terminal.say("/quit");
        let (code, screen) = terminal.end();
        assert_eq!(code, Some(0), "{screen}");
    }
}

/// Copies, imports, rewinds, failed turns, a compressed conversation, a command of the user, and a deletion.
fn change_sessions(machine: &mut Machine) {
    let answer = |text: &str| json!([{"text": text}]);
    machine.prompt("first", &[answer("The first answer.")], &[]);
    machine.prompt("second", &[answer("The second answer.")], &["--resume", "latest"]);
    machine.prompt("forked", &[answer("The answer of the fork.")], &["--resume", "latest", "--fork"]);
    machine.run(&["sessions", "rewind", "latest", "--to", "2", "--conversation", "--yes"]);
    let copy = machine.folder.path().join("copy.json");
    let copy = copy.to_string_lossy();
    machine.run(&["sessions", "export", "1", "--output", &copy]);
    machine.run(&["sessions", "import", &copy]);
    let script = machine.script(&[]);
    machine.fails(&["-p", "unanswered", "--resume", "latest", "--fake-responses", &script], 1);
    let script = machine.script(&[answer("The answer on the terminal."), answer("<state>Short.</state>")]);
    let args = ["-i", "third", "--resume", "latest", "--fake-responses-non-strict", &script];
    let mut terminal = machine.traced(&args).env("GEMINI_CLI_TRUST_WORKSPACE", "true").on_terminal();
    terminal.expect("The answer on the terminal.").expect("User: ").say("!echo of-the-user");
    terminal.expect("of-the-user").expect("User: ").say("/compress").expect("User: ").say("/quit");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    machine.fail_after_each_change(&args);
    machine.run(&["sessions", "delete", "1", "--yes"]);
}

#[test]
fn documents_survive_all_that_is_done_to_them() {
    if can_trace() {
        let mut machine = Machine::new(json!({"general": {"sessionFormat": "json"}}), 6);
        change_sessions(&mut machine);
        eprintln!("{} changes, {} failures of power", machine.changes, machine.images);
    }
}

#[test]
fn record_logs_survive_all_that_is_done_to_them() {
    if can_trace() {
        let mut machine = Machine::new(json!({"general": {"sessionFormat": "jsonl"}}), 7);
        change_sessions(&mut machine);
        eprintln!("{} changes, {} failures of power", machine.changes, machine.images);
    }
}

#[test]
fn settings_trust_keys_and_memory_are_never_damaged() {
    if can_trace() {
        let mut machine = Machine::new(json!({"memory": {"enabled": true}}), 3);
        // A database changes very often.
        (machine.share, machine.looks) = (6, 4);
        machine.run(&["config", "set", "ui.hideTips", "true"]);
        machine.run(&["trust", "allow", "--yes"]);
        machine.run_with(&["auth", "login", "--api-key-stdin"], "a-key-of-a-test-that-is-long-enough");
        converse(&mut machine);
        machine.run(&["memory", "index"]);
        machine.run(&["config", "set", "ui.hideTips", "false"]);
        machine.run(&["sessions", "list"]);
        machine.run(&["memory", "forget", "--query", "answer", "--yes"]);
        eprintln!("{} changes, {} failures of power", machine.changes, machine.images);
    }
}

/// Every command that changes a file of the user. When it has ended, nothing of it waits for the disk.
#[test]
fn what_commands_write_is_on_the_disk_when_they_end() {
    if !can_trace() {
        return;
    }
    let mut machine = Machine::new(json!({"skills": {"enabled": true}}), 8);
    let source = |name: &str, file: &str, text: &str| {
        let folder = machine.folder.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
        folder.to_string_lossy().into_owned()
    };
    let skill = source("a-skill", "SKILL.md", "---\nname: a-skill\ndescription: Of a test.\n---\nDo it.\n");
    let manifest = json!({"name": "an-extension", "version": "1.0.0"}).to_string();
    let extension = source("an-extension", "gemini-extension.json", &manifest);
    let commands: [&[&str]; 12] = [
        &["trust", "allow", "--yes"],
        &["mcp", "add", "--scope", "user", "a-server", "true"],
        &["mcp", "disable", "a-server"],
        &["mcp", "remove", "--scope", "user", "a-server"],
        &["skills", "install", "--consent", &skill],
        &["skills", "disable", "a-skill"],
        &["skills", "uninstall", "a-skill"],
        &["extensions", "install", "--consent", &extension],
        &["extensions", "disable", "an-extension"],
        &["extensions", "uninstall", "an-extension"],
        &["providers", "add", "--base-url", "http://127.0.0.1:9/v1", "a-provider"],
        &["config", "set", "ui.hideTips", "true"],
    ];
    for command in commands {
        machine.run(command);
    }
    eprintln!("{} changes, {} failures of power", machine.changes, machine.images);
}

#[test]
fn saved_approvals_are_never_damaged() {
    if can_trace() {
        let settings = json!({"security": {"enablePermanentToolApproval": true}});
        let mut machine = Machine::new(settings, 4);
        machine.grant("touch made.txt");
        machine.grant("ln made.txt linked.txt");
        let saved = machine.home.gemini_dir().join("policies/auto-saved.toml");
        let saved = fs::read_to_string(saved).unwrap();
        assert!(saved.contains("\"touch\"") && saved.contains("\"ln\""), "{saved}");
        eprintln!("{} changes, {} failures of power", machine.changes, machine.images);
    }
}
