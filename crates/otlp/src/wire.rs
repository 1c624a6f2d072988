//! Protocol Buffers, as far as OTLP needs them, without generated code.

use pollux_domain::JsonObject;
use serde_json::Value;

/// Bytes of one text. The conversation that a request carries would not fit what collectors accept.
const MAX_TEXT: usize = 32 * 1024;
const TRUNCATED: &str = "… [truncated]";

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

/// A message under construction. Fields are written even if they have their default value, which readers accept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn number(mut self, field: u32, value: u64) -> Self {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    pub(crate) fn fixed(mut self, field: u32, value: u64) -> Self {
        self.key(field, FIXED64);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn double(self, field: u32, value: f64) -> Self {
        self.fixed(field, value.to_bits())
    }

    pub(crate) fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.key(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    pub(crate) fn text(self, field: u32, text: &str) -> Self {
        if text.len() <= MAX_TEXT {
            return self.bytes(field, text.as_bytes());
        }
        let start = text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default();
        self.bytes(field, format!("{start}{TRUNCATED}").as_bytes())
    }

    pub(crate) fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    pub(crate) fn messages(self, field: u32, messages: impl IntoIterator<Item = Self>) -> Self {
        messages.into_iter().fold(self, |all, message| all.message(field, &message))
    }

    /// Numbers of eight bytes, in one field.
    pub(crate) fn packed(self, field: u32, values: impl IntoIterator<Item = u64>) -> Self {
        let bytes: Vec<u8> = values.into_iter().flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &bytes)
    }

    /// Attributes: a list of `KeyValue`.
    pub(crate) fn attributes(self, field: u32, attributes: &JsonObject) -> Self {
        let pair = |(name, value): (&String, &Value)| Self::default().text(1, name).message(2, &any(value));
        self.messages(field, attributes.iter().map(pair))
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// An `AnyValue`.
pub(crate) fn any(value: &Value) -> Message {
    let message = Message::default();
    match value {
        Value::Null => message,
        Value::Bool(yes) => message.number(2, u64::from(*yes)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => message.number(3, whole as u64),
            None => message.double(4, number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => message.text(1, text),
        Value::Array(items) => message.message(5, &Message::default().messages(1, items.iter().map(any))),
        Value::Object(fields) => message.message(6, &Message::default().attributes(1, fields)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_written_as_the_encoding_guide_shows_them() {
        assert_eq!(Message::default().number(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").into_bytes(), b"\x12\x07testing");
        let inner = Message::default().number(1, 150);
        assert_eq!(Message::default().message(3, &inner).into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::default().fixed(16, 1).into_bytes(), [0x81, 0x01, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Message::default().packed(6, [2]).into_bytes(), [0x32, 8, 2, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn every_kind_of_value_has_its_field() {
        assert_eq!(any(&json!(true)).into_bytes(), [0x10, 1]);
        assert_eq!(any(&json!(3)).into_bytes(), [0x18, 3]);
        assert_eq!(any(&json!(-1)).into_bytes().len(), 11, "negative numbers take ten bytes");
        assert_eq!(any(&json!(0.5)).into_bytes()[0], 0x21);
        assert_eq!(any(&json!("")).into_bytes(), [0x0a, 0], "an empty text is a text");
        assert_eq!(any(&json!(["a"])).into_bytes(), b"\x2a\x05\x0a\x03\x0a\x01a");
        assert_eq!(any(&json!({"k": 1})).into_bytes(), b"\x32\x09\x0a\x07\x0a\x01k\x12\x02\x18\x01");
        assert_eq!(any(&json!(null)).into_bytes(), b"");
        assert_eq!(any(&json!(u64::MAX)).into_bytes()[0], 0x21, "too large for a whole number");
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        let bytes = any(&json!(format!("x{}", "é".repeat(MAX_TEXT)))).into_bytes();
        assert!(bytes.len() < MAX_TEXT + 40);
        let text = std::str::from_utf8(&bytes[4..]).unwrap();
        assert!(text.starts_with("xé") && text.ends_with("é… [truncated]"));
    }
}
