//! Servers inside the program that drives the session, which carries their messages.

use std::fmt;
use std::sync::Arc;

use pollux_domain::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Bytes on their way in each direction.
const BUFFER: usize = 64 * 1024;
/// Answers that wait to be read.
const ANSWERS: usize = 16;
/// JSON-RPC's code for a failure of the other side.
const INTERNAL_ERROR: i64 = -32603;

/// Takes a JSON-RPC message to the server. The answer to a request is the server's response; that to a notification is
/// not looked at.
type Carrier = dyn Fn(Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync;

/// A server inside the program that drives the session.
#[derive(Clone)]
pub struct ClientLink(Arc<Carrier>);

impl ClientLink {
    pub fn new(
        carrier: impl Fn(Value) -> BoxFuture<'static, Result<Value, String>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(carrier))
    }

    /// Our end of a new connection: one message per line in both directions. Needs a runtime.
    pub(crate) fn open(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        tokio::spawn(carry(Arc::clone(&self.0), theirs));
        ours
    }
}

/// Equal if they are the same connection.
impl PartialEq for ClientLink {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for ClientLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientLink")
    }
}

/// Carries messages until our end is closed.
async fn carry(carrier: Arc<Carrier>, pipe: DuplexStream) {
    let (output, mut input) = tokio::io::split(pipe);
    let (sender, mut answers) = mpsc::channel::<Value>(ANSWERS);
    let mut requests = JoinSet::new();
    requests.spawn(async move {
        while let Some(answer) = answers.recv().await {
            if input.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    });
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let sender = sender.clone();
        let id = message.get("id").cloned();
        let answered = carrier(message);
        requests.spawn(async move {
            let answer = answered.await;
            let Some(id) = id else { return };
            let answer = answer.unwrap_or_else(
                |why| json!({"jsonrpc": "2.0", "id": id, "error": {"code": INTERNAL_ERROR, "message": why}}),
            );
            // A closed connection needs no answer.
            let _ = sender.send(answer).await;
        });
        while requests.try_join_next().is_some() {}
    }
}
