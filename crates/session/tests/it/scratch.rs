//! A project in a temporary folder, and a short way to say what happens in it.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_domain::content::{FunctionResponse, Part, Seal};
use pollux_domain::event::{CallStatus, Thought};
use pollux_domain::id::{CallId, SessionId};
use pollux_domain::model::Usage;
use pollux_domain::time::Timestamp;
use pollux_domain::tool::Display;
use pollux_session::{CallRecord, CallResult, NewSession, Recorder, ReplyRecord, SessionFormat, SessionKind};
use serde_json::{Value, json};

pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// The project's folder, which holds `chats`.
    pub(crate) fn temp(&self) -> PathBuf {
        self.dir.path().join("tmp/hash")
    }

    pub(crate) fn chats(&self) -> PathBuf {
        self.temp().join("chats")
    }

    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        vec![self.chats()]
    }

    pub(crate) fn spec(&self, id: &str, format: SessionFormat, seconds: i64) -> NewSession {
        NewSession {
            id: SessionId::from_file(id),
            project_hash: "e1".into(),
            chats_dir: self.chats(),
            format,
            kind: SessionKind::Main,
            now: at(seconds),
        }
    }

    pub(crate) fn recorder(&self, id: &str, format: SessionFormat, seconds: i64) -> Recorder {
        Recorder::create(self.spec(id, format, seconds)).unwrap()
    }

    /// Writes a file into the folder of sessions.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::create_dir_all(self.chats()).unwrap();
        let path = self.chats().join(name);
        // Some file systems wait for the disk when a file is emptied and written again.
        let _ = fs::remove_file(&path);
        put(&path, bytes);
        path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.chats())
            .map(|entries| entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        names.sort();
        names
    }
}

#[expect(clippy::disallowed_methods, reason = "a fixture need not survive a crash")]
pub(crate) fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).unwrap();
}

/// 2026-02-02T02:40:00Z and later.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_770_000_000_000 + seconds * 1000)
}

pub(crate) fn text(text: &str) -> Vec<Part> {
    vec![Part::text(text)]
}

pub(crate) fn call(id: &str, signature: Option<&str>) -> CallRecord {
    CallRecord {
        id: CallId::from_file(id),
        name: "read_file".into(),
        args: json!({"file_path": "a \"b\"\n.txt"}).as_object().unwrap().clone(),
        seal: signature.map(Seal::gemini),
        display_name: "ReadFile".into(),
        description: "a.txt".into(),
        markdown: true,
    }
}

pub(crate) fn reply(words: &str, calls: Vec<CallRecord>) -> ReplyRecord {
    ReplyRecord {
        parts: text(words),
        thoughts: vec![(Thought { subject: "Reading".into(), description: "the file".into() }, at(1))],
        usage: Some(Usage { input: 9, output: 2, cached: 1, reasoning: 3, total: 14, ..Usage::default() }),
        model: "gemini-3-pro".into(),
        origin: None,
        calls,
    }
}

pub(crate) fn result(id: &str, status: CallStatus, output: &str) -> CallResult {
    let part = Part::response(FunctionResponse {
        id: Some(id.to_owned()),
        name: "read_file".into(),
        response: json!({"output": output}).as_object().unwrap().clone().into(),
        parts: Vec::new(),
    });
    CallResult {
        id: CallId::from_file(id),
        status,
        result: vec![part],
        display: Display::Text(output.into()),
    }
}

pub(crate) fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}
