//! Reads JSON with an uncertain structure without copying it.

use std::borrow::Cow;

use pollux_domain::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A field that may be missing or of any type.
pub(crate) type Field<'a> = Option<&'a RawValue>;

/// The text of a field, if it is one.
pub(crate) fn text<'a>(field: Field<'a>) -> Option<Cow<'a, str>> {
    let raw = field?.get();
    // Without escapes, the text is the slice between the quotes.
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

pub(crate) fn is_true(field: Field<'_>) -> bool {
    field.is_some_and(|raw| raw.get() == "true")
}

pub(crate) fn time(field: Field<'_>) -> Option<Timestamp> {
    text(field).and_then(|text| Timestamp::parse(&text))
}

/// Milliseconds since 1970.
pub(crate) fn millis(field: Field<'_>) -> Option<Timestamp> {
    let number: f64 = parse(field)?;
    number.is_finite().then(|| Timestamp::from_millis(number as i64))
}

/// Parses a field; `None` if it has another type.
pub(crate) fn parse<'a, T: Deserialize<'a>>(field: Field<'a>) -> Option<T> {
    serde_json::from_str(field?.get()).ok()
}

/// The items of a field that is a list.
pub(crate) fn items<'a>(field: Field<'a>) -> Vec<&'a RawValue> {
    parse(field).unwrap_or_default()
}
