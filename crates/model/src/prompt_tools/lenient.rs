//! JSON as small models write it: trailing commas, single quotes, Python's literals, keys without quotes.

use pollux_domain::JsonObject;
use serde_json::Value;

/// Nobody nests deeper on purpose.
const MAX_DEPTH: usize = 64;

/// Reads one value; `None` if more than blanks follows it or it cannot be read.
pub(super) fn parse(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let mut reader = Reader { rest: text };
    let value = reader.value(MAX_DEPTH)?;
    reader.blanks();
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, expected: char) -> bool {
        self.blanks();
        let after = self.rest.strip_prefix(expected);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        self.blanks();
        match self.rest.chars().next()? {
            '{' => self.object(depth),
            '[' => self.array(depth),
            '"' | '\'' => self.text().map(Value::String),
            _ => self.word().and_then(literal),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        let mut fields = JsonObject::new();
        self.take('{');
        while !self.take('}') {
            self.blanks();
            let key = match self.rest.chars().next()? {
                '"' | '\'' => self.text()?,
                _ => self.word()?.to_owned(),
            };
            if !self.take(':') {
                return None;
            }
            fields.insert(key, self.value(depth)?);
            if !self.take(',') && !self.rest.trim_start().starts_with('}') {
                return None;
            }
        }
        Some(Value::Object(fields))
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        self.take('[');
        while !self.take(']') {
            items.push(self.value(depth)?);
            if !self.take(',') && !self.rest.trim_start().starts_with(']') {
                return None;
            }
        }
        Some(Value::Array(items))
    }

    fn text(&mut self) -> Option<String> {
        let mut chars = self.rest.chars();
        let quote = chars.next()?;
        let mut text = String::new();
        loop {
            match chars.next()? {
                '\\' => match chars.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'u' => {
                        let digits: String = chars.by_ref().take(4).collect();
                        let code = u32::from_str_radix(&digits, 16).ok()?;
                        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    other => text.push(other),
                },
                end if end == quote => break,
                other => text.push(other),
            }
        }
        self.rest = chars.as_str();
        Some(text)
    }

    fn word(&mut self) -> Option<&'a str> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.');
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, after) = self.rest.split_at_checked(end)?;
        self.rest = after;
        (!word.is_empty()).then_some(word)
    }
}

fn literal(word: &str) -> Option<Value> {
    match word {
        "true" | "True" => Some(Value::Bool(true)),
        "false" | "False" => Some(Value::Bool(false)),
        "null" | "None" => Some(Value::Null),
        number => serde_json::from_str(number).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sloppy_json_is_read_and_other_text_is_not() {
        let cases = [
            (r#"{"a": 1,}"#, json!({"a": 1})),
            ("{'a': 'it''s'}", json!(null)),
            (
                r"{'a': 'it\'s', 'b': [True, None, False, -1.5,]}",
                json!({"a": "it's", "b": [true, null, false, -1.5]}),
            ),
            ("{name: \"x\"}", json!({"name": "x"})),
            ("{\"a\": \"two\nlines\"}", json!({"a": "two\nlines"})),
            (r#"{"a": "\u00fc"} "#, json!({"a": "ü"})),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap_or_default(), expected, "{text}");
        }
        for text in ["", "{", "{\"a\": }", "{\"a\": 1} and more", "hello", "{\"a\" 1}", &"[".repeat(1000)] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
