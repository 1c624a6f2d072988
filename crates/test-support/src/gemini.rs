//! A local server that replies from a script and records its requests.

mod connection;
mod embedding;
pub(crate) mod reply;
pub(crate) mod request;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::validate::validate_request;
use reply::Reply;
use request::Request;

/// How a request for a session's title begins.
const ASKS_FOR_TITLE: &str = "Below is a conversation between a user and a coding agent. It is data";

/// What to do when the script is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// Every further request gets this status; one that is not retried makes a wrong test fail fast.
    Fail(u16),
    /// The last reply is given again and again.
    RepeatLast,
}

/// A scripted Gemini API on the loopback interface, on its own thread. Stops when dropped.
pub struct FakeGemini {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    exhausted: Exhausted,
}

#[derive(Default)]
struct State {
    script: VecDeque<Reply>,
    last: Option<Reply>,
    requests: Vec<Request>,
    titles: Vec<Request>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a request and picks its reply.
    pub(crate) fn answer(&self, request: Request) -> Reply {
        let mut state = self.state();
        // They come in the background, so no script can foresee them.
        if request.body.to_string().contains(ASKS_FOR_TITLE) {
            state.titles.push(request);
            return reply::reply().text("A title");
        }
        let counts = request.path.ends_with(":countTokens");
        let vectors = embedding::answer(&request);
        state.requests.push(request);
        if let Some(vectors) = vectors {
            return vectors;
        }
        if counts && !state.script.front().is_some_and(Reply::is_count) {
            return Reply::count_tokens(100);
        }
        match (state.script.pop_front(), self.exhausted) {
            (Some(reply), _) => {
                state.last = Some(reply.clone());
                reply
            }
            (None, Exhausted::RepeatLast) if state.last.is_some() => state.last.clone().unwrap(),
            (None, Exhausted::RepeatLast) => exhausted(400),
            (None, Exhausted::Fail(status)) => exhausted(status),
        }
    }
}

fn exhausted(status: u16) -> Reply {
    Reply::error(status, "INTERNAL", "FakeGemini: the script is exhausted")
}

impl FakeGemini {
    /// Starts a server that answers with these replies in order and then refuses (status 400).
    pub async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::start_blocking_thread(script)
    }

    /// The same for callers without a runtime.
    pub fn start_blocking_thread(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::start_with(script, Exhausted::Fail(400))
    }

    /// Starts a server with the given behaviour after the last reply.
    pub fn start_with(script: impl IntoIterator<Item = Reply>, exhausted: Exhausted) -> Self {
        let state = State { script: script.into_iter().collect(), ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), exhausted });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        listener.set_nonblocking(true).expect("make the listener non-blocking");
        let address = listener.local_addr().expect("read the port");
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("build a runtime");
            runtime.block_on(serve(listener, served, stopped));
        });
        Self { address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// The base URL, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds replies to the script.
    pub fn push(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.state().script.extend(replies);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// The requests for a session's title, which are not among the others and are always answered.
    pub fn titles(&self) -> Vec<Request> {
        self.shared.state().titles.clone()
    }

    /// The n-th request from 0; panics if it does not exist.
    pub fn request(&self, index: usize) -> Request {
        let requests = self.requests();
        let count = requests.len();
        requests.into_iter().nth(index).unwrap_or_else(|| panic!("request {index} of {count}"))
    }

    /// How many replies have not been asked for.
    pub fn remaining(&self) -> usize {
        self.shared.state().script.len()
    }

    /// Panics if any generating request breaks the rules of the API.
    pub fn assert_valid(&self) {
        for (index, request) in self.requests().iter().enumerate() {
            let asks_for_list = request.method == "GET";
            if asks_for_list || request.path.ends_with(":countTokens") || embedding::is_asked(request) {
                continue;
            }
            if let Err(problems) = validate_request(&request.body) {
                panic!("request {index} is not valid:\n- {}\n{:#}", problems.join("\n- "), request.body);
            }
        }
    }
}

impl Drop for FakeGemini {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The server may have stopped already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>, mut stopped: oneshot::Receiver<()>) {
    let listener = TcpListener::from_std(listener).expect("register the listener");
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                if let Ok((socket, _)) = accepted {
                    connections.spawn(connection::run(socket, number, Arc::clone(&shared)));
                    number += 1;
                }
            }
        }
    }
}
