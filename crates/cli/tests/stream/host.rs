//! A program that drives Pollux over pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pollux_test_support::TestHome;
use serde_json::{Value, json};

use crate::script::binary;

/// How long anything may take that the program does by itself.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Host {
    pub(crate) home: TestHome,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Arc<Mutex<String>>,
    /// Told when everything from stderr is read.
    errors_ended: Receiver<()>,
    /// Held while the host does not read.
    pub(crate) reading: Arc<Mutex<()>>,
    pub(crate) log: Vec<Value>,
}

impl Host {
    pub(crate) fn start(home: TestHome, replies: &[String], args: &[&str]) -> Self {
        let script = home.home().join("replies.jsonl");
        std::fs::write(&script, replies.concat()).unwrap();
        let script = script.display().to_string();
        let mut all = vec!["--input-format", "stream-json", "--output-format", "stream-json"];
        all.extend(["-m", "gemini-2.5-flash", "--fake-responses", &script]);
        all.extend(args);
        let mut child = home.command(binary(), all).start();
        let (sender, lines) = channel();
        let reading = Arc::new(Mutex::new(()));
        let (output, held) = (child.stdout.take().unwrap(), Arc::clone(&reading));
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = String::new();
                drop(held.lock().unwrap());
                match output.read_line(&mut line) {
                    Ok(length) if length > 0 => drop(sender.send(line)),
                    _ => return,
                }
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut errors, kept) = (child.stderr.take().unwrap(), Arc::clone(&stderr));
        let (ended, errors_ended) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = errors.read(&mut buffer) {
                kept.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
            let _ = ended.send(());
        });
        let input = child.stdin.take();
        Self { home, child, input, lines, stderr, errors_ended, reading, log: Vec::new() }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_raw(message.to_string().as_bytes());
    }

    pub(crate) fn send_raw(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.send(&json!({"type": "message", "content": text}));
    }

    pub(crate) fn approve(&mut self, approval: &Value, outcome: &str) {
        self.send(&json!({"type": "approve", "callId": approval["callId"], "outcome": outcome}));
    }

    pub(crate) fn close_input(&mut self) {
        self.input.take();
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// The next message; `None` at the end of output.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let line = match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => panic!("no line; stderr: {}\n{:#?}", self.stderr(), self.log),
        };
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        assert!(line.trim_end_matches('\n').chars().all(|letter| !letter.is_control()), "{line:?}");
        self.log.push(message.clone());
        Some(message)
    }

    /// Waits for a message of this type.
    pub(crate) fn wait_for(&mut self, word: &str) -> Value {
        loop {
            let Some(message) = self.next() else {
                panic!("no {word}; stderr: {}\n{:#?}", self.stderr(), self.log)
            };
            if message["type"] == word {
                return message;
            }
        }
    }

    /// Reads everything to the end: the exit code, and how long it took.
    pub(crate) fn end(&mut self) -> (Option<i32>, Duration) {
        let started = Instant::now();
        while self.next().is_some() {}
        let code = self.child.wait().unwrap().code();
        let took = started.elapsed();
        let _ = self.errors_ended.recv_timeout(PATIENCE);
        (code, took)
    }

    pub(crate) fn of_type(&self, word: &str) -> Vec<&Value> {
        self.log.iter().filter(|message| message["type"] == word).collect()
    }

    /// The text of the model.
    pub(crate) fn said(&self) -> String {
        let messages = self.of_type("MESSAGE").into_iter().filter(|message| message["role"] == "assistant");
        messages.filter_map(|message| message["content"].as_str()).collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in MiB.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
