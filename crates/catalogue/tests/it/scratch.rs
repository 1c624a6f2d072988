//! A home with sessions of our own and of other agents.

use std::fs;
use std::path::PathBuf;

use pollux_catalogue::{Catalogue, Filter, Hit, Listed, Refreshed, Source};
use pollux_domain::time::Timestamp;
use pollux_foreign::{ForeignAgent, ForeignStore};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Scratch {
    folder: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.path("pollux/catalogue.db")
    }

    pub(crate) fn write(&self, below: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A session of ours, updated in this minute.
    pub(crate) fn session(&self, project: &str, id: &str, minute: u32, messages: &[Value]) -> PathBuf {
        self.write(
            &format!("{project}/chats/session-2026-03-01T10-00-{id}.jsonl"),
            log(id, minute, "main", messages),
        )
    }

    pub(crate) fn claude(&self, name: &str, text: &str) -> PathBuf {
        let record = json!({"type": "user", "uuid": "u1", "sessionId": name, "cwd": "/claude/app",
            "timestamp": "2026-03-01T09:00:00Z", "message": {"role": "user", "content": text}});
        self.write(&format!("claude/projects/-claude-app/{name}.jsonl"), format!("{record}\n"))
    }

    pub(crate) fn sources(&self) -> Vec<Source> {
        let own = |name: &str| Source::Own {
            project: Some(PathBuf::from("/home/me").join(name)),
            dirs: vec![self.path(name).join("chats")],
        };
        let claude = ForeignStore::new(ForeignAgent::Claude, self.path("claude"));
        vec![own("one"), own("two"), Source::Foreign(claude)]
    }

    /// An index that is up to date, words included.
    pub(crate) fn catalogue(&self) -> Catalogue {
        self.refreshed().0
    }

    pub(crate) fn refreshed(&self) -> (Catalogue, Refreshed) {
        let mut catalogue = Catalogue::open(&self.index());
        let refreshed = catalogue.refresh(&self.sources(), &mut |_| {});
        catalogue.refresh_texts(&mut |_| {});
        (catalogue, refreshed)
    }

    pub(crate) fn ids(&self, filter: &Filter) -> Vec<String> {
        ids(&self.catalogue().list(filter))
    }

    pub(crate) fn find(&self, words: &str) -> Vec<String> {
        shown(&self.catalogue().search(words, &Filter::default(), now()))
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp::parse("2026-03-02T10:00:00Z").unwrap()
}

pub(crate) fn ids(listed: &[Listed]) -> Vec<String> {
    listed.iter().map(|listed| listed.record.session_id.as_str().to_owned()).collect()
}

/// Hits as lines, with matches in brackets.
pub(crate) fn shown(hits: &[Hit]) -> Vec<String> {
    let line = |hit: &Hit| {
        let mut text = hit.snippet.text.clone();
        for range in hit.snippet.matches.iter().rev() {
            text.insert(range.end, ']');
            text.insert(range.start, '[');
        }
        format!("{} {} {}: {text}", hit.session.record.session_id.as_str(), hit.message_id, hit.kind.as_str())
    };
    hits.iter().map(line).collect()
}

pub(crate) fn log(id: &str, minute: u32, kind: &str, messages: &[Value]) -> String {
    let meta = json!({"sessionId": id, "projectHash": "h", "kind": kind, "startTime": "2026-03-01T10:00:00.000Z",
                      "lastUpdated": format!("2026-03-01T10:{minute:02}:00.000Z")});
    let lines = std::iter::once(&meta).chain(messages);
    lines.map(|line| format!("{line}\n")).collect()
}

pub(crate) fn user(id: &str, text: &str) -> Value {
    json!({"id": id, "timestamp": "2026-03-01T10:00:01.000Z", "type": "user", "content": [{"text": text}]})
}

pub(crate) fn agent(id: &str, text: &str) -> Value {
    json!({"id": id, "timestamp": "2026-03-01T10:00:02.000Z", "type": "gemini", "content": text, "model": "m",
           "tokens": {"input": 5, "output": 2, "cached": 0, "thoughts": 0, "tool": 0, "total": 7}})
}

pub(crate) fn call(id: &str, command: &str, output: &str, status: &str) -> Value {
    json!({"id": id, "timestamp": "2026-03-01T10:00:03.000Z", "type": "gemini", "content": "", "toolCalls": [
        {"id": "c", "name": "run_shell_command", "args": {"command": command}, "status": status,
         "result": [{"functionResponse": {"id": "c", "name": "run_shell_command", "response": {"output": output}}}]}]})
}
