//! Looking at JSON without building it: fields stay the text they are until somebody asks.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The fields of an object; of two with the same name the last.
pub(crate) type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The fields of a text that is an object.
pub(crate) fn fields(text: &str) -> Option<Fields<'_>> {
    serde_json::from_str(text).ok()
}

/// The items of a value that is a list.
pub(crate) fn list(value: &RawValue) -> Option<Vec<&RawValue>> {
    value.get().starts_with('[').then(|| serde_json::from_str(value.get()).ok())?
}

/// A field that is a string.
pub(crate) fn string(fields: &Fields<'_>, key: &str) -> Option<String> {
    text(fields.get(key)?)
}

/// A value that is a string.
pub(crate) fn text(value: &RawValue) -> Option<String> {
    value.get().starts_with('"').then(|| serde_json::from_str(value.get()).ok())?
}
