//! The client at the other end: notifications and requests to it, and what it can do.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};

use pollux_domain::sync::Locked as _;
use pollux_front::stdio::Outbox;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::error::RpcError;

/// The client. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client(Arc<Inner>);

struct Inner {
    outbox: Outbox,
    next_id: AtomicU64,
    /// Unanswered requests; `None` once the client is gone.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>,
    capabilities: OnceLock<Capabilities>,
}

/// The result of a request, or the client's error.
pub(crate) type Answer = Result<Value, Value>;

/// What the client said that it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one capability of the protocol")]
pub(crate) struct Capabilities {
    pub(crate) notices: bool,
    pub(crate) compaction: bool,
    pub(crate) boolean_options: bool,
    pub(crate) forms: bool,
    pub(crate) terminal_auth: bool,
}

impl Capabilities {
    /// Reads `clientCapabilities`; what is missing or malformed counts as unsupported.
    pub(crate) fn read(value: &Value) -> Self {
        let on = |pointer: &str| value.pointer(pointer) == Some(&Value::Bool(true));
        let given = |pointer: &str| value.pointer(pointer).is_some_and(Value::is_object);
        Self {
            notices: given("/session/notices"),
            compaction: given("/session/compaction"),
            boolean_options: given("/session/configOptions/boolean"),
            forms: given("/elicitation/form"),
            terminal_auth: on("/auth/terminal") || on("/_meta/terminal-auth"),
        }
    }
}

impl Client {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self(Arc::new(Inner {
            outbox,
            next_id: AtomicU64::new(1),
            waiting: Mutex::new(Some(HashMap::new())),
            capabilities: OnceLock::new(),
        }))
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.0.outbox
    }

    /// What the client can do; nothing before `initialize`.
    pub(crate) fn can(&self) -> Capabilities {
        self.0.capabilities.get().cloned().unwrap_or_default()
    }

    /// Keeps the client's capabilities; false if they were given before.
    pub(crate) fn introduce(&self, capabilities: Capabilities) -> bool {
        self.0.capabilities.set(capabilities).is_ok()
    }

    pub(crate) fn is_known(&self) -> bool {
        self.0.capabilities.get().is_some()
    }

    /// Answers a request of the client's.
    pub(crate) fn answer(&self, id: &str, result: Result<Value, RpcError>) {
        let rest = match result {
            Ok(result) => format!("\"result\":{result}"),
            Err(error) => format!("\"error\":{}", error.to_json()),
        };
        self.0.outbox.send(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{rest}}}"));
    }

    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.0.outbox.send(notification(method, params));
    }

    /// An update that a newer one of the same name replaces.
    pub(crate) fn notify_state(&self, name: &str, method: &str, params: Value) {
        self.0.outbox.send_state(name, notification(method, params));
    }

    /// Asks the client. Dropping the future withdraws the request.
    pub(crate) fn request(&self, method: &str, params: Value) -> Request {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        if let Some(waiting) = self.0.waiting.locked().as_mut() {
            waiting.insert(id, sender);
            let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            self.0.outbox.send(line.to_string());
        }
        Request { client: self.clone(), id, receiver, done: false }
    }

    /// The client answered; a second answer and an unknown id are ignored.
    pub(crate) fn answered(&self, id: u64, answer: Answer) {
        let waiting = self.0.waiting.locked().as_mut().and_then(|waiting| waiting.remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// The client is gone: open requests fail, and so do new ones.
    pub(crate) fn close(&self) {
        self.0.waiting.locked().take();
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.0.waiting.locked().is_none()
    }
}

fn notification(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

/// A request to the client that waits for its answer.
pub(crate) struct Request {
    client: Client,
    id: u64,
    receiver: oneshot::Receiver<Answer>,
    done: bool,
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
        let open = self.client.0.waiting.locked().as_mut().and_then(|waiting| waiting.remove(&self.id));
        if open.is_some() {
            self.client.notify("$/cancel_request", json!({"requestId": self.id}));
        }
    }
}
