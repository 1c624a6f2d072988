//! Main or sub-agent session.

use pollux_domain::JsonObject;
use serde_json::Value;

/// Main or sub-agent session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionKind {
    #[default]
    Main,
    Subagent,
}

impl SessionKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Subagent => "subagent",
        }
    }
}

pub(crate) fn kind_of(meta: &JsonObject) -> SessionKind {
    match meta.get("kind").and_then(Value::as_str) {
        Some("subagent") => SessionKind::Subagent,
        _ => SessionKind::Main,
    }
}
