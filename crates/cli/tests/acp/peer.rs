//! A client that speaks the protocol over pipes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pollux_test_support::TestHome;
use serde_json::{Value, json};

use crate::schema;
pub(crate) use crate::script::{binary, calls, home, reply, says};

/// How long anything may take that the program does by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program, started by a client.
pub(crate) struct Peer {
    pub(crate) home: Rc<TestHome>,
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    stderr: Arc<Mutex<String>>,
    /// Held while the client does not read.
    pub(crate) reading: Arc<Mutex<()>>,
    next_id: u64,
    /// The methods of requests, by id.
    asked: HashMap<String, String>,
    /// Every message that arrived.
    pub(crate) log: Vec<Value>,
}

impl Peer {
    /// Starts the program with a scripted model.
    pub(crate) fn start(home: TestHome, replies: &[String]) -> Self {
        Self::with(home, replies, &["--acp"])
    }

    pub(crate) fn with(home: TestHome, replies: &[String], args: &[&str]) -> Self {
        Self::in_home(Rc::new(home), replies, args)
    }

    /// Another client in the same home, after this one.
    pub(crate) fn again(&self, replies: &[String]) -> Self {
        self.again_with(replies, &["--acp"])
    }

    /// Another client in the same home, next to this one.
    pub(crate) fn beside(&self, replies: &[String]) -> Self {
        self.again(replies)
    }

    pub(crate) fn again_with(&self, replies: &[String], args: &[&str]) -> Self {
        let mut peer = Self::in_home(Rc::clone(&self.home), replies, args);
        let answer = peer.call("initialize", json!({"protocolVersion": 1}));
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        peer
    }

    fn in_home(home: Rc<TestHome>, replies: &[String], args: &[&str]) -> Self {
        let script = home.home().join("replies.jsonl");
        std::fs::write(&script, replies.concat()).unwrap();
        let script = script.display().to_string();
        let args: Vec<&str> =
            args.iter().copied().chain(["-m", "gemini-2.5-flash", "--fake-responses", &script]).collect();
        let mut child = home.command(binary(), &args).start();
        let input = child.stdin.take();
        let (sender, messages) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reading = Arc::new(Mutex::new(()));
        let allowed = Arc::clone(&reading);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                drop(allowed.lock());
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({"garbage": line}));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (mut pipe, said) = (child.stderr.take().unwrap(), Arc::clone(&stderr));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                said.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..count]));
            }
        });
        let (asked, log) = (HashMap::new(), Vec::new());
        Self { home, child, input, messages, stderr, reading, next_id: 0, asked, log }
    }

    /// Starts it and agrees on the protocol.
    pub(crate) fn ready(home: TestHome, replies: &[String]) -> Self {
        Self::ready_with(home, replies, json!({}))
    }

    pub(crate) fn ready_with(home: TestHome, replies: &[String], capabilities: Value) -> Self {
        let mut peer = Self::start(home, replies);
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let answer = peer.call("initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        peer
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.home.project().canonicalize().unwrap()
    }

    /// Opens a session in the project.
    pub(crate) fn session(&mut self) -> String {
        let cwd = self.project();
        let answer = self.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        let id = answer["result"]["sessionId"].as_str();
        id.unwrap_or_else(|| panic!("{answer} {}", self.stderr())).to_owned()
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).and_then(|()| input.write_all(b"\n")).and_then(|()| input.flush()).unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_raw(message.to_string().as_bytes());
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        self.asked.insert(id.to_string(), method.to_owned());
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.request("session/prompt", prompt(session, text))
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(&id)
    }

    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        self.wait_for("an answer", |message| message.get("method").is_none() && message["id"] == *id)
    }

    /// Answers a request of the program.
    pub(crate) fn respond(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Selects an option of a permission request.
    pub(crate) fn select(&mut self, request: &Value, option: &str) {
        self.respond(request, json!({"outcome": {"outcome": "selected", "optionId": option}}));
    }

    /// Runs a prompt to its end; permissions get this option.
    pub(crate) fn turn(&mut self, session: &str, text: &str, option: &str) -> Value {
        let id = self.prompt(session, text);
        loop {
            let message = self.next();
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
            if message["method"] == "session/request_permission" {
                self.select(&message, option);
            }
        }
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Value {
        self.next_within(PATIENCE).unwrap_or_else(|| panic!("no message; stderr: {}", self.stderr()))
    }

    pub(crate) fn next_within(&mut self, limit: Duration) -> Option<Value> {
        let message = match self.messages.recv_timeout(limit) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => panic!("the program ended: {}", self.stderr()),
        };
        let asked = message.get("id").and_then(|id| self.asked.get(&id.to_string()));
        schema::check(&message, asked.map(String::as_str));
        self.log.push(message.clone());
        Some(message)
    }

    pub(crate) fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let message = self.next();
            if wanted(&message) {
                return message;
            }
        }
        panic!("waited in vain for {what}")
    }

    /// Waits for a request of the program.
    pub(crate) fn asked(&mut self, method: &str) -> Value {
        self.wait_for(method, |message| message["method"] == method)
    }

    /// The updates of this kind so far.
    pub(crate) fn updates(&self, kind: &str) -> Vec<&Value> {
        let updates = self.log.iter().map(|message| &message["params"]["update"]);
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// The text of the model and of commands so far.
    pub(crate) fn said(&self) -> String {
        let chunks = self.updates("agent_message_chunk");
        chunks.iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
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

    /// The processes of its sessions with this text in their command lines.
    pub(crate) fn processes(&self, text: &str) -> Vec<String> {
        pollux_test_support::processes_in(self.project(), text)
    }

    pub(crate) fn close_input(&mut self) {
        self.input.take();
    }

    /// Waits for the end of the program: its exit code and how long that took.
    pub(crate) fn end(&mut self) -> (Option<i32>, Duration) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), started.elapsed());
            }
            assert!(started.elapsed() < PATIENCE, "it does not end: {}", self.stderr());
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}
