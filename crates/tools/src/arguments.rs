//! Typed access to the arguments of a call.
//!
//! The schema has been validated before, but a tool does not rely on it.

use pollux_domain::JsonObject;
use pollux_domain::tool::ArgError;
use serde_json::Value;

/// The arguments of one call.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a>(pub(crate) &'a JsonObject);

impl<'a> Arguments<'a> {
    fn value(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A text that may be missing.
    pub(crate) fn text(self, name: &str) -> Result<Option<&'a str>, ArgError> {
        self.value(name).map(|value| value.as_str().ok_or_else(|| wrong(name, "string"))).transpose()
    }

    /// A text that must be there; it may be empty.
    pub(crate) fn required(self, name: &str) -> Result<&'a str, ArgError> {
        self.text(name)?.ok_or_else(|| ArgError(format!("params must have required property '{name}'")))
    }

    /// A switch that may be missing. Models also write it as a text.
    pub(crate) fn flag(self, name: &str) -> Result<Option<bool>, ArgError> {
        self.value(name)
            .map(|value| match value {
                Value::Bool(flag) => Ok(*flag),
                Value::String(text) if text == "true" => Ok(true),
                Value::String(text) if text == "false" => Ok(false),
                _ => Err(wrong(name, "boolean")),
            })
            .transpose()
    }

    /// An optional integer that is at least `least`. `3.0` and `"3"` are accepted.
    pub(crate) fn number(self, name: &str, least: u64) -> Result<Option<u64>, ArgError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_i64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| wrong(name, "integer"))?;
        match u64::try_from(number) {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => Err(ArgError(format!("params/{name} must be >= {least}"))),
        }
    }

    /// A list of texts that may be missing. A single text counts as a list of one.
    pub(crate) fn texts(self, name: &str) -> Result<Option<Vec<&'a str>>, ArgError> {
        self.value(name)
            .map(|value| match value {
                Value::String(text) => Ok(vec![text.as_str()]),
                Value::Array(items) => items
                    .iter()
                    .map(|item| item.as_str().ok_or_else(|| wrong(name, "array of strings")))
                    .collect(),
                _ => Err(wrong(name, "array")),
            })
            .transpose()
    }

    /// A nested object that may be missing.
    pub(crate) fn object(self, name: &str) -> Result<Option<Arguments<'a>>, ArgError> {
        self.value(name)
            .map(|value| value.as_object().map(Arguments).ok_or_else(|| wrong(name, "object")))
            .transpose()
    }
}

fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "checked to be a whole number in range")]
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

fn wrong(name: &str, expected: &str) -> ArgError {
    ArgError(format!("params/{name} must be {expected}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_read_generously_and_refused_clearly() {
        let value =
            json!({"n": 3.0, "s": "4", "b": "true", "one": "x", "neg": -1, "half": 1.5, "null": null});
        let arguments = Arguments(value.as_object().unwrap());
        assert_eq!(arguments.number("n", 1), Ok(Some(3)));
        assert_eq!(arguments.number("s", 1), Ok(Some(4)));
        assert_eq!(arguments.number("null", 1), Ok(None));
        assert_eq!(arguments.flag("b"), Ok(Some(true)));
        assert_eq!(arguments.texts("one"), Ok(Some(vec!["x"])));
        assert_eq!(arguments.number("neg", 0), Err(ArgError("params/neg must be >= 0".into())));
        assert_eq!(arguments.number("half", 0), Err(ArgError("params/half must be integer".into())));
        assert_eq!(
            arguments.required("file_path"),
            Err(ArgError("params must have required property 'file_path'".into()))
        );
    }
}
