//! A server at the end of a bad line.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pollux_test_support::HttpRequest;
use pollux_test_support::wires::Wire;

use crate::Case;
use crate::chance::Chance;
use crate::conversation::{Framing, clean};
use crate::fault::{Disturbed, Then, disturb};

/// Answers by what a request contains, so that a retry gets its reply again. Stops when dropped.
pub(crate) struct Line {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    case: Case,
    disturbed: Disturbed,
    is_disturbed: AtomicBool,
    stopping: AtomicBool,
    requests: Mutex<Vec<HttpRequest>>,
    touched: usize,
}

impl Line {
    pub(crate) fn start(case: Case, chance: &mut Chance) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let disturbed = disturb(case, chance);
        let shared = Arc::new(Shared {
            case,
            touched: disturbed.touched,
            disturbed,
            is_disturbed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            requests: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming() {
                if served.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(socket), served) = (socket, Arc::clone(&served)) else { continue };
                // Ends with its connection.
                std::thread::spawn(move || serve(socket, &served));
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn wire(&self) -> Wire {
        self.shared.case.wire
    }

    pub(crate) fn requests(&self) -> Vec<HttpRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many bytes were changed.
    pub(crate) fn touched(&self) -> usize {
        self.shared.touched
    }

    /// What was sent in place of the disturbed reply.
    pub(crate) fn disturbed(&self) -> Vec<u8> {
        self.shared.disturbed.first.clone()
    }
}

impl Drop for Line {
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
        let Case { wire, framing, reply, .. } = shared.case;
        if !wire.generates(&request) {
            let refused = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
            let _ = socket.get_mut().write_all(refused.as_bytes());
            continue;
        }
        let asked = wire.results(&request.json()).min(1);
        let attempt = note(shared, wire, asked, request);
        if asked == reply && !shared.is_disturbed.swap(true, Ordering::SeqCst) {
            deliver(socket, &shared.disturbed);
            return;
        }
        let bytes = clean(wire, framing, asked, attempt);
        if socket.get_mut().write_all(&bytes).is_err() || framing == Framing::UntilClose {
            return;
        }
    }
}

/// Keeps a request; how often its reply was asked for before.
fn note(shared: &Shared, wire: Wire, asked: usize, request: HttpRequest) -> usize {
    let mut requests = shared.requests.lock().unwrap();
    let same = requests.iter().filter(|earlier| wire.results(&earlier.json()).min(1) == asked).count();
    requests.push(request);
    same
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
