//! Removes secrets from what is written and sent: known ones, and whatever looks like one.

use pollux_config::groups::Secret;
use pollux_domain::JsonObject;
use pollux_domain::redact::{MASK, redact_value, redacted};
use pollux_domain::terminal_text;
use serde_json::Value;

/// Shorter values are not keys, and replacing them would damage ordinary text.
const MIN_SECRET: usize = 8;

/// What must not reach a record, whatever text it is part of.
#[derive(Clone)]
pub(super) struct Cleaner {
    /// Each as it is, and as JSON escapes it.
    secrets: Vec<String>,
}

impl Cleaner {
    pub(super) fn new(secrets: &[Secret]) -> Self {
        let forms = secrets.iter().flat_map(|secret| {
            let escaped = Value::from(secret.reveal()).to_string();
            let escaped =
                escaped.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map(str::to_owned);
            [Some(secret.reveal().to_owned()), escaped]
        });
        let mut secrets: Vec<String> = forms.flatten().filter(|form| form.len() >= MIN_SECRET).collect();
        secrets.sort_unstable();
        secrets.dedup();
        // The longest first: one may be part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    /// A record as a JSON document.
    pub(super) fn document(&self, mut record: Value, in_lines: bool) -> String {
        redact_value(&mut record);
        let text = if in_lines { format!("{record}\n") } else { format!("{record:#}\n") };
        let mut text = terminal_text::json(text);
        self.remove_secrets(&mut text);
        text
    }

    pub(super) fn text(&self, text: &mut String) {
        if let std::borrow::Cow::Owned(clean) = redacted(text) {
            *text = clean;
        }
        self.remove_secrets(text);
    }

    pub(super) fn attributes(&self, attributes: &mut JsonObject) {
        let mut value = Value::Object(std::mem::take(attributes));
        redact_value(&mut value);
        self.remove_from(&mut value);
        if let Value::Object(clean) = value {
            *attributes = clean;
        }
    }

    fn remove_from(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.remove_secrets(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.remove_from(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.remove_from(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn remove_secrets(&self, text: &mut String) {
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), MASK);
            }
        }
    }
}
