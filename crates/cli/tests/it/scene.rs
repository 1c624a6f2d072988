//! A scratch home, a scripted server, and the program between them.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_test_support::{FakeGemini, Reply, Run, TestHome, TestRun};
use serde_json::{Value, json};

/// The model that every run names, so that no alias is resolved.
pub(crate) const MODEL: &str = "test-model";

/// A PNG of one pixel.
pub(crate) const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0,
    0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0a, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0,
    1, 0, 0, 5, 0, 1, 0x0d, 0x0a, 0x2d, 0xb4, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

pub(crate) struct Scene {
    pub(crate) home: TestHome,
    pub(crate) server: FakeGemini,
}

impl Scene {
    /// A trusted project and a server with these replies.
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(TestHome::new(), replies)
    }

    pub(crate) fn with(home: TestHome, replies: impl IntoIterator<Item = Reply>) -> Self {
        let home = home.env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        Self { home, server: FakeGemini::start_blocking_thread(replies) }
    }

    /// The same without trust in the project.
    pub(crate) fn untrusted(home: TestHome, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { home, server: FakeGemini::start_blocking_thread(replies) }
    }

    /// A run with exactly these arguments.
    pub(crate) fn prepare(&self, args: &[&str]) -> TestRun {
        self.home.command(binary(), args).against(&self.server)
    }

    /// A run of the test model.
    pub(crate) fn prompt(&self, args: &[&str]) -> TestRun {
        let args: Vec<&str> = ["-m", MODEL].into_iter().chain(args.iter().copied()).collect();
        self.prepare(&args)
    }

    /// Runs the test model to the end.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.prompt(args).run()
    }

    /// The events of a `stream-json` run in the default dialect, and its exit code.
    pub(crate) fn events(&self, args: &[&str]) -> (Vec<Value>, Option<i32>) {
        let args: Vec<&str> = ["-o", "stream-json"].into_iter().chain(args.iter().copied()).collect();
        let run = self.run(&args);
        (lines(&run.stdout), run.code)
    }

    /// Every session file of the project, oldest name first.
    pub(crate) fn session_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = all_files(&self.home.gemini_dir())
            .into_iter()
            .filter(|path| path.parent().is_some_and(|folder| folder.ends_with("chats")))
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                name.starts_with("session-") && (name.ends_with(".json") || name.ends_with(".jsonl"))
            })
            .collect();
        files.sort();
        files
    }

    /// The only session, read as JSON.
    pub(crate) fn session(&self) -> Value {
        let files = self.session_files();
        assert_eq!(files.len(), 1, "{files:?}");
        read_json(&files[0])
    }

    /// Every session, read as JSON.
    pub(crate) fn sessions(&self) -> Vec<Value> {
        self.session_files().iter().map(|file| read_json(file)).collect()
    }

    /// The folder of the project's sessions.
    pub(crate) fn chats(&self) -> PathBuf {
        self.session_files()[0].parent().unwrap().to_path_buf()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.server.assert_valid();
        }
    }
}

pub(crate) fn binary() -> &'static Path {
    pollux_test_support::program(env!("CARGO_BIN_EXE_pollux"))
}

/// One JSON value per line.
pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

pub(crate) fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) fn read_json(path: &Path) -> Value {
    parse(&fs::read_to_string(path).unwrap())
}

pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The events of this type, in order.
pub(crate) fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// Every file below a folder.
pub(crate) fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(all_files(&path)),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
    found
}

/// A line of a `--fake-responses` file.
pub(crate) fn scripted(parts: &[Value]) -> String {
    let chunk =
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
    json!({"method": "generateContentStream", "response": [chunk]}).to_string() + "\n"
}

pub(crate) fn panicked(run: &Run) -> bool {
    run.stderr.contains("crashed:") || run.stderr.contains("panicked")
}

/// Waits until something holds; the condition is one that the program brings about.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed().as_secs() < 60, "waited in vain until {what}");
        std::thread::yield_now();
        std::thread::park_timeout(std::time::Duration::from_millis(2));
    }
}
