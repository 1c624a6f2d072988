//! A server at the end of a bad line.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Case;
use super::conversation::{Framing, clean};
use super::fault::{Disturbed, Then, disturb};
use crate::http::HttpRequest;
use crate::wires::Wire;

/// Answers by what a request contains, so that a retry gets its reply again. Stops when dropped.
pub struct BadLine {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    wire: Wire,
    state: Mutex<State>,
    stopping: AtomicBool,
}

struct State {
    case: Case,
    disturbed: Arc<Disturbed>,
    /// The fault has happened.
    is_over: bool,
    requests: Vec<HttpRequest>,
}

impl State {
    fn of(case: Case) -> Self {
        Self { case, disturbed: Arc::new(disturb(case)), is_over: false, requests: Vec::new() }
    }
}

impl BadLine {
    /// A server that disturbs the conversation once, as the case says.
    pub fn start(case: Case) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        let address = listener.local_addr().expect("read the port");
        let state = Mutex::new(State::of(case));
        let shared = Arc::new(Shared { wire: case.wire, state, stopping: AtomicBool::new(false) });
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming() {
                if served.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                let served = Arc::clone(&served);
                // Ends with its connection.
                std::thread::spawn(move || serve(socket, &served));
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    /// The same server for another case of its wire.
    pub fn next(&self, case: Case) {
        *self.shared.state() = State::of(case);
    }

    /// The address without the path of the wire.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests for a reply.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.shared.state().requests.clone()
    }

    /// What was sent in place of the disturbed reply.
    pub fn disturbed(&self) -> Vec<u8> {
        self.shared.state().disturbed.first.clone()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BadLine {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(socket: TcpStream, shared: &Shared) {
    let _ = socket.set_nodelay(true);
    let _ = socket.set_read_timeout(Some(Duration::from_secs(60)));
    let mut socket = BufReader::new(socket);
    while let Some(request) = HttpRequest::read(&mut socket) {
        if !shared.wire.generates(&request) {
            let refused = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
            let _ = socket.get_mut().write_all(refused.as_bytes());
            continue;
        }
        let asked = asked(shared.wire, &request);
        let mut state = shared.state();
        let attempt = state.requests.iter().filter(|other| self::asked(shared.wire, other) == asked).count();
        state.requests.push(request);
        let framing = state.case.framing;
        if asked == state.case.reply && !std::mem::replace(&mut state.is_over, true) {
            let disturbed = Arc::clone(&state.disturbed);
            drop(state);
            deliver(socket, &disturbed);
            return;
        }
        drop(state);
        let bytes = clean(shared.wire, framing, asked, attempt);
        if socket.get_mut().write_all(&bytes).is_err() || framing == Framing::UntilClose {
            return;
        }
    }
}

/// The reply that a request asks for, from 0: the second one follows the result of the call.
fn asked(wire: Wire, request: &HttpRequest) -> usize {
    wire.results(&request.json()).min(1)
}

fn deliver(mut socket: BufReader<TcpStream>, disturbed: &Disturbed) {
    let _ = socket.get_mut().write_all(&disturbed.first);
    match &disturbed.then {
        Then::Close => {}
        Then::Reset => {
            // A reset may overtake bytes; over a real network they would have been read before.
            std::thread::sleep(Duration::from_millis(5));
            let _ = rustix::net::sockopt::set_socket_linger(socket.get_ref(), Some(Duration::ZERO));
        }
        Then::Pause(rest) => {
            std::thread::sleep(Duration::from_millis(15));
            let _ = socket.get_mut().write_all(rest);
        }
        Then::Silence => {
            let _ = socket.read(&mut [0]);
        }
    }
}
