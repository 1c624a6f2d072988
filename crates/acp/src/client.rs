//! The client at the other end, and what it can do.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use pollux_front::rpc::Peer;
use pollux_front::stdio::Outbox;
use serde_json::Value;

/// The client. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    peer: Peer,
    capabilities: Arc<OnceLock<Capabilities>>,
}

/// What the client said that it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one capability of the protocol")]
pub(crate) struct Capabilities {
    pub(crate) notices: bool,
    pub(crate) compaction: bool,
    pub(crate) boolean_options: bool,
    pub(crate) forms: bool,
    pub(crate) terminal_auth: bool,
    pub(crate) reads_files: bool,
    pub(crate) writes_files: bool,
    pub(crate) terminals: bool,
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
            reads_files: on("/fs/readTextFile"),
            writes_files: on("/fs/writeTextFile"),
            terminals: on("/terminal"),
        }
    }
}

impl Client {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self { peer: Peer::new(outbox, "$/cancel_request"), capabilities: Arc::default() }
    }

    /// What the client can do; nothing before `initialize`.
    pub(crate) fn can(&self) -> Capabilities {
        self.capabilities.get().cloned().unwrap_or_default()
    }

    /// Keeps the client's capabilities; false if they were given before.
    pub(crate) fn introduce(&self, capabilities: Capabilities) -> bool {
        self.capabilities.set(capabilities).is_ok()
    }

    pub(crate) fn is_known(&self) -> bool {
        self.capabilities.get().is_some()
    }
}

/// A client is a peer that has introduced itself.
impl Deref for Client {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.peer
    }
}
