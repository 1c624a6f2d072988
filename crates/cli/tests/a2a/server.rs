//! The server with a scripted model, and a client for it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pollux_test_support::{FakeGemini, Reply, TestHome, TestRun, reply};
use serde_json::{Value, json};

use crate::http::{self, Response};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A running server.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
    pub(crate) token: Option<String>,
    said: Arc<Mutex<String>>,
}

/// A home and a model that servers share.
pub(crate) struct Stage {
    pub(crate) home: TestHome,
    pub(crate) model: Rc<FakeGemini>,
    pub(crate) root: PathBuf,
}

impl Stage {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::in_home(TestHome::new(), replies)
    }

    pub(crate) fn in_home(home: TestHome, replies: impl IntoIterator<Item = Reply>) -> Self {
        let root = home.home().join("workspaces");
        std::fs::create_dir_all(&root).unwrap();
        let model = Rc::new(FakeGemini::start_blocking_thread(replies));
        Self { root: root.canonicalize().unwrap(), home, model }
    }

    /// Another machine with the same model.
    pub(crate) fn other_machine(&self) -> Self {
        let other = Self::new([]);
        Self { model: Rc::clone(&self.model), ..other }
    }

    /// The own folder of a task of the local user.
    pub(crate) fn workspace(&self, task: &Value) -> PathBuf {
        self.root.join("local").join(task.as_str().unwrap())
    }

    /// The token that a server creates if it is given none.
    pub(crate) fn own_token(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.home.home().join(".gemini/a2a-server-token")).ok()?;
        Some(text.trim().strip_prefix("local ").unwrap().to_owned())
    }

    /// Starts a server with these flags, whose commands run without a sandbox.
    pub(crate) fn serve(&self, flags: &[&str]) -> Server {
        self.try_serve(flags).unwrap_or_else(|said| panic!("{said}"))
    }

    /// The same; what it said if it did not start.
    pub(crate) fn try_serve(&self, flags: &[&str]) -> Result<Server, String> {
        self.start(self.program(flags))
    }

    /// The server with these flags, not yet started.
    pub(crate) fn program(&self, flags: &[&str]) -> TestRun {
        let root = self.root.to_str().unwrap();
        let mut args = vec!["-m", "test-model", "--sandbox=false", "a2a", "serve", "--workspace-root", root];
        args.extend(flags);
        self.home.command(binary(), args)
    }

    /// Starts a program that serves.
    pub(crate) fn start(&self, program: TestRun) -> Result<Server, String> {
        let mut child = program.against(&self.model).start();
        let lines = Arc::<Mutex<String>>::default();
        let heard = Arc::clone(&lines);
        let (sender, receiver) = channel();
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some(port) = line.strip_prefix("[CoreAgent] Agent Server started on ") {
                    let port = port.rsplit(':').next().unwrap().parse::<u16>().unwrap();
                    let _ = sender.send(Ok(port));
                }
                heard.lock().unwrap().push_str(&format!("{line}\n"));
            }
            let _ = sender.send(Err(heard.lock().unwrap().clone()));
        });
        let port = receiver.recv_timeout(Duration::from_secs(120)).unwrap();
        match port {
            Ok(port) => Ok(Server { child, port, token: self.own_token(), said: lines }),
            Err(said) => {
                let _ = child.wait();
                Err(said)
            }
        }
    }
}

impl Server {
    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.request("POST", path, &[], Some(body))
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Response {
        let authorization = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut all = headers.to_vec();
        if let Some(authorization) = &authorization {
            all.push(("authorization", authorization));
        }
        let body = body.map(Value::to_string);
        http::send(self.port, method, path, &all, body.as_deref())
    }

    /// Sends a text that may be anything.
    pub(crate) fn post_raw(&self, body: &str) -> Response {
        let authorization = format!("Bearer {}", self.token.as_deref().unwrap_or_default());
        http::send(self.port, "POST", "/", &[("authorization", &authorization)], Some(body))
    }

    /// A call of JSON-RPC.
    pub(crate) fn rpc(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post("/", &body).json()
    }

    /// A call of JSON-RPC that is answered with a stream.
    pub(crate) fn stream(&self, method: &str, params: Value) -> Response {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let response = self.post("/", &body);
        if response.header("content-type") != Some("text/event-stream") {
            panic!("not a stream: {}", response.text());
        }
        response
    }

    /// Sends a message without waiting for the turn; gives the task's id.
    pub(crate) fn begin(&self, mut params: Value) -> Value {
        params["configuration"] = json!({"blocking": false});
        let answer = self.rpc("message/send", params);
        assert!(answer["result"]["id"].is_string(), "{answer}");
        answer["result"]["id"].clone()
    }

    /// A counter of the server.
    pub(crate) fn counted(&self, name: &str) -> u64 {
        let start = format!("pollux_a2a_{name}_total ");
        let text = self.get("/metrics").text();
        text.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |count| count.parse().unwrap())
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until the server has said something to its operator.
    pub(crate) fn until_said(&self, text: &str) {
        until(text, || self.said.lock().unwrap().contains(text));
    }

    /// Waits until the task has one of these states.
    pub(crate) fn until(&self, task: &Value, states: &[&str]) -> Value {
        let end = Instant::now() + Duration::from_secs(180);
        loop {
            let answer = self.rpc("tasks/get", json!({"id": task}));
            let state = answer["result"]["status"]["state"].as_str().unwrap_or_default().to_owned();
            if states.contains(&state.as_str()) {
                return answer["result"].clone();
            }
            assert!(Instant::now() < end, "{answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_pollux"))
}

fn id() -> String {
    format!("message-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Commands that leave a line in a file which no server restores, so that a second execution would be seen.
pub(crate) struct Executions(tempfile::TempDir);

impl Executions {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder that all servers reach.
    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// A command that is counted.
    pub(crate) fn command(&self) -> String {
        format!("echo run >> {}", self.file().display())
    }

    /// A command that is counted and then runs until [`Executions::release`].
    pub(crate) fn held(&self) -> String {
        let gate = self.gate();
        format!("{}; while [ ! -e {} ]; do sleep 0.1; done", self.command(), gate.display())
    }

    pub(crate) fn release(&self) {
        std::fs::write(self.gate(), "").unwrap();
    }

    pub(crate) fn count(&self) -> usize {
        std::fs::read_to_string(self.file()).unwrap_or_default().lines().count()
    }

    /// Waits until so many commands have begun.
    pub(crate) fn until(&self, count: usize) {
        until("the command starts", || self.count() >= count);
    }

    fn file(&self) -> PathBuf {
        self.folder().join("executions")
    }

    fn gate(&self) -> PathBuf {
        self.folder().join("gate")
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < end, "it takes too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A reply that runs a command.
pub(crate) fn shell(command: &str) -> Reply {
    reply().call("run_shell_command", json!({"command": command}))
}

/// What a task says about its state.
pub(crate) fn said(task: &Value) -> &str {
    task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default()
}

/// A message in the words of 0.3.
pub(crate) fn message(text: &str) -> Value {
    json!({"message": {"kind": "message", "role": "user", "messageId": id(), "parts": [{"kind": "text", "text": text}]}})
}

/// The same for a task whose calls need no approval.
pub(crate) fn automatic(text: &str) -> Value {
    let mut params = message(text);
    params["message"]["metadata"] = json!({"coderAgent": {"kind": "agent-settings", "autoExecute": true}});
    params
}

/// A message to a task.
pub(crate) fn message_to(task: &Value, text: &str) -> Value {
    let mut params = message(text);
    params["message"]["taskId"] = task.clone();
    params
}

/// The answer to a tool call that waits for approval.
pub(crate) fn decision(task: &Value, call: &Value, outcome: &str) -> Value {
    let mut params = message_to(task, "");
    params["message"]["parts"] = json!([{"kind": "data", "data": {"callId": call, "outcome": outcome}}]);
    params
}

/// The kinds of a stream's events, as `kind state` or `kind status` of a call.
pub(crate) fn kinds(events: &[Value]) -> Vec<String> {
    let kind = |event: &Value| {
        let result = event.get("result").unwrap_or(event);
        let state = result["status"]["state"].as_str().unwrap_or_default();
        match result["kind"].as_str() {
            Some("status-update") => {
                let kind = result["metadata"]["coderAgent"]["kind"].as_str().unwrap_or_default();
                let call = result["status"]["message"]["parts"][0]["data"]["status"].as_str();
                let last = if result["final"] == true { " final" } else { "" };
                format!("{kind} {}{last}", call.unwrap_or(state))
            }
            Some("task") => format!("task {state}"),
            other => other.unwrap_or_default().to_owned(),
        }
    };
    events.iter().map(kind).collect()
}
