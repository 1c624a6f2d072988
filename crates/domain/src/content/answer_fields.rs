//! What a call is answered with. One long text, which most answers are, may stay the JSON it was stored as.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::JsonObject;

/// The fields of an answer, read when someone asks for them: a resumed session has thousands of answers, and most
/// of them are only put aside.
#[derive(Clone)]
pub struct AnswerFields {
    stored: Option<Stored>,
    fields: OnceLock<JsonObject>,
}

#[derive(Clone)]
struct Stored {
    key: String,
    /// What was read of a file at once; the answers in it share it.
    piece: Arc<String>,
    json: Range<usize>,
    length: usize,
}

/// The only field of an answer, as it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredText<'a> {
    pub key: &'a str,
    /// The text as JSON, with its quotes, exactly as it would be written again.
    pub json: &'a str,
    /// How long the text itself is, in bytes.
    pub length: usize,
}

impl AnswerFields {
    /// An answer of one text that stays JSON: the string at this place, and where it ends. `None` if there is none,
    /// or if writing the text would give another one: then it has to be read.
    pub fn from_stored(key: &str, piece: &Arc<String>, at: usize) -> Option<(Self, usize)> {
        let (size, length) = measured(piece.as_bytes().get(at..)?)?;
        let json = at..at + size;
        let end = json.end;
        let stored = Stored { key: key.to_owned(), piece: Arc::clone(piece), json, length };
        Some((Self { stored: Some(stored), fields: OnceLock::new() }, end))
    }

    /// The one text, if the answer was stored as such.
    pub fn as_stored(&self) -> Option<StoredText<'_>> {
        let stored = self.stored.as_ref()?;
        Some(StoredText { key: &stored.key, json: stored.json(), length: stored.length })
    }
}

impl Stored {
    fn json(&self) -> &str {
        self.piece.get(self.json.clone()).unwrap_or_default()
    }
}

impl Deref for AnswerFields {
    type Target = JsonObject;

    fn deref(&self) -> &JsonObject {
        self.fields.get_or_init(|| {
            let read = |stored: &Stored| {
                let text = serde_json::from_str(stored.json()).unwrap_or(Value::Null);
                JsonObject::from_iter([(stored.key.clone(), text)])
            };
            self.stored.as_ref().map(read).unwrap_or_default()
        })
    }
}

impl From<JsonObject> for AnswerFields {
    fn from(fields: JsonObject) -> Self {
        Self { stored: None, fields: fields.into() }
    }
}

impl From<AnswerFields> for JsonObject {
    fn from(mut answer: AnswerFields) -> Self {
        // What was never asked for is read now.
        let _: &JsonObject = &answer;
        answer.fields.take().unwrap_or_default()
    }
}

impl PartialEq for AnswerFields {
    fn eq(&self, other: &Self) -> bool {
        match (self.as_stored(), other.as_stored()) {
            // The same text has only one form that is stored here.
            (Some(one), Some(other)) => one == other,
            _ => **self == **other,
        }
    }
}

impl fmt::Debug for AnswerFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The size of the JSON string that these bytes begin with, and the length of its text; `None` if there is none, or if
/// it is not in the form our writer gives it.
fn measured(bytes: &[u8]) -> Option<(usize, usize)> {
    let (b'"', mut rest) = bytes.split_first()? else { return None };
    let mut added = 2;
    loop {
        rest = rest.get(plain_run(rest)..)?;
        match rest.split_first()? {
            (b'"', rest) => {
                let size = bytes.len() - rest.len();
                return Some((size, size - added));
            }
            (b'\\', escaped) => {
                let escape = escape_length(escaped)?;
                added += escape;
                rest = escaped.get(escape..)?;
            }
            _ => return None,
        }
    }
}

/// How many bytes at the beginning stand for themselves in a JSON string.
fn plain_run(bytes: &[u8]) -> usize {
    let is_special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    let (blocks, _) = bytes.as_chunks::<16>();
    // Without a way out inside of a block, so that its bytes are looked at in one step.
    let plain =
        blocks.iter().take_while(|block| !block.iter().fold(false, |any, byte| any | is_special(byte)));
    let begun = plain.count() * 16;
    let rest = bytes.get(begun..).unwrap_or_default();
    begun + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// How many bytes follow a backslash for one byte of text, if that byte is always written so.
fn escape_length(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', ..] => Some(1),
        [b'u', b'0', b'0', b'0', b'0'..=b'7' | b'b' | b'e' | b'f', ..] => Some(5),
        [b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f', ..] => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The answer of a string that ends where this text does.
    fn stored(key: &str, json: &str) -> Option<AnswerFields> {
        let piece = Arc::new(format!("é{json}, \"more\""));
        let (answer, end) = AnswerFields::from_stored(key, &piece, 2)?;
        (end == 2 + json.len()).then_some(answer)
    }

    #[test]
    fn a_stored_text_is_the_same_as_one_that_was_read() {
        let all: String =
            (0..0x800).filter_map(char::from_u32).chain("\\\"\\n日\u{10ffff}".chars()).collect();
        for text in ["", "plain", "\\", "\"", "\\\"\\\\", "a\nb\u{8}\u{c}\u{7f}", &all] {
            let json = json!(text).to_string();
            let stored = stored("output", &json).unwrap();
            assert_eq!(
                stored.as_stored().unwrap(),
                StoredText { key: "output", json: &json, length: text.len() }
            );
            let read = AnswerFields::from(json!({"output": text}).as_object().unwrap().clone());
            assert_eq!(stored, read);
            assert_eq!(stored, stored.clone());
            assert_eq!(stored["output"], text);
            assert_eq!(JsonObject::from(stored), JsonObject::from(read));
        }
        let other = stored("output", "\"b\"").unwrap();
        assert_ne!(stored("output", "\"a\"").unwrap(), other);
        assert_ne!(stored("error", "\"b\"").unwrap(), other);
    }

    #[test]
    fn whatever_would_be_written_otherwise_is_not_kept_as_text() {
        let others = [
            "",
            "\"",
            "7",
            "{}",
            "\"a",
            "a\"",
            "\"a\"b\"",
            "\"\\\"",
            "\"\\\\\"\"",
            "\"a\nb\"",
            " \"a\"",
            "\"a\" ",
            r#""\/""#,
            r#""\u0041""#,
            r#""\u000a""#,
            r#""\u000A""#,
            r#""\u001F""#,
            r#""\u007f""#,
            r#""\u00""#,
            r#""\ud83d\ude00""#,
            r#""\ud83d""#,
            r#""\x""#,
        ];
        for json in others {
            assert!(stored("output", json).is_none(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn a_text_is_kept_exactly_if_writing_it_gives_the_same(json in r#""([a"\\nu0-9/é]|\\[nu"\\]|\\u00[01][0-9a-f])*""#) {
            let written = serde_json::from_str::<Value>(&json).map(|value| value.to_string());
            let is_same = written.is_ok_and(|written| written == json);
            prop_assert_eq!(stored("output", &json).is_some(), is_same);
        }
    }
}
