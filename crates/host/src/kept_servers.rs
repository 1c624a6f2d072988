//! MCP servers that outlive a conversation, until the next one takes them.

use std::sync::{Arc, Mutex, PoisonError};

use pollux_mcp::Servers;

/// Servers between two conversations.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Option<Arc<Servers>>>>);

impl Kept {
    pub(crate) fn put(&self, servers: Arc<Servers>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(servers);
    }

    pub(crate) fn take(&self) -> Option<Arc<Servers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
