//! A connection to the core, seen from a front end.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_front::rpc::{Incoming, RpcError};
use pollux_host::account::uid;
use pollux_host::{VERSION, confinement};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use crate::lines::Messages;
use crate::open::failure;
use crate::place::CorePlace;
use crate::wire::{FrontInfo, Hello, PROTOCOL, Welcome, code};

/// How long the core may take to introduce itself.
const HELLO: Duration = Duration::from_secs(20);
/// The longest line of the core.
const MAX_LINE: usize = 256 * 1024 * 1024;

/// A connection to the core.
pub struct Client {
    messages: Messages<OwnedReadHalf>,
    output: OwnedWriteHalf,
    next_id: u64,
    /// Messages that arrived while an answer was awaited.
    stash: VecDeque<Incoming>,
    /// What the core said about itself.
    pub welcome: Welcome,
}

/// Why the core that runs cannot be used.
pub(crate) struct Unusable {
    pub(crate) failure: Failure,
    /// Its process, if it speaks another protocol.
    pub(crate) pid: Option<i32>,
}

impl From<Failure> for Unusable {
    fn from(failure: Failure) -> Self {
        Self { failure, pid: None }
    }
}

impl Client {
    /// Connects to the core of this place; `None` if none runs. `kind` names the front end.
    pub(crate) async fn connect(place: &CorePlace, kind: &str) -> Result<Option<Self>, Unusable> {
        for path in place.sockets() {
            let stream = match UnixStream::connect(path).await {
                Ok(stream) => stream,
                Err(error) if is_absent(&error) => continue,
                Err(error) => {
                    let text = format!("could not connect to `{}`", path.display());
                    return Err(Failure::new(ExitKind::Failure, text).because(&error).into());
                }
            };
            let peer = stream.peer_cred();
            if !peer.as_ref().is_ok_and(|peer| peer.uid() == uid()) {
                let text = format!("`{}` belongs to another user", path.display());
                return Err(Failure::new(ExitKind::Failure, text)
                    .hint("remove it, then start the core")
                    .into());
            }
            let pid = peer.ok().and_then(|peer| peer.pid());
            // It gets the keys of sessions.
            if let Some(who) = confinement::objection(pid) {
                let text = format!("`{}` is served by {who}", path.display());
                return Err(Failure::new(ExitKind::Failure, text).hint("run `pollux core restart`").into());
            }
            return match timeout(HELLO, Self::introduce(stream, kind, pid)).await {
                Ok(introduced) => introduced,
                Err(_) => {
                    let shown = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                    let text = format!("the core{shown} does not answer");
                    let failure = Failure::new(ExitKind::Failure, text);
                    Err(Unusable { failure: failure.hint("end its process, then try again"), pid: None })
                }
            };
        }
        Ok(None)
    }

    async fn introduce(stream: UnixStream, kind: &str, pid: Option<i32>) -> Result<Option<Self>, Unusable> {
        let (input, output) = stream.into_split();
        let program = VERSION.to_owned();
        let welcome = Welcome { protocol: 0, program, scopes: Vec::new(), instance: String::new(), pid: 0 };
        let messages = Messages::new(input);
        let mut client = Self { messages, output, next_id: 1, stash: VecDeque::new(), welcome };
        let front = FrontInfo { kind: kind.to_owned(), name: None, pid: Some(std::process::id()) };
        let hello = Hello { program: VERSION.to_owned(), protocol: PROTOCOL, front };
        match client.call("hello", &hello).await {
            Ok(welcome) => {
                client.welcome = welcome;
                Ok(Some(client))
            }
            // It went away while we connected.
            Err(error) if error.code == GONE => Ok(None),
            Err(error) => {
                let pid = pid.filter(|_| error.code == code::PROTOCOL);
                Err(Unusable { failure: failure(&error), pid })
            }
        }
    }

    /// Sends a request; returns its id.
    pub(crate) async fn send(&mut self, method: &str, params: &impl Serialize) -> io::Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let params = serde_json::to_value(params).map_err(io::Error::other)?;
        let mut line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        line.push('\n');
        self.output.write_all(line.as_bytes()).await?;
        Ok(id)
    }

    /// Sends a request and waits for its answer.
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, RpcError> {
        let gone = || RpcError::new(GONE, "the core closed the connection", None);
        let asked = self.send(method, params).await.map_err(|_| gone())?;
        loop {
            match self.messages.next(MAX_LINE).await.ok_or_else(gone)? {
                Incoming::Answer { id, result } if id == asked => {
                    let result = result.map_err(|error| RpcError::from_json(&error))?;
                    return serde_json::from_value(result).map_err(|error| {
                        RpcError::internal(format!(
                            "unexpected response from the core to `{method}`: {error}"
                        ))
                    });
                }
                Incoming::Bad { error, .. } => return Err(error),
                other => self.stash.push_back(other),
            }
        }
    }

    /// Takes the messages that arrived while an answer was awaited.
    pub(crate) fn take_stash(&mut self) -> VecDeque<Incoming> {
        std::mem::take(&mut self.stash)
    }

    /// Lets a message come next after those that were put back before.
    pub(crate) fn put_back(&mut self, message: Incoming) {
        self.stash.push_back(message);
    }

    /// The next message; `None` when the connection is closed. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Incoming> {
        match self.stash.pop_front() {
            Some(message) => Some(message),
            None => self.messages.next(MAX_LINE).await,
        }
    }
}

/// Our own code for a connection that is closed.
pub(crate) const GONE: i32 = -32099;

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}
