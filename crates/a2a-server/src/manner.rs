//! How an answer is written.

use pollux_a2a::protocol::{Dialect, Update};
use serde_json::Value;

/// How an answer is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallManner {
    pub(crate) dialect: Dialect,
    /// Upstream's metadata is included.
    pub(crate) with_metadata: bool,
}

impl CallManner {
    /// An update as the client reads it.
    pub(crate) fn update(self, update: &Update) -> Value {
        if self.with_metadata {
            return update.to_json(self.dialect);
        }
        let mut update = update.clone();
        if let Update::Status(status) = &mut update {
            status.metadata.remove("coderAgent");
        }
        update.to_json(self.dialect)
    }
}
