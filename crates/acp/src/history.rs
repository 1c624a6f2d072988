//! Messages of earlier runs as updates.

use pollux_host::RecordedItem;
use serde_json::Value;

use crate::tool_call;
use crate::updates::{chunk, pieces};

/// The longest text of one update, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// The updates that replay a session, oldest first. Notices were for people at the time and are left out.
pub(crate) fn updates(items: &[RecordedItem]) -> impl Iterator<Item = Value> {
    items.iter().flat_map(|item| match item {
        RecordedItem::Prompt { message, text } => chunks("user_message_chunk", message, text),
        RecordedItem::Answer { message, text } => chunks("agent_message_chunk", message, text),
        RecordedItem::Thought { message, thought } => {
            let text = match thought.subject.is_empty() {
                true => thought.description.clone(),
                false => format!("**{}**\n{}", thought.subject, thought.description),
            };
            chunks("agent_thought_chunk", message, &text)
        }
        RecordedItem::Call(call) => vec![tool_call::recorded(call)],
        RecordedItem::Notice(..) => Vec::new(),
    })
}

fn chunks(kind: &str, message: &str, text: &str) -> Vec<Value> {
    pieces(text, MAX_TEXT).map(|piece| chunk(kind, message, piece)).collect()
}
