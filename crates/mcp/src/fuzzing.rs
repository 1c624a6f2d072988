//! What a server sends, read without starting one, for the fuzz targets. Not part of the interface.

use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::tool::ToolOutcome;
use rmcp::transport::Transport as _;
use serde_json::Value;
use tokio::io::AsyncRead;

use crate::log::Log;
use crate::transport::stdio::StdioTransport;

/// The messages of a server that prints these bytes, and what else it printed.
pub async fn messages(output: impl AsyncRead + Unpin + Send) -> (Vec<Value>, Vec<String>) {
    let log = Arc::new(Log::default());
    let (mut transport, _writer) = StdioTransport::new(output, tokio::io::sink(), Arc::clone(&log));
    let mut messages = Vec::new();
    while let Some(message) = transport.receive().await {
        messages.push(serde_json::to_value(&message).unwrap_or_default());
    }
    (messages, log.last(usize::MAX))
}

/// The answer to a tool call, as the model gets it.
pub fn tool_outcome(answer: &Value) -> ToolOutcome {
    crate::result::outcome("tool", &JsonObject::new(), answer)
}

/// A tool's schema as it is declared to the model.
pub fn declared_schema(given: &Value) -> Value {
    crate::schema::declared(Some(given))
}
