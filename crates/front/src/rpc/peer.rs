//! The client at the other end: answers, notifications and requests to it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pollux_domain::sync::Locked as _;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::RpcError;
use crate::stdio::Outbox;

/// How often a thread that waits for an answer looks for it.
const PAUSE: Duration = Duration::from_millis(1);

/// The client. Cheap to clone.
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

struct Inner {
    outbox: Outbox,
    /// The notification that withdraws a request.
    withdraws: &'static str,
    /// Shared by all ways to the same client, as the requests are.
    next_id: Arc<AtomicU64>,
    /// Unanswered requests; `None` once the client is gone.
    waiting: Arc<Mutex<Option<Unanswered>>>,
}

/// Requests by their ids.
type Unanswered = HashMap<u64, oneshot::Sender<Answer>>;

/// The result of a request, or the client's error.
pub type Answer = Result<Value, Value>;

impl Peer {
    /// `withdraws` is the protocol's notification that a request is no longer of interest.
    pub fn new(outbox: Outbox, withdraws: &'static str) -> Self {
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        Self(Arc::new(Inner { outbox, withdraws, next_id: Arc::new(AtomicU64::new(1)), waiting }))
    }

    /// The same client by another way: messages go there, answers arrive by any.
    pub fn through(&self, outbox: Outbox) -> Self {
        let Inner { withdraws, next_id, waiting, .. } = &*self.0;
        let (next_id, waiting) = (Arc::clone(next_id), Arc::clone(waiting));
        Self(Arc::new(Inner { outbox, withdraws, next_id, waiting }))
    }

    /// The lines to the client.
    pub fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    /// Answers a request of the client's; the id is JSON as it was written.
    pub fn answer(&self, id: &str, result: Result<Value, RpcError>) {
        let rest = match result {
            Ok(result) => format!("\"result\":{result}"),
            Err(error) => format!("\"error\":{}", error.to_json()),
        };
        self.0.outbox.send(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{rest}}}"));
    }

    /// Tells the client something.
    pub fn notify(&self, method: &str, params: Value) {
        self.0.outbox.send(notification(method, params));
    }

    /// An update that a newer one of the same name replaces.
    pub fn notify_state(&self, name: &str, method: &str, params: Value) {
        self.0.outbox.send_state(name, notification(method, params));
    }

    /// Asks the client. Dropping the future withdraws the request.
    pub fn request(&self, method: &str, params: Value) -> Request {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        if let Some(waiting) = self.0.waiting.locked().as_mut() {
            waiting.insert(id, sender);
            let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            self.0.outbox.send(line.to_string());
        }
        Request { peer: self.clone(), id, receiver, done: false }
    }

    /// The client answered; a second answer and an unknown id are ignored.
    pub fn answered(&self, id: u64, answer: Answer) {
        let waiting = self.0.waiting.locked().as_mut().and_then(|waiting| waiting.remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// The client is gone: open requests fail, and so do new ones.
    pub fn close(&self) {
        self.0.waiting.locked().take();
    }

    /// Whether the client is gone.
    pub fn is_gone(&self) -> bool {
        self.0.waiting.locked().is_none()
    }
}

fn notification(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

/// A request to the client that waits for its answer.
pub struct Request {
    peer: Peer,
    id: u64,
    receiver: oneshot::Receiver<Answer>,
    done: bool,
}

impl Request {
    /// Lets the client do it without waiting for the answer.
    pub fn forget(mut self) {
        self.done = true;
    }

    /// Waits for the answer on a thread of its own; `None` if there is none in time.
    pub fn wait(mut self, end: Instant) -> Option<Answer> {
        loop {
            match self.receiver.try_recv() {
                Ok(answer) => {
                    self.done = true;
                    return Some(answer);
                }
                Err(TryRecvError::Empty) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(_) => return None,
            }
        }
    }
}

impl Future for Request {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let answer = std::task::ready!(Pin::new(&mut self.receiver).poll(context));
        self.done = true;
        Poll::Ready(answer.unwrap_or_else(|_| Err(json!({"message": "the client is gone"}))))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let open = self.peer.0.waiting.locked().as_mut().and_then(|waiting| waiting.remove(&self.id));
        if open.is_some() {
            self.peer.notify(self.peer.0.withdraws, json!({"requestId": self.id}));
        }
    }
}
