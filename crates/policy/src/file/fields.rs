//! Typed access to the keys of one TOML table, with line numbers for errors.

use pollux_domain::approval::ApprovalMode;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::LineIndex;
use crate::pattern::PatternError;
use crate::rule::Modes;

/// An invalid field.
#[derive(Debug)]
pub(super) struct FieldError {
    pub(super) line: u32,
    pub(super) field: String,
    pub(super) message: &'static str,
    pub(super) why: String,
}

/// One table.
pub(super) struct Fields<'a> {
    table: &'a DeTable<'a>,
    lines: &'a LineIndex,
    line: u32,
    prefix: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) fn new(table: &'a DeTable<'a>, lines: &'a LineIndex, line: u32) -> Self {
        Self { table, lines, line, prefix: "" }
    }

    /// Where the table begins.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// A value by its camelCase name or its snake_case one.
    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        let has_two_names = || key.bytes().any(|byte| byte.is_ascii_uppercase());
        self.table
            .get(key)
            .or_else(|| has_two_names().then(|| self.table.get(snake_case(key).as_str())).flatten())
    }

    pub(super) fn schema(&self, key: &str, why: &str) -> FieldError {
        self.error(key, "Schema validation failed", why.to_owned())
    }

    pub(super) fn pattern(&self, key: &str, error: PatternError) -> FieldError {
        match error {
            PatternError::Invalid(why) => self.error(key, "Invalid regex pattern", why),
            PatternError::Unsafe => self.error(
                key,
                "Unsafe regex pattern (potential ReDoS)",
                "longer than 2048 characters, or a repeated group that can match in many ways".to_owned(),
            ),
        }
    }

    fn error(&self, key: &str, message: &'static str, why: String) -> FieldError {
        let line = self.get(key).map_or(self.line, |value| self.lines.line(value.span().start));
        FieldError { line, field: format!("{}{key}", self.prefix), message, why }
    }

    fn expected(&self, key: &str, wanted: &str, found: &DeValue<'_>) -> FieldError {
        self.schema(key, &format!("expected {wanted}, got {}", found.type_str()))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, FieldError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text.to_string())),
            Some(other) => Err(self.expected(key, "a string", other)),
        }
    }

    pub(super) fn required_text(&self, key: &str) -> Result<String, FieldError> {
        self.text(key)?.ok_or_else(|| self.schema(key, "Required"))
    }

    /// A string or an array of strings.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, FieldError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(vec![text.to_string()])),
            Some(DeValue::Array(items)) => items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) => Ok(text.to_string()),
                    other => Err(self.expected(key, "an array of strings", other)),
                })
                .collect::<Result<Vec<_>, _>>()
                .map(Some),
            Some(other) => Err(self.expected(key, "a string or an array of strings", other)),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, FieldError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Boolean(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.expected(key, "true or false", other)),
        }
    }

    pub(super) fn priority(&self, default: Option<u16>) -> Result<u16, FieldError> {
        let found = match (self.get("priority").map(Spanned::get_ref), default) {
            (None, Some(default)) => return Ok(default),
            (None, None) => return Err(self.schema("priority", "Required")),
            (Some(value), _) => value,
        };
        let DeValue::Integer(number) = found else {
            return Err(self.expected("priority", "a whole number from 0 to 999", found));
        };
        i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .and_then(|number| u16::try_from(number).ok())
            .filter(|number| *number <= 999)
            .ok_or_else(|| self.schema("priority", "expected a whole number from 0 to 999"))
    }

    pub(super) fn modes(&self) -> Result<Modes, FieldError> {
        let mut modes = Modes::UNSAID;
        for word in self.texts("modes")?.unwrap_or_default() {
            let mode: ApprovalMode = word.parse().map_err(|_| {
                self.schema("modes", &format!("expected default, autoEdit, yolo or plan, got `{word}`"))
            })?;
            modes = modes.with(mode);
        }
        Ok(modes)
    }

    pub(super) fn annotations(&self) -> Result<Vec<(String, Value)>, FieldError> {
        match self.get("toolAnnotations").map(Spanned::get_ref) {
            None => Ok(Vec::new()),
            Some(DeValue::Table(table)) => Ok(table
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())))
                .collect()),
            Some(other) => Err(self.expected("toolAnnotations", "a table", other)),
        }
    }

    pub(super) fn table(&self, key: &'static str) -> Result<Option<Fields<'a>>, FieldError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.get_ref() {
            DeValue::Table(table) => Ok(Some(Fields {
                table,
                lines: self.lines,
                line: self.lines.line(value.span().start),
                prefix: "checker.",
            })),
            other => Err(self.expected(key, "a table", other)),
        }
    }

    pub(super) fn json(&self, key: &str) -> Result<Option<Value>, FieldError> {
        Ok(self.get(key).map(|value| json(value.get_ref())))
    }
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Datetime(moment) => Value::from(moment.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect()
        }
    }
}

fn snake_case(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
