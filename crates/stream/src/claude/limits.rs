//! Lines that the host can read: its SDKs refuse longer ones and end the session.

use pollux_domain::terminal_text;
use serde_json::Value;

/// The longest line, in bytes. The limit of the SDKs is 1 MiB unless the host raises it.
pub(crate) const MAX_LINE: usize = 1_000_000;

/// A message that fits a line. The longest texts of one that does not are cut, and say so.
pub(crate) fn fitting(mut message: Value) -> Value {
    let mut longest = MAX_LINE / 4;
    // Each round at least halves what is too long; small texts alone cannot fill a line.
    while longest > 16 && is_too_long(&message) {
        cut(&mut message, longest);
        longest /= 4;
    }
    message
}

/// Whether a message does not fit a line as it is written.
pub(crate) fn is_too_long(message: &Value) -> bool {
    terminal_text::json(message.to_string()).len() > MAX_LINE
}

fn cut(value: &mut Value, longest: usize) {
    match value {
        Value::String(text) if text.len() > longest => {
            let all = text.len();
            text.truncate(text.floor_char_boundary(longest));
            text.push_str(&format!("… [cut: {all} bytes]"));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| cut(item, longest)),
        Value::Object(fields) => fields.values_mut().for_each(|field| cut(field, longest)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_of_any_size_becomes_a_line_that_can_be_read() {
        let short = json!({"type": "user", "text": "x".repeat(900_000)});
        assert_eq!(fitting(short.clone()), short);
        for text in ["x".repeat(5_000_000), "\u{1}é\n".repeat(2_000_000), "\u{85}".repeat(450_000)] {
            let long = fitting(json!({"type": "user", "content": [{"text": text}, {"text": "kept"}]}));
            assert!(!is_too_long(&long));
            assert_eq!((&long["type"], &long["content"][1]["text"]), (&json!("user"), &json!("kept")));
            assert!(long["content"][0]["text"].as_str().unwrap().ends_with(" bytes]"));
        }
    }
}
