//! A home with sessions in it.

use std::fs;
use std::path::PathBuf;

use pollux_config::paths::sha256_hex;
use pollux_test_support::{Run, TestHome};
use serde_json::{Value, json};

use crate::scene::{binary, parse};

/// Another project; it need not exist.
pub(crate) const OTHER: &str = "/srv/shop";
pub(crate) const CLAUDE_ID: &str = "11111111-2222-3333-4444-555555555555";

pub(crate) struct Home {
    pub(crate) test: TestHome,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::with(TestHome::new())
    }

    pub(crate) fn with(test: TestHome) -> Self {
        Self { test }
    }

    pub(crate) fn project(&self) -> String {
        self.test.project().to_str().unwrap().to_owned()
    }

    /// The folder of this project's sessions.
    pub(crate) fn chats(&self) -> PathBuf {
        self.chats_of(&self.project())
    }

    pub(crate) fn chats_of(&self, root: &str) -> PathBuf {
        self.test.gemini_dir().join("tmp").join(sha256_hex(root.as_bytes())).join("chats")
    }

    pub(crate) fn session(&self, id: &str, time: &str, messages: &[Value]) -> PathBuf {
        self.session_in(&self.project(), id, time, messages)
    }

    pub(crate) fn session_in(&self, root: &str, id: &str, time: &str, messages: &[Value]) -> PathBuf {
        let chats = self.chats_of(root);
        fs::create_dir_all(&chats).unwrap();
        if root != self.project() {
            fs::write(chats.with_file_name(".project_root"), root).unwrap();
        }
        let minute: String = time.chars().take(16).map(|c| if c == ':' { '-' } else { c }).collect();
        let short: String = id.chars().take(8).collect();
        // As earlier releases wrote it; ids that begin alike would share the name.
        let mut file = chats.join(format!("session-{minute}-{short}.json"));
        if file.exists() {
            file = chats.join(format!("session-{minute}-{id}.json"));
        }
        let text = serde_json::to_string_pretty(&record(root, id, time, messages, "main")).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    /// A session of Claude Code in this project.
    pub(crate) fn claude(&self, prompt: &str) -> PathBuf {
        let entry = |kind: &str, id: &str, parent: Option<&str>, content: Value| {
            json!({
                "parentUuid": parent, "isSidechain": false, "cwd": self.project(), "sessionId": CLAUDE_ID,
                "type": kind, "uuid": id, "timestamp": "2026-03-01T10:00:00.000Z",
                "message": {"role": kind, "model": "some-model", "content": content},
            })
        };
        let entries = [
            entry("user", "a", None, json!(prompt)),
            entry("assistant", "b", Some("a"), json!([{"type": "text", "text": "Looking."}])),
            entry(
                "assistant",
                "c",
                Some("b"),
                json!([{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make"}}]),
            ),
            entry(
                "user",
                "d",
                Some("c"),
                json!([{"type": "tool_result", "tool_use_id": "t", "content": "no rule", "is_error": true}]),
            ),
        ];
        let folder = self.test.home().join(".claude/projects/-project");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{CLAUDE_ID}.jsonl"));
        fs::write(&file, entries.map(|entry| format!("{entry}\n")).concat()).unwrap();
        file
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.test.command(binary(), args).run()
    }

    pub(crate) fn run_without_key(&self, args: &[&str]) -> Run {
        self.test.command(binary(), args).without_env("GEMINI_API_KEY").run()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
        parse(&run.stdout)
    }
}

pub(crate) fn record(root: &str, id: &str, time: &str, messages: &[Value], kind: &str) -> Value {
    let messages: Vec<Value> = messages
        .iter()
        .map(|message| {
            let mut message = message.clone();
            message["timestamp"] = json!(time);
            message
        })
        .collect();
    json!({
        "sessionId": id, "projectHash": sha256_hex(root.as_bytes()), "startTime": time, "lastUpdated": time,
        "kind": kind, "messages": messages,
    })
}

pub(crate) fn user(id: &str, text: &str) -> Value {
    json!({"id": id, "type": "user", "content": text})
}

pub(crate) fn agent(id: &str, text: &str) -> Value {
    json!({"id": id, "type": "gemini", "content": text, "model": "test-model"})
}
