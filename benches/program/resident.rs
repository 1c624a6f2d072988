//! The resident core: attaching to a long session, what idle sessions cost, and how fast an answer spreads.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pollux_test_support::{FakeGemini, Reply, Screen, reply};
use serde_json::{Value, json};

use crate::measure::resident_kib;
use crate::scenes::{Bench, Place, put};

const PATIENCE: Duration = Duration::from_secs(30);
const MODEL: &str = "gemini-2.5-flash";
/// Messages of the session that is attached to, and of each idle one.
const LONG: usize = 1_000;
const SHORT: usize = 50;
const IDLE: usize = 100;

pub(crate) fn core(bench: &Bench) {
    attach(bench);
    idle(bench);
    answers(bench);
}

/// A core that ends with this.
struct Core<'a> {
    place: &'a Place,
    child: Child,
}

impl<'a> Core<'a> {
    fn start(bench: &Bench, place: &'a Place) -> Self {
        let mut command = place.command(&bench.pollux(), None, &["core", "run"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let core = Self { place, child: command.spawn().unwrap() };
        let began = Instant::now();
        while core.socket().is_none_or(|socket| UnixStream::connect(socket).is_err()) {
            assert!(began.elapsed() < PATIENCE, "the core does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        core
    }

    fn socket(&self) -> Option<PathBuf> {
        let files = fs::read_dir(self.place.home().join(".gemini/run")).ok()?;
        let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
        paths.find(|path| path.extension().is_some_and(|ending| ending == "sock"))
    }

    fn connect(&self) -> Peer {
        let output = UnixStream::connect(self.socket().unwrap()).unwrap();
        output.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut peer = Peer { input: BufReader::new(output.try_clone().unwrap()), output, next: 0 };
        peer.call(
            "hello",
            &json!({"program": "0.1.0", "protocol": [1, 1], "front": {"kind": "bench", "pid": 1}}),
        );
        peer
    }

    fn resident(&self) -> f64 {
        resident_kib(self.child.id()) as f64 / 1024.0
    }

    fn opening(&self, server: Option<&FakeGemini>, session: Option<&str>) -> Value {
        let mut env = json!({"HOME": self.place.home(), "GEMINI_API_KEY": "bench", "PATH": "/usr/bin:/bin"});
        if let Some(server) = server {
            env["GOOGLE_GEMINI_BASE_URL"] = json!(server.url());
        }
        let options = json!({"overrides": [["model.name", MODEL]], "skip_trust": true, "sandbox": "false"});
        let mut opening = json!({"cwd": self.place.project(), "env": env, "options": options});
        if let Some(session) = session {
            opening["choice"] = json!({"kind": "resume", "which": session});
        }
        opening
    }
}

impl Drop for Core<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of the core.
struct Peer {
    input: BufReader<UnixStream>,
    output: UnixStream,
    next: u64,
}

impl Peer {
    fn read(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            self.input.read_line(&mut line).expect("a message in time");
            let message: Value = serde_json::from_str(&line).expect("a message");
            if fits(&message) {
                return message;
            }
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.output, "{request}").unwrap();
        let answer = self.read(|message| message["id"] == json!(id));
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    fn event(&mut self, kind: &str) -> Value {
        self.read(|message| message["params"]["event"]["type"] == kind)["params"]["event"].clone()
    }

    fn open(&mut self, opening: &Value) -> String {
        let session = self.call("session/open", opening)["session"].as_str().unwrap().to_owned();
        self.call("session/attach", &json!({"session": session}));
        session
    }
}

fn write_session(place: &Place, number: usize, messages: usize) -> String {
    let project = fs::canonicalize(place.project()).unwrap();
    let hash = pollux_config::paths::sha256_hex(project.as_os_str().as_encoded_bytes());
    let chats = place.home().join(".gemini/tmp").join(&hash).join("chats");
    fs::create_dir_all(&chats).unwrap();
    let id = format!("{number:08x}-0000-4000-8000-000000000000");
    let time = "2026-01-01T00:00:00.000Z";
    let text = |turn: usize| format!("message {turn}: {}", "some words about the matter at hand ".repeat(6));
    let message = |turn: usize| match turn % 2 {
        0 => {
            json!({"id": format!("m{turn}"), "timestamp": time, "type": "user", "content": [{"text": text(turn)}]})
        }
        _ => json!({"id": format!("m{turn}"), "timestamp": time, "type": "gemini", "content": text(turn)}),
    };
    let all: Vec<Value> = (1..=messages).map(|turn| message(turn + 1)).collect();
    let file = json!({"sessionId": id, "projectHash": hash, "startTime": time, "lastUpdated": time, "messages": all});
    put(
        &chats.join(format!("session-2026-01-01T00-00-{}.json", id.split('-').next().unwrap())),
        &file.to_string(),
    );
    id
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

fn expect_last(binary: &Path, place: &Place, id: &str) -> Duration {
    let mut command = place.command(binary, None, &["attach", id]);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let began = Instant::now();
    let screen = Screen::start(&command, 100, 40);
    screen.expect(&format!("message {}:", LONG + 1)).expect("Type your message");
    began.elapsed()
}

/// From the start of the process until its last messages are painted.
fn attach(bench: &Bench) {
    let place = bench.place("core-attach");
    let id = write_session(&place, 1, LONG);
    let core = Core::start(bench, &place);
    let mut peer = core.connect();
    peer.open(&core.opening(None, Some(&id)));
    let binary = bench.pollux();
    let times = (0..bench.rounds).map(|_| expect_last(&binary, &place, &id)).collect();
    println!("\nattach to a session of {LONG} messages: painted after {:.1} ms", median(times));
}

fn idle(bench: &Bench) {
    let place = bench.place("core-idle");
    let ids: Vec<String> = (0..IDLE).map(|number| write_session(&place, number + 1, SHORT)).collect();
    let core = Core::start(bench, &place);
    let mut peer = core.connect();
    println!("\na core without sessions: {:.1} MiB", core.resident());
    for (number, id) in ids.iter().enumerate() {
        peer.open(&core.opening(None, Some(id)));
        if [1, 10, IDLE / 2, IDLE].contains(&(number + 1)) {
            println!("  with {} idle sessions of {SHORT} messages: {:.1} MiB", number + 1, core.resident());
        }
    }
}

/// From an answer in one front end until another knows that the question is closed.
fn answers(bench: &Bench) {
    let place = bench.place("core-answers");
    let call = || reply().call("run_shell_command", json!({"command": "touch made.txt"}));
    let replies: Vec<Reply> = (0..bench.rounds).flat_map(|_| [call(), reply().text("Done.")]).collect();
    let server = FakeGemini::start_blocking_thread(replies);
    let core = Core::start(bench, &place);
    let (mut one, mut two) = (core.connect(), core.connect());
    let session = one.open(&core.opening(Some(&server), None));
    two.call("session/attach", &json!({"session": session}));
    let mut round = || {
        let prompt = json!({"type": "Prompt", "typed": "go"});
        one.call("op", &json!({"session": session, "op": prompt}));
        let question = two.event("ApprovalWanted");
        let decide = json!({"type": "Decide", "call": question["value"]["call"], "answer": {"type": "Once"}});
        let began = Instant::now();
        two.next += 1;
        let request = json!({"jsonrpc": "2.0", "id": two.next, "method": "op", "params": {"session": session, "op": decide}});
        writeln!(two.output, "{request}").unwrap();
        one.event("ApprovalSettled");
        let took = began.elapsed();
        one.event("TurnEnded");
        took
    };
    let times = (0..bench.rounds).map(|_| round()).collect();
    println!("\nan answer in one front end closes the question in another after {:.2} ms", median(times));
}
