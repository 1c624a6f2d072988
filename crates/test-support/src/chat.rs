//! A scripted server of OpenAI's Chat Completions dialect.
//!
//! A script is a list of replies; a reply is a list of bytes and pauses, and how the connection ends. Every request is
//! checked against the rules of the dialect ([`validate`]), and a test whose client breaks one fails.

mod reply;
mod rules;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

pub use reply::{ChatReply, Close, Step};
pub use rules::validate;

use crate::http::HttpRequest;

/// The server. Stops when dropped, and panics there if a request broke a rule.
pub struct FakeChat {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    script: VecDeque<ChatReply>,
    requests: Vec<HttpRequest>,
    problems: Vec<String>,
}

impl FakeChat {
    /// Starts a server that gives these replies in order and then refuses with status 418.
    pub fn start(script: impl IntoIterator<Item = ChatReply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        let address = listener.local_addr().expect("read the port");
        let state = State { script: script.into_iter().collect(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let stopping = Arc::new(AtomicBool::new(false));
        let (shared, stop) = (Arc::clone(&state), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let (shared, stop) = (Arc::clone(&shared), Arc::clone(&stop));
                // Ends with its connection.
                std::thread::spawn(move || serve(socket, &shared, &stop));
            }
        });
        Self { address, state, stopping, thread: Some(thread) }
    }

    /// The base URL of the dialect, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds replies to the script.
    pub fn push(&self, replies: impl IntoIterator<Item = ChatReply>) {
        locked(&self.state).script.extend(replies);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<HttpRequest> {
        locked(&self.state).requests.clone()
    }

    /// The body of the n-th request from 0; panics if there is none.
    pub fn body(&self, index: usize) -> Value {
        let requests = self.requests();
        let count = requests.len();
        requests.get(index).unwrap_or_else(|| panic!("request {index} of {count}")).json()
    }

    /// The messages of the n-th request.
    pub fn messages(&self, index: usize) -> Vec<Value> {
        self.body(index)["messages"].as_array().cloned().unwrap_or_default()
    }
}

impl Drop for FakeChat {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let problems = std::mem::take(&mut locked(&self.state).problems);
        if !problems.is_empty() && !std::thread::panicking() {
            panic!("requests broke the rules of the dialect:\n- {}", problems.join("\n- "));
        }
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(socket: TcpStream, state: &Mutex<State>, stop: &AtomicBool) {
    let _ = socket.set_read_timeout(Some(Duration::from_secs(30)));
    let _ = socket.set_nodelay(true);
    let mut reader = BufReader::new(socket);
    while let Some(request) = read(&mut reader) {
        let reply = answer(state, request);
        if !write(reader.get_mut(), &reply, stop) {
            let _ = reader.get_mut().shutdown(Shutdown::Both);
            return;
        }
    }
}

fn answer(state: &Mutex<State>, request: HttpRequest) -> ChatReply {
    let mut state = locked(state);
    let number = state.requests.len();
    if request.path.ends_with("/chat/completions")
        && let Err(problems) = validate(&request.json())
    {
        let body = request.json();
        let said = problems.iter().map(|problem| format!("request {number}: {problem}\n{body:#}"));
        state.problems.extend(said);
    }
    state.requests.push(request);
    state.script.pop_front().unwrap_or_else(|| ChatReply::error(418, "the script is exhausted"))
}

/// Whether the connection can serve another request.
fn write(socket: &mut TcpStream, reply: &ChatReply, stop: &AtomicBool) -> bool {
    let mut head = format!("HTTP/1.1 {} Scripted\r\nTransfer-Encoding: chunked\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    if socket.write_all(head.as_bytes()).is_err() {
        return false;
    }
    for step in &reply.steps {
        let sent = match step {
            Step::Wait(pause) => {
                std::thread::sleep(*pause);
                Ok(())
            }
            Step::Bytes(bytes) => pieces(bytes, &reply.split).try_for_each(|piece| {
                socket.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
                socket.write_all(piece)?;
                socket.write_all(b"\r\n")
            }),
        };
        if sent.is_err() {
            return false;
        }
    }
    match reply.close {
        Close::End => socket.write_all(b"0\r\n\r\n").is_ok(),
        Close::Drop => false,
        Close::Hold => {
            while !stop.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(10));
            }
            false
        }
    }
}

fn pieces<'a>(bytes: &'a [u8], split: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut sizes = split.iter().copied().cycle();
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let size = sizes.next().unwrap_or(rest.len()).clamp(1, rest.len());
        let (piece, after) = rest.split_at(size);
        rest = after;
        Some(piece)
    })
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<HttpRequest> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(HttpRequest { method, path: path.to_owned(), query: query.to_owned(), headers, body })
}
