//! A scripted server of OpenAI's Responses API: every request is checked, and what breaks a rule fails the test.

mod connection;
mod script;
mod validate;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::gemini::request::Request;

pub use script::{ResponsesReply, responses_reply};
pub use validate::validate_responses_request;

/// A scripted server on loopback, on a thread of its own. Stops when dropped.
pub struct FakeResponses {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    script: VecDeque<ResponsesReply>,
    requests: Vec<Request>,
    problems: Vec<String>,
    /// Connections that the client closed while a reply was under way.
    hang_ups: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs and checks a request and picks its reply.
    fn answer(&self, request: Request) -> ResponsesReply {
        let mut state = self.state();
        let number = state.requests.len();
        let problems = match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/responses") => validate_responses_request(&request.body),
            ("POST", "/v1/responses/input_tokens") => validate::validate_count(&request.body),
            ("GET", "/v1/models") => Ok(()),
            (method, path) => Err(vec![format!("no such address: {method} {path}")]),
        };
        let is_open = request.header("authorization").is_some_and(|value| value.starts_with("Bearer "));
        state.requests.push(request);
        let problems = problems.err().unwrap_or_default().into_iter();
        let problems = problems.chain((!is_open).then(|| "no bearer token".to_owned()));
        let problems: Vec<String> = problems.map(|problem| format!("request {number}: {problem}")).collect();
        if let Some(first) = problems.first().cloned() {
            state.problems.extend(problems);
            return ResponsesReply::error(400, "invalid_request_error", "broken_rule", &first);
        }
        state.script.pop_front().unwrap_or_else(|| {
            ResponsesReply::error(400, "invalid_request_error", "exhausted", "the script is exhausted")
        })
    }
}

impl FakeResponses {
    /// Starts a server that answers with these replies in order and then refuses.
    pub fn start(script: impl IntoIterator<Item = ResponsesReply>) -> Self {
        let shared = Arc::<Shared>::default();
        shared.state().script.extend(script);
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

    /// The base URL with its version, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds replies to the script.
    pub fn push(&self, replies: impl IntoIterator<Item = ResponsesReply>) {
        self.shared.state().script.extend(replies);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// The body of the n-th request from 0.
    pub fn body(&self, index: usize) -> Value {
        let requests = self.requests();
        let count = requests.len();
        requests.into_iter().nth(index).unwrap_or_else(|| panic!("request {index} of {count}")).body
    }

    /// How often the client closed the connection while a reply was under way.
    pub fn hang_ups(&self) -> usize {
        self.shared.state().hang_ups
    }
}

impl Drop for FakeResponses {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The server may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let problems = std::mem::take(&mut self.shared.state().problems);
        if !problems.is_empty() && !std::thread::panicking() {
            panic!("requests broke the rules of the API:\n- {}", problems.join("\n- "));
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
