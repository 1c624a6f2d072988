//! Reading JSON that may hold anything.

use serde_json::Value;

use crate::shared::count::tokens;

/// A text field.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// The entries of a list; none if it is no list.
pub(super) fn entries<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A count; anything but a number that counts something is 0.
pub(super) fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(tokens).unwrap_or(0)
}
