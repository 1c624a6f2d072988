//! MCP servers declared by an agent, which live as long as its run.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::approval::Person;
use pollux_domain::tool::ToolSource;
use tokio_util::sync::CancellationToken;

/// The servers that a definition names.
pub trait OwnServers: Send + Sync {
    /// Starts them and waits, for a limited time, until each is ready or has failed.
    fn start<'a>(
        &'a self,
        person: Option<Arc<dyn Person>>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, StartedServers>;
}

/// Running servers. Dropping them stops them without waiting.
pub struct StartedServers {
    /// What they offer; nothing if none could be started.
    pub tools: Option<Arc<dyn ToolSource>>,
    /// About those that cannot be used, a line each.
    pub problems: Vec<String>,
    /// Ends them.
    pub end: BoxFuture<'static, ()>,
}

impl StartedServers {
    /// Nothing was started, for these reasons.
    pub fn none(problems: Vec<String>) -> Self {
        Self { tools: None, problems, end: Box::pin(std::future::ready(())) }
    }
}
