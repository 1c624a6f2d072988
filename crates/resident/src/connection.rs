//! One connection to the core: a front end of any kind, which may attach to several sessions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::event::Event;
use pollux_front::rpc::{Incoming, RpcError};
use pollux_host::hub::{Delivery, Subscription};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::lines::Messages;
use crate::server::{Core, call};
use crate::sessions::Attachment;
use crate::snapshot::to_wire;
use crate::wire::{EndedParams, EventParams, LaggedParams, QuestionParams};

/// The longest line of a front end that has introduced itself, and before.
const MAX_LINE: usize = 64 * 1024 * 1024;
const MAX_HELLO: usize = 64 * 1024;
/// How long a front end may take to introduce itself, and to read a line.
const HELLO: Duration = Duration::from_secs(10);
const READING: Duration = Duration::from_secs(30);
/// Lines that wait to be written. Events wait in the hub, which drops them if the front end does not keep up.
const WAITING: usize = 16;
/// Requests of one front end that run at the same time.
const REQUESTS: usize = 64;

/// A connection, as its requests see it.
pub(crate) struct Connection {
    pub(crate) core: Rc<Core>,
    /// The name that the front end's attachments get.
    pub(crate) name: RefCell<Option<String>>,
    pub(crate) attachments: RefCell<HashMap<String, Attached>>,
    out: mpsc::Sender<String>,
    /// Closes the connection.
    pub(crate) closing: CancellationToken,
}

/// An attachment and the task that passes on its events.
pub(crate) struct Attached {
    pub(crate) attachment: Rc<Attachment>,
    pump: AbortHandle,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// Serves a front end until it leaves or the core does.
pub(crate) async fn serve(core: Rc<Core>, stream: UnixStream) {
    let (input, output) = stream.into_split();
    let (out, lines) = mpsc::channel(WAITING);
    let closing = core.closing.child_token();
    let writer = tokio::task::spawn_local(write(output, lines, closing.clone()));
    let connection = Rc::new(Connection {
        core: Rc::clone(&core),
        name: RefCell::default(),
        attachments: RefCell::default(),
        out,
        closing: closing.clone(),
    });
    tokio::select! {
        biased;
        () = closing.cancelled() => {}
        () = read(&connection, Messages::new(input)) => {}
    }
    connection.attachments.borrow_mut().clear();
    if let Some(name) = connection.name.borrow().as_ref() {
        core.log.line(&format!("{name} disconnected"));
    }
    drop(connection);
    // What was answered last is written before the connection closes.
    let _ = tokio::time::timeout(Duration::from_secs(1), writer).await;
}

async fn read(connection: &Rc<Connection>, mut messages: Messages<OwnedReadHalf>) {
    let Ok(Some(first)) = tokio::time::timeout(HELLO, messages.next(MAX_HELLO)).await else { return };
    if !hello(connection, first).await {
        return;
    }
    let running = Arc::new(Semaphore::new(REQUESTS));
    while let Some(message) = messages.next(MAX_LINE).await {
        match message {
            Incoming::Bad { id, error } => connection.answer(&id, Err(error)).await,
            // In order, so that an answer to a question does not overtake a prompt.
            Incoming::Request { id, method, params } if method == "op" => {
                let result = call(connection, &method, params).await;
                connection.answer(&id, result).await;
            }
            Incoming::Request { id, method, params } => {
                let Ok(permit) = Arc::clone(&running).try_acquire_owned() else {
                    let error = RpcError::invalid_request("too many requests at the same time");
                    connection.answer(&id, Err(error)).await;
                    continue;
                };
                let own = Rc::clone(connection);
                tokio::task::spawn_local(async move {
                    let result = call(&own, &method, params).await;
                    own.answer(&id, result).await;
                    drop(permit);
                });
            }
            // The core asks nothing, and knows no notifications.
            Incoming::Answer { .. } | Incoming::Notification { .. } => {}
        }
    }
}

/// Takes the first message; returns whether the connection goes on.
async fn hello(connection: &Rc<Connection>, first: Incoming) -> bool {
    let (id, answer) = match first {
        Incoming::Request { id, method, params } if method == "hello" => {
            (id, crate::server::hello(connection, params))
        }
        Incoming::Request { id, .. } => {
            (id, Err(RpcError::invalid_request("`hello` must be the first request")))
        }
        Incoming::Bad { id, error } => (id, Err(error)),
        Incoming::Notification { .. } | Incoming::Answer { .. } => return false,
    };
    let goes_on = answer.is_ok();
    connection.answer(&id, answer).await;
    goes_on
}

/// Writes lines; a front end that does not read is left.
async fn write(mut output: OwnedWriteHalf, mut lines: mpsc::Receiver<String>, closing: CancellationToken) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        let written = tokio::time::timeout(READING, output.write_all(line.as_bytes())).await;
        if !matches!(written, Ok(Ok(()))) {
            closing.cancel();
            return;
        }
    }
}

impl Connection {
    async fn answer(&self, id: &str, result: Result<Value, RpcError>) {
        let (name, value) = match result {
            Ok(result) => ("result", result),
            Err(error) => ("error", error.to_json()),
        };
        // The id is JSON already.
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{value}}}"#);
        let _ = self.out.send(line).await;
    }

    /// Starts to pass on the events of a session.
    pub(crate) fn follow(self: &Rc<Self>, session: &str, attachment: Attachment, events: Subscription) {
        let attachment = Rc::new(attachment);
        let (out, closing) = (self.out.clone(), self.closing.clone());
        let own = Rc::clone(&attachment);
        let name = session.to_owned();
        // It runs when the answer to the attaching request is queued, so the answer comes first.
        let task = tokio::task::spawn_local(async move { pump(&name, &own, events, &out, &closing).await });
        let attached = Attached { attachment, pump: task.abort_handle() };
        self.attachments.borrow_mut().insert(session.to_owned(), attached);
    }
}

fn notification(method: &str, params: &impl Serialize) -> String {
    let params = serde_json::to_value(params).unwrap_or_default();
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

/// Passes on events until the session has ended.
async fn pump(
    session: &str,
    attachment: &Attachment,
    mut events: Subscription,
    out: &mpsc::Sender<String>,
    closing: &CancellationToken,
) {
    let session = session.to_owned();
    while let Some(delivery) = events.next().await {
        let lines = match delivery {
            Delivery::Event(event) => {
                let params =
                    EventParams { session: session.clone(), seq: event.seq, event: to_wire(&event.event) };
                let mut lines = vec![notification("event", &params)];
                if let Event::ApprovalWanted(_) = &*event.event {
                    let params = QuestionParams { session: session.clone(), question: params.event };
                    lines.push(notification("question", &params));
                }
                lines
            }
            Delivery::Snapshot(now) => {
                let params = LaggedParams { session: session.clone(), from: 0, to: now.seq };
                vec![notification("lagged", &params)]
            }
            Delivery::Lagged { from, to } => {
                let params = LaggedParams { session: session.clone(), from, to };
                vec![notification("lagged", &params)]
            }
        };
        for line in lines {
            if out.send(line).await.is_err() {
                return;
            }
        }
    }
    if events.was_cut_off() {
        return closing.cancel();
    }
    let reason = attachment.ended_because().to_owned();
    let _ = out.send(notification("ended", &EndedParams { session, reason })).await;
}
