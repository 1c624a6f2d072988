//! Checks a layer against the schema; a value that does not fit is dropped with a warning.

use serde_json::{Map, Number, Value};

use super::defect::{SettingsWarning, WarningKind};
use super::layers::LayerValues;
use super::schema::{self, Key, Kind};

mod strict;

pub use strict::MCP_SERVER_KEYS;

/// What a value turned out to be.
pub(crate) enum Verdict {
    Fits,
    /// Fits after a conversion that needs no word (`"7"` for a number).
    Becomes(Value),
    /// Fits after a conversion the user should know about.
    Stretched {
        value: Value,
        issue: Issue,
    },
    Unfit(Issue),
}

/// One thing that is wrong.
pub(crate) struct Issue {
    /// Appended to the key: `[1]`, `.sub`; mostly empty.
    pub(crate) below: String,
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    pub(crate) received: Option<String>,
}

/// Checks and repairs a layer's values in place.
pub(crate) fn validate(layer: &mut LayerValues, warnings: &mut Vec<SettingsWarning>) {
    let mut values = std::mem::take(&mut layer.values);
    let mut path = String::new();
    check_object(&mut values, &mut path, layer, warnings);
    layer.values = values;
}

fn check_object(
    object: &mut Map<String, Value>,
    path: &mut String,
    layer: &LayerValues,
    warnings: &mut Vec<SettingsWarning>,
) {
    let mut dropped = Vec::new();
    for (name, value) in object.iter_mut() {
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        if !check_entry(value, path, layer, warnings) {
            dropped.push(name.clone());
        }
        path.truncate(length);
    }
    for name in dropped {
        object.shift_remove(&name);
    }
}

/// Whether the value may stay.
fn check_entry(
    value: &mut Value,
    path: &mut String,
    layer: &LayerValues,
    warnings: &mut Vec<SettingsWarning>,
) -> bool {
    if let Some(key) = schema::find(path) {
        let verdict = check_value(&key.kind, value);
        let stays = settle(verdict, value, path, layer, warnings);
        if stays {
            for issue in strict::unknown_keys(key, value) {
                warnings.push(
                    warning(&issue, path, layer, WarningKind::Tolerated).with_fix("the key is ignored"),
                );
            }
        }
        return stays;
    }
    if !schema::below(path).is_empty() {
        let Value::Object(inner) = value else {
            settle(Verdict::Unfit(mismatch("object", value)), value, path, layer, warnings);
            return false;
        };
        check_object(inner, path, layer, warnings);
        return true;
    }
    if path.strip_prefix("hooks.").is_some_and(|event| !event.contains('.')) {
        return settle(check_value(&Kind::List, value), value, path, layer, warnings);
    }
    if schema::is_retired(path) {
        return true;
    }
    let message = match schema::nearest(path) {
        Some(near) => format!("unknown setting; did you mean `{near}`?"),
        // Below a group, other releases of gemini-cli have keys of their own.
        None if !path.contains('.') && !path.starts_with('$') => "unknown setting; it is ignored".to_owned(),
        None => return true,
    };
    warnings.push(SettingsWarning::new(WarningKind::Misspelt, &layer.origin(path), path, message));
    true
}

/// Acts on a verdict; says whether the value stays.
fn settle(
    verdict: Verdict,
    value: &mut Value,
    path: &str,
    layer: &LayerValues,
    warnings: &mut Vec<SettingsWarning>,
) -> bool {
    match verdict {
        Verdict::Fits => true,
        Verdict::Becomes(other) => {
            *value = other;
            true
        }
        Verdict::Stretched { value: other, issue } => {
            let fix = format!("read as {other}");
            warnings.push(warning(&issue, path, layer, WarningKind::Tolerated).with_fix(fix));
            *value = other;
            true
        }
        Verdict::Unfit(issue) => {
            let kind =
                WarningKind::Invalid { expected: issue.expected.clone(), received: issue.received.clone() };
            warnings.push(warning(&issue, path, layer, kind));
            false
        }
    }
}

fn warning(issue: &Issue, path: &str, layer: &LayerValues, kind: WarningKind) -> SettingsWarning {
    let key = format!("{path}{}", issue.below);
    let origin = layer.origin(&key);
    let message = match origin.variable {
        Some(variable) => format!("{} in the environment variable {variable}", issue.message),
        None => issue.message.clone(),
    };
    SettingsWarning::new(kind, &origin, &key, message)
}

/// Checks one value against a key's type.
pub(crate) fn check_value(kind: &Kind, value: &Value) -> Verdict {
    match kind {
        Kind::Boolean => check_boolean(value),
        Kind::Number => check_number(value),
        Kind::Integer => check_integer(value),
        Kind::Text => expect(value.is_string(), "string", value),
        Kind::Choice(words) => check_choice(words, value),
        Kind::Texts => check_texts(value),
        Kind::TextOrTexts if value.is_string() => Verdict::Fits,
        Kind::TextOrTexts => check_texts(value),
        Kind::List => expect(value.is_array(), "array", value),
        Kind::Map => expect(value.is_object(), "object", value),
        Kind::Sandbox => {
            let fits = value.is_boolean() || value.is_string() || value.is_object();
            expect(fits, "boolean, string or object", value)
        }
    }
}

fn expect(fits: bool, expected: &str, value: &Value) -> Verdict {
    if fits { Verdict::Fits } else { Verdict::Unfit(mismatch(expected, value)) }
}

fn check_boolean(value: &Value) -> Verdict {
    match value {
        Value::Bool(_) => Verdict::Fits,
        Value::String(text) if text.eq_ignore_ascii_case("true") => Verdict::Becomes(Value::Bool(true)),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Verdict::Becomes(Value::Bool(false)),
        Value::String(_) | Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Verdict::Unfit(mismatch("boolean", value))
        }
    }
}

fn check_number(value: &Value) -> Verdict {
    match value {
        Value::Number(_) => Verdict::Fits,
        Value::String(text) => match text.trim().parse::<Number>() {
            Ok(number) => Verdict::Becomes(Value::Number(number)),
            Err(_) => Verdict::Unfit(mismatch("number", value)),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Verdict::Unfit(mismatch("number", value))
        }
    }
}

fn check_integer(value: &Value) -> Verdict {
    let verdict = check_number(value);
    let number = match &verdict {
        Verdict::Fits => value,
        Verdict::Becomes(number) => number,
        Verdict::Stretched { .. } | Verdict::Unfit(_) => return verdict,
    };
    if number.as_i64().is_some() {
        return verdict;
    }
    match number.as_f64() {
        // `30.0` is whole; so is anything that JavaScript would print without a point.
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked on the same line")]
        Some(whole) if whole.fract() == 0.0 && whole.abs() < 9e15 => {
            Verdict::Becomes(Value::from(whole as i64))
        }
        Some(_) | None => Verdict::Unfit(Issue {
            below: String::new(),
            message: "Expected integer, received float".to_owned(),
            expected: Some("integer".to_owned()),
            received: Some("float".to_owned()),
        }),
    }
}

fn check_choice(words: &[&str], value: &Value) -> Verdict {
    let Some(given) = value.as_str() else {
        return Verdict::Unfit(mismatch("string", value));
    };
    if words.contains(&given) {
        return Verdict::Fits;
    }
    // `autoEdit` is an older spelling of `auto_edit`.
    if given == "autoEdit" && words.contains(&"auto_edit") {
        return Verdict::Becomes(Value::from("auto_edit"));
    }
    let list = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" | ");
    Verdict::Unfit(Issue {
        below: String::new(),
        message: format!("Invalid enum value. Expected {list}, received '{given}'"),
        expected: None,
        received: None,
    })
}

fn check_texts(value: &Value) -> Verdict {
    match value {
        Value::Array(items) => match items.iter().position(|item| !item.is_string()) {
            None => Verdict::Fits,
            Some(index) => {
                let issue = mismatch("string", items.get(index).unwrap_or(&Value::Null));
                Verdict::Unfit(Issue { below: format!("[{index}]"), ..issue })
            }
        },
        // Not dropped: a list of forbidden tools must not vanish for want of brackets.
        Value::String(_) => {
            Verdict::Stretched { value: Value::Array(vec![value.clone()]), issue: mismatch("array", value) }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            Verdict::Unfit(mismatch("array", value))
        }
    }
}

pub(crate) fn mismatch(expected: &str, value: &Value) -> Issue {
    let received = type_name(value);
    Issue {
        below: String::new(),
        message: format!("Expected {expected}, received {received}"),
        expected: Some(expected.to_owned()),
        received: Some(received.to_owned()),
    }
}

/// A type's name in upstream's messages.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The message for a value typed by hand, or `None` if it fits.
pub(crate) fn complaint(key: &Key, value: &Value) -> Option<String> {
    match check_value(&key.kind, value) {
        Verdict::Fits | Verdict::Becomes(_) | Verdict::Stretched { .. } => None,
        Verdict::Unfit(issue) => Some(match (&key.kind, issue.expected, issue.received) {
            (_, Some(expected), Some(received)) => {
                format!("expected {}, got {}", with_article(&expected), with_article(&received))
            }
            (Kind::Choice(words), ..) => format!("expected one of {}", words.join(", ")),
            _ => issue.message,
        }),
    }
}

/// A type's name in a sentence.
pub(crate) fn with_article(name: &str) -> String {
    let article = match name {
        "null" => return name.to_owned(),
        "integer" | "array" | "object" => "an",
        _ => "a",
    };
    format!("{article} {name}")
}

/// The value in the form that is stored (`"7"` becomes 7).
pub(crate) fn fitted(key: &Key, value: Value) -> Value {
    match check_value(&key.kind, &value) {
        Verdict::Becomes(other) | Verdict::Stretched { value: other, .. } => other,
        Verdict::Fits | Verdict::Unfit(_) => value,
    }
}
