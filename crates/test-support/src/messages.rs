//! A local server that speaks Anthropic's Messages API as scripted, and refuses requests that the real one would
//! refuse.

mod reply;
mod validate;

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

pub use reply::MessagesReply;
use reply::{Content, End};
pub use validate::{extends, validate_messages};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct MessagesRequest {
    pub method: String,
    /// With its query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Null if there was none.
    pub body: Value,
}

impl MessagesRequest {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The turns.
    pub fn messages(&self) -> Vec<Value> {
        self.body["messages"].as_array().cloned().unwrap_or_default()
    }

    /// The blocks of a turn.
    pub fn blocks(&self, turn: usize) -> Vec<Value> {
        self.body["messages"][turn]["content"].as_array().cloned().unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    script: VecDeque<MessagesReply>,
    /// Given again and again once the script is used up.
    forever: Option<MessagesReply>,
    requests: Vec<MessagesRequest>,
    problems: Vec<String>,
    append_only: bool,
    /// The last request whose conversation the next one must continue.
    before: Option<Value>,
}

/// The server. It stops when it is dropped, and the test fails then if any request broke a rule of the API.
pub struct FakeMessages {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
    stopping: Arc<std::sync::atomic::AtomicBool>,
}

impl FakeMessages {
    /// Answers with these replies in order, and with status 400 after them.
    pub fn start(script: impl IntoIterator<Item = MessagesReply>) -> Self {
        let state = State { script: script.into_iter().collect(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        let address = listener.local_addr().expect("read the port");
        let stopping = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (served, stop) = (Arc::clone(&state), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if stop.load(std::sync::atomic::Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&served);
                // Ends with its connection.
                std::thread::spawn(move || serve(socket, &state));
            }
        });
        Self { address, state, thread: Some(thread), stopping }
    }

    /// Every request to generate must continue the conversation of the one before, without a change to it.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.state().append_only = true;
        self
    }

    /// What is answered once the script is used up.
    #[must_use]
    pub fn forever(self, reply: MessagesReply) -> Self {
        self.state().forever = Some(reply);
        self
    }

    /// The base URL, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds replies to the script.
    pub fn push(&self, replies: impl IntoIterator<Item = MessagesReply>) {
        self.state().script.extend(replies);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<MessagesRequest> {
        self.state().requests.clone()
    }

    /// The n-th request from 0; panics if there is none.
    pub fn request(&self, index: usize) -> MessagesRequest {
        let requests = self.requests();
        let count = requests.len();
        requests.into_iter().nth(index).unwrap_or_else(|| panic!("request {index} of {count}"))
    }

    /// What was wrong with the requests so far, and forgets it: for tests of the rules themselves.
    pub fn take_problems(&self) -> Vec<String> {
        std::mem::take(&mut self.state().problems)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FakeMessages {
    fn drop(&mut self) {
        self.stopping.store(true, std::sync::atomic::Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let problems = self.take_problems();
        if !std::thread::panicking() {
            assert!(problems.is_empty(), "requests broke rules of the API:\n- {}", problems.join("\n- "));
        }
    }
}

fn serve(socket: TcpStream, state: &Mutex<State>) {
    let _ = socket.set_nodelay(true);
    let Ok(reading) = socket.try_clone() else { return };
    let mut reader = BufReader::new(reading);
    let mut socket = socket;
    while let Some(request) = read(&mut reader) {
        let streams = request.body["stream"] == json!(true);
        let reply = answer(&mut state.lock().unwrap_or_else(PoisonError::into_inner), request);
        if !write(&mut socket, &reply, streams) {
            let _ = socket.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn answer(state: &mut State, request: MessagesRequest) -> MessagesReply {
    let index = state.requests.len();
    let mut problems = Vec::new();
    let path = request.path.clone();
    if path.ends_with("/v1/messages") || path.ends_with("/v1/messages/count_tokens") {
        problems = validate_messages(&request.body);
    }
    if path.ends_with("/v1/messages") && state.append_only {
        if let Some(before) = &state.before {
            problems.extend(extends(before, &request.body));
        }
        state.before = Some(request.body.clone());
    }
    state.requests.push(request);
    if !problems.is_empty() {
        let text = problems.join("; ");
        state.problems.extend(problems.into_iter().map(|problem| format!("request {index}: {problem}")));
        return MessagesReply::error(400, "invalid_request_error", &text);
    }
    let next = state.script.pop_front().or_else(|| state.forever.clone());
    next.unwrap_or_else(|| {
        MessagesReply::error(400, "invalid_request_error", "FakeMessages: the script is exhausted")
    })
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<MessagesRequest> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(MessagesRequest { method, path, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}

/// Whether the connection can be used again.
fn write(socket: &mut TcpStream, reply: &MessagesReply, streams: bool) -> bool {
    std::thread::sleep(reply.delay);
    let (kind, pieces) = match &reply.content {
        Content::Raw(bytes) => ("application/json", vec![bytes.clone()]),
        Content::Events(_) if streams => ("text/event-stream", reply.events()),
        Content::Events(_) => ("application/json", vec![reply.whole().to_string().into_bytes()]),
    };
    let mut head = format!("HTTP/1.1 {} Scripted\r\nTransfer-Encoding: chunked\r\n", reply.status);
    if !reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        head.push_str(&format!("Content-Type: {kind}\r\n"));
    }
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut sent = socket.write_all(head.as_bytes()).is_ok();
    for piece in reply.split(pieces) {
        sent = sent && chunk(socket, &piece);
        if !reply.pause.is_zero() {
            std::thread::sleep(reply.pause);
        }
    }
    match reply.end {
        End::Whole => sent && socket.write_all(b"0\r\n\r\n").is_ok(),
        End::Cut => false,
        End::Silent => {
            // Until the other side gives up.
            let _ = socket.set_read_timeout(Some(Duration::from_secs(30)));
            let mut byte = [0];
            let _ = socket.read(&mut byte);
            false
        }
    }
}

fn chunk(socket: &mut TcpStream, bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return true;
    }
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    socket.write_all(&framed).and_then(|()| socket.flush()).is_ok()
}
