//! Events of remote agents.

use pollux_a2a::fuzzing::answer_text;
use pollux_a2a::protocol::{Dialect, Message, Task, Update};
use serde_json::Value;

use crate::pieces::control;

/// Bytes of an answer's texts, and room for the words around them.
const MAX_ANSWER: usize = (1 << 20) + 200 * 1000 + 1000;

/// What is read can be written and read again in every dialect, and what it says is plain and limited.
pub(crate) fn updates(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let values: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let updates: Vec<Update> = values.iter().filter_map(Update::read).collect();
    for update in &updates {
        for dialect in [Dialect::Tagged, Dialect::OldBuffers, Dialect::One] {
            let written = update.to_json(dialect);
            let read = Update::read(&written);
            assert!(read.is_some(), "{dialect:?}: {written}");
            // A dialect may have no word for a field, but then it stays away.
            let again = read.as_ref().map(|update| update.to_json(dialect));
            assert_eq!(again.and_then(|again| Update::read(&again)), read, "{dialect:?}: {written}");
        }
    }
    for value in &values {
        let _ = (Message::read(value).text(), Task::read(value));
    }
    let text = answer_text(updates);
    assert!(text.len() <= MAX_ANSWER, "{} bytes", text.len());
    assert_eq!(control(&text), None, "in {text:?}");
}
