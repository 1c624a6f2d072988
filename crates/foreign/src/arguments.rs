//! Summarises the arguments of a tool call in one line.

use serde_json::{Map, Value};

/// The most informative arguments, in order; never file contents.
const KEYS: [&str; 17] = [
    "file_path",
    "filePath",
    "command",
    "cmd",
    "path",
    "pattern",
    "query",
    "url",
    "notebook_path",
    "absolute_path",
    "dir_path",
    "workdir",
    "description",
    "subagent_type",
    "skill",
    "prompt",
    "name",
];
const MAX_CHARS: usize = 200;
const MAX_VALUES: usize = 4;
/// The length a transcript of ours has.
const MAX_ERROR_CHARS: usize = 300;

/// A short text with the telling arguments.
pub(crate) fn summary(args: &Map<String, Value>) -> String {
    let telling = KEYS.iter().filter_map(|key| args.get(*key)).filter_map(shown_value);
    telling.filter(|text| !text.is_empty()).take(MAX_VALUES).collect::<Vec<_>>().join(" ")
}

/// The start of a text argument, such as a patch.
pub(crate) fn short(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.trim().chars().enumerate() {
        if count == MAX_CHARS {
            shown.push('…');
            break;
        }
        match character {
            '\n' => shown.push('⏎'),
            '\r' => {}
            other => shown.push(other),
        }
    }
    shown
}

/// As much of an error as a transcript shows.
pub(crate) fn first_chars(text: &str) -> String {
    text.trim().chars().take(MAX_ERROR_CHARS).collect()
}

fn shown_value(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(short(text)),
        Value::Array(items) => {
            let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            Some(short(&words.join(" ")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_shown_without_contents() {
        let cases = [
            (json!({"file_path": "/a.rs", "content": "secret"}), "/a.rs"),
            (json!({"command": ["bash", "-lc", "ls\ntwo"], "timeout": 5}), "bash -lc ls⏎two"),
            (json!({"path": "src", "pattern": "fn main"}), "src fn main"),
            (json!({"old_string": "a", "new_string": "b"}), ""),
        ];
        for (args, expected) in cases {
            assert_eq!(summary(args.as_object().unwrap()), expected);
        }
        assert_eq!(short(&"x".repeat(300)).chars().count(), MAX_CHARS + 1);
    }
}
