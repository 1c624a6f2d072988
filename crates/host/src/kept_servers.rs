//! MCP servers that stay connected between two conversations of a run.

use std::sync::{Arc, Mutex};

use pollux_domain::sync::Locked as _;
use pollux_mcp::Servers;

/// The servers handed from one conversation to the next.
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
