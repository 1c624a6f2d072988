//! What is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use pollux_domain::content::Part;
use pollux_domain::id::SessionId;
use pollux_domain::time::Timestamp;
use pollux_session::{NewSession, Recorder, ReplyRecord, SessionFormat, SessionKind};
use pollux_test_support::{Exhausted, FakeGemini, Reply, reply};
use serde_json::json;

use crate::measure::{Cost, Series, run, table};

const MODEL: &str = "gemini-2.5-flash";

/// The programs and where they run.
pub(crate) struct Bench {
    pub(crate) rounds: usize,
    pub(crate) gemini: Option<PathBuf>,
    /// A build of another commit, to compare with.
    pub(crate) against: Option<PathBuf>,
    pub(crate) empty: PathBuf,
    own: PathBuf,
    scratch: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(rounds: usize, gemini: Option<PathBuf>, against: Option<PathBuf>) -> Self {
        let scratch = tempfile::tempdir().expect("make a scratch folder");
        let empty = compile_empty(scratch.path());
        let copied = |from: &Path, name: &str| fresh_copy(from, &scratch.path().join(name));
        let own = copied(Path::new(env!("CARGO_BIN_EXE_pollux")), "this");
        let against = against.map(|other| copied(&other, "other"));
        Self { rounds, gemini, against, empty, own, scratch }
    }

    /// This build, and the one it is compared with.
    pub(crate) fn builds(&self) -> Vec<(&'static str, PathBuf)> {
        let other = self.against.clone().map(|other| ("pollux, other build", other));
        [("pollux", self.pollux())].into_iter().chain(other).collect()
    }

    /// A fresh home and project; the same settings for both programs.
    pub(crate) fn place(&self, name: &str) -> Place {
        let place = Place { root: self.scratch.path().join(name) };
        std::fs::create_dir_all(place.home().join(".gemini")).unwrap();
        std::fs::create_dir_all(place.project()).unwrap();
        let settings = json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
            "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
            "privacy": {"usageStatisticsEnabled": false},
        });
        put(&place.home().join(".gemini/settings.json"), &settings.to_string());
        place
    }

    pub(crate) fn pollux(&self) -> PathBuf {
        self.own.clone()
    }
}

/// Copies a program and has it read from the disk again. How a file came into the system's cache decides how many page
/// faults its start takes: a freshly linked program and its copy can differ by 10 %.
fn fresh_copy(from: &Path, folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let to = folder.join("pollux");
    std::fs::copy(from, &to).unwrap_or_else(|error| panic!("cannot copy `{}`: {error}", from.display()));
    let file = std::fs::File::open(&to).unwrap();
    file.sync_all().unwrap();
    #[cfg(target_os = "linux")]
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    // Discard the data: a buffer would be counted as memory of child processes.
    std::io::copy(&mut &file, &mut std::io::sink()).unwrap();
    to
}

pub(crate) struct Place {
    root: PathBuf,
}

impl Place {
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    pub(crate) fn command(&self, program: &Path, server: Option<&FakeGemini>, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.project()).env_clear();
        let path = std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, value)| value);
        command.envs(path.map(|path| ("PATH", path)));
        command.env("HOME", self.home()).env("GEMINI_API_KEY", "bench").env("TERM", "dumb");
        if let Some(server) = server {
            command.env("GOOGLE_GEMINI_BASE_URL", server.url());
        }
        command
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench's own fixture needs no atomic write")]
pub(crate) fn put(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// An empty Rust program: what a process costs on this machine.
fn compile_empty(dir: &Path) -> PathBuf {
    let source = dir.join("empty.rs");
    put(&source, "fn main() {}\n");
    let program = dir.join("empty");
    let status =
        Command::new("rustc").args(["-O", "-o"]).arg(&program).arg(&source).status().expect("run rustc");
    assert!(status.success(), "the empty program does not compile");
    program
}

/// Programs to run in turn.
pub(crate) type Runs<'a> = Vec<(Series, Box<dyn FnMut() -> Cost + 'a>)>;

/// Runs all programs in turn, `rounds` times; gemini-cli less often, since it is slow.
pub(crate) fn interleaved(bench: &Bench, mut runs: Runs<'_>) -> Vec<Series> {
    for round in 0..bench.rounds {
        // Every other round runs in reverse order, so that no program always goes first.
        runs.reverse();
        for (series, run) in &mut runs {
            if series.name.starts_with("gemini-cli") && round % 5 != 0 {
                continue;
            }
            series.push(run());
        }
    }
    if bench.rounds % 2 == 1 {
        runs.reverse();
    }
    runs.into_iter().map(|(series, _)| series).collect()
}

/// `--version` and `--help` against an empty program.
pub(crate) fn start(bench: &Bench) {
    let place = bench.place("start");
    let mut runs: Runs<'_> = Vec::new();
    runs.push((Series::new("empty program"), Box::new(|| run(&mut place.command(&bench.empty, None, &[])))));
    for flag in ["--version", "--help"] {
        for (name, program) in bench.builds() {
            let place = &place;
            runs.push((
                Series::new(&format!("{name} {flag}")),
                Box::new(move || run(&mut place.command(&program, None, &[flag]))),
            ));
        }
    }
    if let Some(gemini) = &bench.gemini {
        let place = &place;
        runs.push((
            Series::new("gemini-cli --version"),
            Box::new(move || run(&mut place.command(gemini, None, &["--version"]))),
        ));
    }
    table("process start", &interleaved(bench, runs));
}

/// The same prompt to both programs, each with a server of its own that follows `script`.
fn prompted(
    bench: &Bench,
    title: &str,
    script: impl Fn() -> Vec<Reply>,
    files: &[(&str, String)],
    gemini: Option<&PathBuf>,
) {
    let place = bench.place(&title.replace(' ', "-"));
    for (name, text) in files {
        put(&place.project().join(name), text);
    }
    let mut runs: Runs<'_> = Vec::new();
    let programs = bench.builds().into_iter().chain(gemini.map(|path| ("gemini-cli", path.clone())));
    runs.push((Series::new("empty program"), Box::new(|| run(&mut place.command(&bench.empty, None, &[])))));
    for (name, program) in programs {
        let (place, script) = (&place, &script);
        runs.push((
            Series::new(name),
            Box::new(move || {
                let server = FakeGemini::start_with(script(), Exhausted::Fail(400));
                let args =
                    ["-p", "go", "-m", MODEL, "--output-format", "stream-json", "--approval-mode", "yolo"];
                run(&mut place.command(&program, Some(&server), &args))
            }),
        ));
    }
    table(title, &interleaved(bench, runs));
}

/// One prompt, one chunk.
pub(crate) fn round_trip(bench: &Bench) {
    let script = || vec![reply().text("Hello.").finish("STOP").usage(10, 2)];
    prompted(bench, "one chunk", script, &[], bench.gemini.as_ref());
}

/// The same prompt with its reply from a file: what the program does without any network.
pub(crate) fn scripted(bench: &Bench) {
    let place = bench.place("scripted");
    let chunk = json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12},
    });
    let replies = place.project().join("../replies.jsonl").display().to_string();
    put(Path::new(&replies), &json!({"method": "generateContentStream", "response": [chunk]}).to_string());
    let mut runs: Runs<'_> = Vec::new();
    runs.push((Series::new("empty program"), Box::new(|| run(&mut place.command(&bench.empty, None, &[])))));
    for (name, program) in bench.builds() {
        let (place, replies) = (&place, &replies);
        runs.push((
            Series::new(name),
            Box::new(move || {
                let args = ["-p", "go", "-m", MODEL, "--approval-mode", "yolo", "--fake-responses", replies];
                run(&mut place.command(&program, None, &args))
            }),
        ));
    }
    table("one scripted reply", &interleaved(bench, runs));
}

/// Fifty calls, one after the other. gemini-cli takes no part: from the thirtieth call on it asks the model
/// whether it loops, which a fixed script cannot answer.
pub(crate) fn chain(bench: &Bench) {
    let script = || {
        let calls = (1..=50).map(|line| {
            let args = json!({"file_path": "data.txt", "start_line": line, "end_line": line});
            reply().call("read_file", args).finish("STOP").usage(100, 10)
        });
        calls.chain([reply().text("Done.").finish("STOP").usage(100, 2)]).collect()
    };
    let lines: String = (1..=60).map(|n| format!("line {n}\n")).collect();
    prompted(bench, "chain of 50 calls", script, &[("data.txt", lines)], None);
}

/// An answer in 2,000 pieces.
pub(crate) fn stream(bench: &Bench) {
    let script = || {
        let mut answer = reply();
        for n in 0..2_000 {
            answer = answer.text(&format!("word{n} "));
        }
        vec![answer.finish("STOP").usage(10, 4_000)]
    };
    prompted(bench, "2000 chunks", script, &[], bench.gemini.as_ref());
}

/// Listing a thousand sessions.
pub(crate) fn list(bench: &Bench) {
    let place = bench.place("list");
    let project = std::fs::canonicalize(place.project()).unwrap();
    let hash = pollux_config::paths::sha256_hex(project.as_os_str().as_encoded_bytes());
    let chats = place.home().join(".gemini/tmp").join(&hash).join("chats");
    for n in 0..1_000 {
        write_session(&chats, &hash, n);
    }
    let mut runs: Runs<'_> = Vec::new();
    runs.push((Series::new("empty program"), Box::new(|| run(&mut place.command(&bench.empty, None, &[])))));
    for (name, program) in bench.builds() {
        let place = &place;
        runs.push((
            Series::new(name),
            Box::new(move || run(&mut place.command(&program, None, &["--list-sessions"]))),
        ));
    }
    table("listing 1000 sessions", &interleaved(bench, runs));
}

fn write_session(chats: &Path, hash: &str, number: i64) {
    let now = Timestamp::from_millis(1_767_225_600_000 + number * 60_000);
    let mut recorder = Recorder::create(NewSession {
        id: SessionId::random(),
        project_hash: hash.to_owned(),
        chats_dir: chats.to_path_buf(),
        format: SessionFormat::Json,
        kind: SessionKind::Main,
        now,
    })
    .unwrap();
    for turn in 0..10 {
        recorder.user(&[Part::text(format!("prompt {turn} of session {number}"))], None, now).unwrap();
        let answer = Part::text("An answer of some length. ".repeat(40));
        let record = ReplyRecord {
            parts: vec![answer],
            thoughts: Vec::new(),
            usage: None,
            model: "m".into(),
            origin: None,
            calls: Vec::new(),
        };
        recorder.reply(&record, now).unwrap();
    }
}

/// What a turn writes as its session grows.
pub(crate) fn bytes(bench: &Bench) {
    let place = bench.place("bytes");
    let answer: String =
        (0..20).map(|n| format!("Sentence {n} of an answer about part {}. ", n * 7)).collect();
    let mut before: Vec<u8> = Vec::new();
    println!("\nbytes of one turn as its session grows (the same prompt and answer each time)");
    println!(
        "  {:>5} {:>12} {:>12} {:>18} {:>14} {:>10}",
        "turn", "file", "growth", "changed in place", "all writes", "wall"
    );
    for turn in 1..=100 {
        let script = vec![reply().text(&answer).finish("STOP").usage(10, 100)];
        let server = FakeGemini::start_with(script, Exhausted::Fail(400));
        let mut args = vec!["-p", "the same prompt", "-m", MODEL];
        if turn > 1 {
            args.extend(["--resume", "latest"]);
        }
        let cost = run(&mut place.command(&bench.pollux(), Some(&server), &args));
        assert_eq!(cost.code, 0, "turn {turn} failed");
        let after = std::fs::read(session_file(&place)).unwrap();
        let changed = before.iter().zip(&after).filter(|(old, new)| old != new).count();
        if [1, 2, 10, 50, 100].contains(&turn) {
            println!(
                "  {turn:>5} {:>12} {:>12} {changed:>18} {:>14} {:>7.2} ms",
                after.len(),
                after.len() - before.len(),
                cost.written,
                cost.wall.as_secs_f64() * 1e3
            );
        }
        before = after;
    }
    println!("  (all writes includes the request, which holds the whole conversation)");
}

fn session_file(place: &Place) -> PathBuf {
    let projects = std::fs::read_dir(place.home().join(".gemini/tmp")).unwrap().flatten();
    let chats = projects.map(|project| project.path().join("chats")).find(|chats| chats.is_dir()).unwrap();
    let files = std::fs::read_dir(chats).unwrap().flatten().map(|entry| entry.path());
    files.into_iter().find(|file| file.extension().is_some_and(|ext| ext == "json")).unwrap()
}
