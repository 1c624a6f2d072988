//! Front matter of skills, agents and commands.

use pollux_extend::frontmatter::{MAX_BYTES, line_value, parse, read, split};
use serde_json::Value;

use crate::scratch;

/// A file and its text give the same result, rejoined parts split the same way again, and values are limited.
pub(crate) fn front_matter(bytes: &[u8]) {
    let file = scratch::folder().join("skill.md");
    scratch::write(&file, bytes);
    let from_file = read(&file);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some((front, body)) = split(text) else {
        assert!(!matches!(from_file, Ok(Some(_))), "front matter of a file whose text has none");
        return;
    };
    if let Ok(from_file) = from_file {
        assert_eq!(from_file.as_deref(), Some(front), "read from the file");
    }
    // A carriage return at the end of the front matter would be read as part of the line ending if `\n` followed.
    let joined = format!("---\r\n{front}\r\n---\r\n{body}");
    assert_eq!(split(&joined), Some((front, body)), "put together again");
    if let Ok(value) = parse::<Value>(front) {
        let size = value.to_string().len();
        assert!(size <= 16 * MAX_BYTES, "{size} bytes of {}", front.len());
    }
    for key in ["name", "description"] {
        assert!(line_value(front, key).is_none_or(|value| value.len() <= front.len()));
    }
}
