//! A core in a scratch home, and a client that speaks its protocol.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pollux_test_support::{FakeGemini, Reply, Run, Running, Screen, TestHome, TestRun};
use serde_json::{Value, json};

/// How long anything may take that the program does by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const MODEL: &str = "test-model";
/// What stands in an empty composer.
pub(crate) const PLACEHOLDER: &str = "Type your message or @path/to/file";

/// A home with a scripted server. Whatever core runs in it ends with it.
pub(crate) struct Scene {
    pub(crate) home: TestHome,
    pub(crate) server: FakeGemini,
    core: Option<Running>,
}

impl Scene {
    /// A scene without a core.
    pub(crate) fn cold(home: TestHome, replies: impl IntoIterator<Item = Reply>) -> Self {
        let home = home.env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        Self { home, server: FakeGemini::start_blocking_thread(replies), core: None }
    }

    /// A scene with a core that runs.
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(TestHome::new().settings(quiet()), replies, &[])
    }

    pub(crate) fn with(home: TestHome, replies: impl IntoIterator<Item = Reply>, args: &[&str]) -> Self {
        let mut scene = Self::cold(home, replies);
        scene.start_core(args);
        scene
    }

    /// Runs a core in the foreground, and waits until it answers.
    pub(crate) fn start_core(&mut self, args: &[&str]) {
        let args: Vec<&str> = ["core", "run"].into_iter().chain(args.iter().copied()).collect();
        self.core = Some(self.prepare(&args).spawn());
        until("the core to listen", || {
            self.socket().is_some_and(|socket| UnixStream::connect(socket).is_ok())
        });
    }

    pub(crate) fn kill_core(&mut self) {
        self.core.take().unwrap().kill();
    }

    /// Waits until the core has ended by itself.
    pub(crate) fn wait_core(&mut self) -> Run {
        self.core.take().unwrap().wait()
    }

    pub(crate) fn prepare(&self, args: &[&str]) -> TestRun {
        self.home.command(binary(), args).against(&self.server).limit(PATIENCE)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.prepare(args).run()
    }

    /// A terminal of the usual size, ready for a prompt.
    pub(crate) fn screen(&self, args: &[&str]) -> Screen {
        let screen = self.prepare(args).on_screen(100, 40);
        screen.expect(PLACEHOLDER);
        screen
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.home.gemini_dir().join("run")
    }

    /// The core's socket, if there is one.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.run_dir()).ok()?;
        entries
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|ending| ending == "sock"))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.run_dir().join("core.log")).unwrap_or_default()
    }

    /// A client that has introduced itself.
    pub(crate) fn peer(&self, kind: &str) -> Peer {
        let mut peer = Peer::connect(&self.socket().expect("a socket"));
        let hello = json!({"program": "0.1.0", "protocol": [1, 1], "front": {"kind": kind, "pid": 7}});
        peer.call("hello", hello).unwrap();
        peer
    }

    /// What opens a new session in the project.
    pub(crate) fn opening(&self) -> Value {
        let env = json!({
            "HOME": self.home.home(),
            "PATH": std::env::var("PATH").unwrap_or_default(),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "GEMINI_API_KEY": "test-key",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": self.server.url(),
        });
        let options = json!({"overrides": [["model.name", MODEL]], "sandbox": "false"});
        json!({"cwd": self.home.project(), "env": env, "options": options})
    }

    /// What resumes a session.
    pub(crate) fn resuming(&self, session: &str) -> Value {
        let mut opening = self.opening();
        opening["choice"] = json!({"kind": "resume", "which": session});
        opening
    }

    /// The sessions of the core, as `pollux ps` lists them.
    pub(crate) fn ps(&self) -> Vec<Value> {
        let run = self.run(&["ps", "--json"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        serde_json::from_str(&run.stdout).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if self.core.is_none() {
            // One that was started in the background.
            let _ = self.prepare(&["core", "stop", "--force"]).run();
        }
    }
}

/// Settings under which only the script decides what the model says.
pub(crate) fn quiet() -> Value {
    json!({"general": {"sessionSummaries": false}})
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_pollux"))
}

/// Waits until something holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A client of the core.
pub(crate) struct Peer {
    input: BufReader<UnixStream>,
    output: UnixStream,
    next: u64,
    /// Notifications that were not looked at.
    pub(crate) stash: VecDeque<Value>,
}

impl Peer {
    pub(crate) fn connect(socket: &Path) -> Self {
        let output = UnixStream::connect(socket).unwrap();
        output.set_read_timeout(Some(PATIENCE)).unwrap();
        let input = BufReader::new(output.try_clone().unwrap());
        Self { input, output, next: 1, stash: VecDeque::new() }
    }

    pub(crate) fn send_line(&mut self, line: &str) {
        self.output.write_all(line.as_bytes()).unwrap();
        self.output.write_all(b"\n").unwrap();
    }

    /// The next message; `None` when the core has closed the connection.
    pub(crate) fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("waited in vain for a message: {error}"),
        }
    }

    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The answer to a request.
    pub(crate) fn answer(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            let message = self.read().expect("an answer");
            if message["id"] != json!(id) {
                self.stash.push_back(message);
            } else if let Some(result) = message.get("result") {
                return Ok(result.clone());
            } else {
                return Err(message["error"].clone());
            }
        }
    }

    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// The next notification that this is about.
    pub(crate) fn notified(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = match self.stash.pop_front() {
                Some(message) => message,
                None => self.read().expect("a notification"),
            };
            if message.get("method").is_some() && wanted(&message) {
                return message["params"].clone();
            }
        }
    }

    /// The next event of this type, and its number.
    pub(crate) fn event(&mut self, kind: &str) -> (u64, Value) {
        let found = self
            .notified(|message| message["method"] == "event" && message["params"]["event"]["type"] == kind);
        (found["seq"].as_u64().unwrap(), found["event"].clone())
    }

    /// Opens a session and attaches to it; its id.
    pub(crate) fn open(&mut self, opening: Value) -> String {
        let opened = self.call("session/open", opening).unwrap();
        let session = opened["session"].as_str().unwrap().to_owned();
        self.attach(&session);
        session
    }

    pub(crate) fn attach(&mut self, session: &str) -> Value {
        self.call("session/attach", json!({"session": session})).unwrap()
    }

    pub(crate) fn op(&mut self, session: &str, op: Value) -> Result<Value, Value> {
        self.call("op", json!({"session": session, "op": op}))
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) {
        self.op(session, json!({"type": "Prompt", "typed": text})).unwrap();
    }

    /// Answers a question.
    pub(crate) fn decide(&mut self, session: &str, call: &Value, answer: Value) -> Result<Value, Value> {
        self.op(session, json!({"type": "Decide", "call": call, "answer": answer}))
    }
}
