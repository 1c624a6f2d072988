//! Several sources of tools as one.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Tool, ToolSource};
use crate::BoxFuture;

/// Several sources of tools as one; the tools of the first come first.
pub struct ToolSources(Vec<Arc<dyn ToolSource>>);

impl ToolSources {
    /// All of them as one; `None` if there are none.
    pub fn join(sources: impl IntoIterator<Item = Arc<dyn ToolSource>>) -> Option<Arc<dyn ToolSource>> {
        let mut sources: Vec<_> = sources.into_iter().collect();
        match sources.len() {
            0 | 1 => sources.pop(),
            _ => Some(Arc::new(Self(sources))),
        }
    }
}

impl ToolSource for ToolSources {
    fn version(&self) -> u64 {
        // Each only grows.
        self.0.iter().map(|source| source.version()).sum()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.0.iter().flat_map(|source| source.tools()).collect()
    }

    fn context(&self) -> Option<String> {
        let texts: Vec<String> = self.0.iter().filter_map(|source| source.context()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    fn settled<'a>(&'a self, cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for source in &self.0 {
                source.settled(cancel).await;
            }
        })
    }

    fn arrival<'a>(&'a self, name: &'a str, cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for source in &self.0 {
                source.arrival(name, cancel).await;
            }
        })
    }

    fn absence(&self, name: &str) -> Option<String> {
        self.0.iter().find_map(|source| source.absence(name))
    }
}
