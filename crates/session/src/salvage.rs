//! Recovers data from truncated JSON.
//!
//! The scanner remembers the last positions where the text can be closed without inventing anything: after
//! a complete field of a message, a complete call, or a complete field of a call. A partial result or prompt is
//! never presented as complete.

use std::borrow::Cow;

use pollux_domain::json::{parse_lenient, parse_lenient_str};
use serde::de::IgnoredAny;
use serde_json::Value;

/// Number of closing positions to try, from the last one backwards.
const ATTEMPTS: usize = 64;

/// The message at the start of `bytes`, without what was cut. `None` if its content is not complete.
pub(crate) fn message(bytes: &[u8]) -> Option<Value> {
    tidy(without_controls(bytes).or_else(|| close(bytes, 0))?)
}

/// A truncated session object, without its unfinished last message if nothing of it is usable.
pub(crate) fn session(bytes: &[u8]) -> Option<Value> {
    if let Some(value) = without_controls(bytes) {
        return Some(value);
    }
    let mut value = close(bytes, 2)?;
    if let Some(messages) = value.get_mut("messages").and_then(Value::as_array_mut)
        && let Some(last) = messages.pop()
    {
        messages.extend(tidy(last));
    }
    Some(value)
}

/// The value of JSON in which nothing is wrong but control characters inside strings, such as a block of zeros.
pub(crate) fn without_controls(bytes: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(bytes);
    parse_lenient_str(&replace_controls(&text, LineBreaks::Replace)?).ok()
}

/// Whether line breaks inside strings are replaced as well. A truncated string may end only in a later line, so they
/// are replaced only if all of the text is JSON afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineBreaks {
    Keep,
    Replace,
}

/// JSON text in which control characters inside strings are replaced: tabs and line breaks by their escapes, a run of
/// others by U+FFFD. `None` without any.
pub(crate) fn replace_controls(text: &str, line_breaks: LineBreaks) -> Option<String> {
    let mut clean = String::with_capacity(text.len());
    let (mut in_string, mut escaped, mut any) = (false, false, false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let is_kept = c >= ' ' || (c == '\n' && line_breaks == LineBreaks::Keep);
        if is_kept || !in_string {
            match c {
                '"' if !escaped => in_string = !in_string,
                _ => {}
            }
            escaped = in_string && c == '\\' && !escaped;
            clean.push(c);
            continue;
        }
        any = true;
        if std::mem::take(&mut escaped) {
            clean.pop();
        }
        match c {
            '\t' => clean.push_str("\\t"),
            '\n' => clean.push_str("\\n"),
            '\r' => clean.push_str("\\r"),
            _ => {
                while rest.next_if(|next| *next < ' ' && !matches!(next, '\t' | '\n' | '\r')).is_some() {}
                clean.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }
    any.then_some(clean)
}

/// Drops calls that are not complete up to their status; refuses a message without its content.
fn tidy(mut message: Value) -> Option<Value> {
    message.get("content")?;
    message.get("type")?;
    if let Some(calls) = message.get_mut("toolCalls").and_then(Value::as_array_mut) {
        calls.retain(|call| call.get("args").is_some() && call.get("status").is_some());
    }
    Some(message)
}

/// A place behind which the text can be cut: its offset and the closing brackets it then needs.
struct Exit {
    at: usize,
    closers: Vec<u8>,
}

/// Closes the text at the last sensible place. `outer` is the depth of what encloses the messages.
fn close(bytes: &[u8], outer: usize) -> Option<Value> {
    let text = String::from_utf8_lossy(bytes);
    let text = replace_controls(&text, LineBreaks::Keep).map_or(text, Cow::Owned);
    let bytes = text.as_bytes();
    let sound = bytes.get(..sound_length(bytes))?;
    let exits = Scanner::new(sound, outer).exits();
    exits.iter().rev().take(ATTEMPTS).find_map(|exit| {
        let text = [bytes.get(..exit.at)?, &exit.closers].concat();
        parse_lenient(&text).ok()
    })
}

/// Length of the text up to its first JSON syntax error; nothing after it can be salvaged.
pub(crate) fn sound_length(bytes: &[u8]) -> usize {
    let Err(error) = serde_json::from_slice::<IgnoredAny>(bytes) else { return bytes.len() };
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    (lines.map(<[u8]>::len).sum::<usize>() + error.column()).min(bytes.len())
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    outer: usize,
    /// The closing bracket of each open container.
    open: Vec<u8>,
    /// Whether the field of the message under way may be kept in part.
    divisible: bool,
    exits: Vec<Exit>,
}

impl<'a> Scanner<'a> {
    fn new(bytes: &'a [u8], outer: usize) -> Self {
        Self { bytes, at: 0, outer, open: Vec::new(), divisible: false, exits: Vec::new() }
    }

    /// Walks until the text ends or stops being JSON; serde decides later whether it was.
    fn exits(mut self) -> Vec<Exit> {
        let mut expects_key = false;
        while let Some(byte) = self.bytes.get(self.at).copied() {
            self.at += 1;
            match byte {
                b'{' | b'[' => {
                    self.open.push(if byte == b'{' { b'}' } else { b']' });
                    expects_key = byte == b'{';
                    if byte == b'[' && self.open.len() <= self.outer {
                        self.mark();
                    }
                }
                b'}' | b']' => {
                    if self.open.pop() != Some(byte) {
                        break;
                    }
                    self.mark();
                    if self.open.is_empty() {
                        break;
                    }
                }
                b',' => expects_key = self.open.last() == Some(&b'}'),
                b':' => expects_key = false,
                b'"' => {
                    let Some(text) = self.string() else { break };
                    if expects_key {
                        if self.open.len() == self.outer + 1 {
                            self.divisible = matches!(text, b"toolCalls" | b"thoughts");
                        }
                    } else {
                        self.mark();
                    }
                }
                b' ' | b'\n' | b'\r' | b'\t' => {}
                _ => {
                    if !self.scalar() {
                        break;
                    }
                    self.mark();
                }
            }
        }
        self.exits
    }

    /// Remembers this place if nothing half-written would be kept by closing here.
    fn mark(&mut self) {
        let depth = self.open.len();
        let level = depth.saturating_sub(self.outer);
        let allowed = level <= 1 || (self.divisible && level <= 3);
        if !allowed {
            return;
        }
        if self.exits.len() >= 2 * ATTEMPTS {
            self.exits.drain(..ATTEMPTS);
        }
        self.exits.push(Exit { at: self.at, closers: self.open.iter().rev().copied().collect() });
    }

    /// Skips a string whose quote was just read; `None` if it does not end.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        loop {
            match self.bytes.get(self.at)? {
                b'\\' => self.at += 2,
                b'"' => {
                    self.at += 1;
                    return self.bytes.get(start..self.at - 1);
                }
                // Those that may be passed over were replaced before.
                0..=0x1f => return None,
                _ => self.at += 1,
            }
        }
    }

    /// Skips a number, `true`, `false` or `null`; false if it may go on behind the end of the text.
    fn scalar(&mut self) -> bool {
        while let Some(byte) = self.bytes.get(self.at) {
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')) {
                return true;
            }
            self.at += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_half_written_result_leaves_the_call_without_one() {
        let text = br#"{"id":"g","type":"gemini","content":"x","toolCalls":[{"id":"c","args":{"a":1},"status":"pending"  ,"result":[{"functionResponse":{"id":"c""#;
        assert_eq!(
            message(text),
            Some(json!({"id": "g", "type": "gemini", "content": "x",
                "toolCalls": [{"id": "c", "args": {"a": 1}, "status": "pending"}]}))
        );
    }

    #[test]
    fn a_half_written_content_is_not_a_message() {
        assert_eq!(message(br#"{"id":"u","type":"user","content":[{"text":"a"},{"te"#), None);
        assert_eq!(message(br#"{"id":"u","type":"user","content":"hal"#), None);
    }

    #[test]
    fn a_cut_session_keeps_its_whole_messages() {
        let text = b"{\n \"sessionId\": \"s\",\n \"messages\": [\n {\"id\":\"1\",\"type\":\"user\",\"content\":\"a\"},\n {\"id\":\"2\",\"ty";
        assert_eq!(
            session(text),
            Some(json!({"sessionId": "s", "messages": [{"id": "1", "type": "user", "content": "a"}]}))
        );
    }

    #[test]
    fn text_after_the_damage_does_not_hide_messages_before_it() {
        let mut text = b"{\"sessionId\": \"s\xff\",\n \"messages\": [\n {\"type\":\"user\",\"content\":\"a\"},\n {\"type\":\0".to_vec();
        text.extend(b",\"x\":1".repeat(1000));
        let kept = json!({"sessionId": "s\u{fffd}", "messages": [{"type": "user", "content": "a"}]});
        assert_eq!(session(&text), Some(kept));
    }

    #[test]
    fn control_characters_inside_strings_are_replaced() {
        let cases = [
            ("[\"a\0\0\0b\u{1}\"]", Some("[\"a\u{fffd}b\u{fffd}\"]")),
            ("[\"a\tb\rc\nd\"]", Some("[\"a\\tb\\rc\\nd\"]")),
            ("[\"a\\\u{1}b\", \"\\\\\u{1}\"]", Some("[\"a\u{fffd}b\", \"\\\\\u{fffd}\"]")),
            ("[\"\\\"\u{1}\"]", Some("[\"\\\"\u{fffd}\"]")),
            ("[\"a\",\n\t\"\u{1}\"]", Some("[\"a\",\n\t\"\u{fffd}\"]")),
            ("[\"a\",\n\t\"b\"]\0", None),
        ];
        for (text, expected) in cases {
            assert_eq!(replace_controls(text, LineBreaks::Replace).as_deref(), expected, "{text:?}");
        }
        assert_eq!(replace_controls("[\"a\nb\"]", LineBreaks::Keep), None);
        let read = message(b"{\"type\":\"user\",\"content\":\"a\0\0b\"}").unwrap();
        assert_eq!(read["content"], "a\u{fffd}b");
    }

    #[test]
    fn a_string_that_lost_its_end_is_not_completed_by_a_later_line() {
        let text = b"{\"type\":\"user\",\"content\":\"a\0\0\n},\n{\"id\":\"2\"}";
        assert_eq!(message(text), None);
    }

    #[test]
    fn hostile_nesting_ends_the_search_without_harm() {
        assert_eq!(message(&[b'['; 1 << 20]), None);
        assert_eq!(session(&b"{\"a\":".repeat(1 << 18)), None);
    }
}
