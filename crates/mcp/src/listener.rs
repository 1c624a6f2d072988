//! Notifications that the protocol does not define, for servers that have their own.

use serde_json::Value;

/// Receives such notifications. They are foreign input, and called on the thread of the connections.
pub trait NotificationListener: Send + Sync {
    fn notified(&self, method: &str, params: Value);
}
