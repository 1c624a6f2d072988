//! Our layout of a session file: one JSON document whose records are lines.
//!
//! ```text
//! {
//!   "sessionId": "…",
//!   "lastUpdated": "<24 bytes, patched in place>",
//!   …one field per line…
//!   "messages": [
//!     {…one message…},
//!     {…}
//!   ]
//! }
//! ```
//!
//! Only the tail changes, so a write costs only its new bytes, and truncation anywhere leaves every complete
//! line readable.

mod scan;

pub(crate) use scan::{Document, Ending, Head, read_head, salvaged, scan};

use pollux_domain::JsonObject;
use pollux_domain::time::Timestamp;
use serde_json::Value;

/// The end of the document after its last message.
pub(crate) const TAIL: &[u8] = b"\n  ]\n}\n";
/// The start of the message list.
const MESSAGES: &[u8] = b"  \"messages\": [";
/// The separator before each message.
pub(crate) const INDENT: &[u8] = b"\n    ";

/// The fields that come first, in this order.
const LEADING: [&str; 5] = ["sessionId", "projectHash", "startTime", "lastUpdated", "kind"];

/// Writes the head up to and including the `[` of the messages. Returns it with the offset of the 24 bytes
/// of `lastUpdated`.
pub(crate) fn encode_head(meta: &JsonObject, last_updated: Timestamp) -> (Vec<u8>, u64) {
    let stamp = Value::String(last_updated.to_iso());
    let mut bytes = b"{\n".to_vec();
    let mut stamp_at = 0;
    let others = meta.keys().map(String::as_str).filter(|key| !LEADING.contains(key) && *key != "messages");
    for key in LEADING.into_iter().chain(others) {
        let value = if key == "lastUpdated" { Some(&stamp) } else { meta.get(key) };
        let Some(value) = value else { continue };
        bytes.extend_from_slice(format!("  {}: ", Value::from(key)).as_bytes());
        if key == "lastUpdated" {
            stamp_at = bytes.len() as u64 + 1;
        }
        bytes.extend_from_slice(value.to_string().as_bytes());
        bytes.extend_from_slice(b",\n");
    }
    bytes.extend_from_slice(MESSAGES);
    (bytes, stamp_at)
}

/// Writes a whole document.
pub(crate) fn encode(meta: &JsonObject, last_updated: Timestamp, messages: &[Value]) -> Vec<u8> {
    let (mut bytes, _) = encode_head(meta, last_updated);
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(INDENT);
        bytes.extend_from_slice(message.to_string().as_bytes());
    }
    bytes.extend_from_slice(TAIL);
    bytes
}
