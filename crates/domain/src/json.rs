//! Reads JSON that other programs wrote, including what strict parsers refuse for a single character.
//!
//! Node writes a string that was cut within an emoji with an unpaired surrogate escape (`"\ud83d"`). That is valid JSON,
//! but no text in Rust can hold it, so `serde_json` refuses the whole document. The same applies to invalid UTF-8.
//! Both become U+FFFD here. Other errors stay errors; damaged files are repaired elsewhere.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The replacement character as a JSON escape, which is as long as the escape it replaces.
const REPLACEMENT: &str = "\\ufffd";

/// How deeply JSON values of others may be nested. Parsers refuse more than 127 levels, and what is kept or passed on
/// stands some levels down in a record of ours.
pub const MAX_DEPTH: usize = 100;

/// Whether arrays and objects are nested deeper than this. A text or number has no depth.
pub fn is_deeper(value: &Value, limit: usize) -> bool {
    let is_deeper_below = |value: &Value| is_deeper(value, limit.saturating_sub(1));
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(is_deeper_below),
        Value::Object(fields) => limit == 0 || fields.values().any(is_deeper_below),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Replaces arrays and objects below this depth by their JSON text, so that nothing is lost and everything can be parsed.
pub fn limit_depth(value: &mut Value, limit: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if limit == 0 => *value = Value::String(value.to_string()),
        Value::Array(items) => items.iter_mut().for_each(|item| limit_depth(item, limit - 1)),
        Value::Object(fields) => fields.values_mut().for_each(|field| limit_depth(field, limit - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Parses JSON, replacing unpaired surrogate escapes and invalid UTF-8 if it cannot be read otherwise.
pub fn parse_lenient<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(json) {
        Ok(text) => parse_lenient_str(text),
        Err(_) => parse_lenient_str(&String::from_utf8_lossy(json)),
    }
}

/// As [`parse_lenient`], for text.
pub fn parse_lenient_str<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    serde_json::from_str(json).or_else(|error| match replace_unpaired(json) {
        Cow::Owned(repaired) => serde_json::from_str(&repaired),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Parses JSON that came over a connection: unpaired surrogate escapes are replaced, but invalid UTF-8 stays an error,
/// because it tells that bytes were damaged on their way.
pub fn parse_wire<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| match std::str::from_utf8(json).map(replace_unpaired) {
        Ok(Cow::Owned(repaired)) => serde_json::from_str(&repaired),
        _ => Err(error),
    })
}

/// JSON text in which every unpaired surrogate escape is replaced. Its length stays the same.
pub fn replace_unpaired(json: &str) -> Cow<'_, str> {
    let mut repaired = String::new();
    // What is not in `repaired` yet, and what of it was not examined yet.
    let mut pending = json;
    let mut rest = json;
    while let Some((_, escape)) = rest.split_once('\\') {
        let unit = code_unit(escape);
        let length = match unit {
            Some(0xd800..=0xdbff) if is_low(escape.get(5..)) => 11,
            Some(0xd800..=0xdfff) => {
                let before = pending.len() - escape.len() - 1;
                repaired.push_str(pending.get(..before).unwrap_or_default());
                repaired.push_str(REPLACEMENT);
                pending = escape.get(5..).unwrap_or_default();
                5
            }
            // The second of two backslashes begins no escape.
            _ => escape.chars().next().map_or(0, char::len_utf8),
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    if repaired.is_empty() {
        return Cow::Borrowed(json);
    }
    repaired.push_str(pending);
    Cow::Owned(repaired)
}

/// The UTF-16 code unit of the escape whose backslash was read.
fn code_unit(escape: &str) -> Option<u16> {
    let digits = escape.strip_prefix('u')?.get(..4)?;
    // A sign is no digit, although the parser takes one.
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

/// Whether the second half of a pair comes next.
fn is_low(next: Option<&str>) -> bool {
    next.and_then(|next| code_unit(next.strip_prefix('\\')?))
        .is_some_and(|unit| matches!(unit, 0xdc00..=0xdfff))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn unpaired_surrogates_cost_one_character_each() {
        let cases = [
            (r#"{"a":"cut\ud83d"}"#, json!({"a": "cut\u{fffd}"})),
            (r#"["\uD83D\uDE00","\ud83d\ude00"]"#, json!(["😀", "😀"])),
            (r#"["\uD83D\uDE00\uDE00"]"#, json!(["😀\u{fffd}"])),
            (r#"["\ud83d\ud83d\ude00"]"#, json!(["\u{fffd}😀"])),
            (r#"["\ude00\ud83d"]"#, json!(["\u{fffd}\u{fffd}"])),
            (r#"["\ud83d\n","\ud83dé"]"#, json!(["\u{fffd}\n", "\u{fffd}é"])),
            (r#"{"k\ud800":["\uDFFF"]}"#, json!({"k\u{fffd}": ["\u{fffd}"]})),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_lenient::<Value>(text.as_bytes()).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_escaped_backslash_begins_no_escape() {
        let text = r#"["\\ud83d","\\\ud83d","\ud83d\\ude00"]"#;
        let expected = json!(["\\ud83d", "\\\u{fffd}", "\u{fffd}\\ude00"]);
        assert_eq!(parse_lenient_str::<Value>(text).unwrap(), expected);
        assert!(matches!(replace_unpaired(r#"["\\ud83d \u00e9 \uD83D\uDE00"]"#), Cow::Borrowed(_)));
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let text = b"{\"a\":\"x\xff\xed\xa0\xbd \\ud83d\",\"b\":1}";
        let read: Value = parse_lenient(text).unwrap();
        assert_eq!(read["b"], 1);
        assert!(parse_wire::<Value>(text).is_err());
        assert_eq!(parse_wire::<Value>(br#"["\ud83d"]"#).unwrap(), json!(["\u{fffd}"]));
        assert!(read["a"].as_str().unwrap().starts_with("x\u{fffd}"));
    }

    #[test]
    fn other_errors_stay_errors() {
        for text in ["", "{", r#"{"a":"\ud83d""#, r#"["\q"]"#, r#"["\ud83"]"#, r#"["\u+d83"]"#, "[\"\u{1}\"]"]
        {
            assert!(parse_lenient_str::<Value>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_nested_too_deeply_becomes_its_text() {
        let mut value = json!({"a": [{"b": [1, {"c": 2}]}], "d": 3});
        assert!(is_deeper(&value, 4) && !is_deeper(&value, 5));
        limit_depth(&mut value, 5);
        assert_eq!(value, json!({"a": [{"b": [1, {"c": 2}]}], "d": 3}));
        limit_depth(&mut value, 3);
        assert_eq!(value, json!({"a": [{"b": "[1,{\"c\":2}]"}], "d": 3}));
    }

    #[test]
    fn typed_values_are_read_alike() {
        let read: Vec<String> = parse_lenient(br#"["a\udfff"]"#).unwrap();
        assert_eq!(read, ["a\u{fffd}"]);
    }
}
