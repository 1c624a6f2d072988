//! MCP servers that outlive a conversation, until the next one takes them.

use std::sync::{Arc, Mutex};

use pollux_domain::sync::Locked as _;
use pollux_mcp::Servers;

/// Servers between two conversations.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Option<Arc<Servers>>>>);

impl Kept {
    pub(crate) fn put(&self, servers: Arc<Servers>) {
        *self.0.locked() = Some(servers);
    }

    pub(crate) fn take(&self) -> Option<Arc<Servers>> {
        self.0.locked().take()
    }
}
