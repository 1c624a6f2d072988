//! Hooks during a conversation: the real program, a scripted model, and commands at every moment.

#[path = "hooks/around_calls.rs"]
mod around_calls;
#[path = "hooks/around_requests.rs"]
mod around_requests;
#[path = "hooks/around_turns.rs"]
mod around_turns;
#[path = "hooks/at_terminal.rs"]
mod at_terminal;
#[path = "hooks/hostile.rs"]
mod hostile;
#[path = "hooks/switches.rs"]
mod switches;

use std::fs;

use pollux_test_support::{Run, TestHome};
use serde_json::{Value, json};

use crate::scene::{MODEL, binary, scripted};

/// A project, a script for the model, and hooks.
pub(super) struct World {
    pub(super) home: TestHome,
}

impl World {
    /// Hooks in the user's settings. Each `NAME.json` beside the script is an answer that a hook may print.
    pub(super) fn new(hooks: &Value, replies: &[Vec<Value>]) -> Self {
        Self::with(TestHome::new(), json!({"hooks": hooks}), replies)
    }

    pub(super) fn with(home: TestHome, mut settings: Value, replies: &[Vec<Value>]) -> Self {
        let script: String = replies.iter().map(|parts| scripted(parts)).collect();
        let outfile = home.home().join("telemetry.log");
        settings["telemetry"] =
            json!({"enabled": true, "target": "local", "outfile": outfile, "logPrompts": true});
        let home =
            home.file("script.jsonl", &script).settings(settings).env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        Self { home }
    }

    /// A file in the project.
    pub(super) fn file(self, name: &str, text: impl ToString) -> Self {
        Self { home: self.home.file(name, &text.to_string()) }
    }

    /// A headless run of the script.
    pub(super) fn run(&self, args: &[&str]) -> Run {
        let args: Vec<&str> = ["-m", MODEL, "--fake-responses", "script.jsonl", "-p", "do it"]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        self.home.command(binary(), args).run()
    }

    /// A headless run that ended well.
    pub(super) fn fine(&self, args: &[&str]) -> Run {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{}\n{}", run.stdout, run.stderr);
        run
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home.project().join(name)).unwrap_or_default()
    }

    /// One JSON value per line of a file of the project.
    pub(super) fn lines(&self, name: &str) -> Vec<Value> {
        crate::scene::lines(&self.read(name))
    }

    /// The attributes of the telemetry records of one kind.
    pub(super) fn records(&self, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.home.home().join("telemetry.log")).unwrap();
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let attributes = values.map(|value| value.unwrap()["attributes"].take());
        attributes.filter(|a| a["event.name"] == format!("gemini_cli.{kind}")).collect()
    }

    /// What the model was sent in its last request, as text.
    pub(super) fn last_request(&self) -> String {
        self.records("api_request").last().unwrap()["request_text"].as_str().unwrap().to_owned()
    }

    pub(super) fn hook_calls(&self) -> Vec<Value> {
        self.records("hook_call")
    }
}

/// A definition in the short form: a name and a command.
pub(super) fn hook(name: &str, command: &str) -> Value {
    json!([{"name": name, "command": command}])
}

/// A hook that keeps its input and prints a file.
pub(super) fn answers(file: &str) -> Value {
    hook("h", &format!("cat >> in.jsonl; echo >> in.jsonl; cat {file}"))
}

pub(super) fn says(text: &str) -> Vec<Value> {
    vec![json!({"text": text})]
}

pub(super) fn calls(name: &str, args: Value) -> Vec<Value> {
    vec![json!({"functionCall": {"name": name, "args": args}})]
}

pub(super) fn writes(file: &str, content: &str) -> Vec<Value> {
    calls("write_file", json!({"file_path": file, "content": content}))
}

pub(super) fn specific(value: Value) -> Value {
    json!({"hookSpecificOutput": value})
}
