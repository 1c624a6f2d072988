//! Settings as a list, for display.

use serde_json::{Map, Value};

use super::origin::Origin;
use super::{Settings, lookup, schema};

/// What a secret looks like.
const MASK: &str = "***";

/// Names whose values are secrets wherever they stand.
const SECRET_NAMES: &[&str] =
    &["apikey", "token", "secret", "password", "credential", "authorization", "clientsecret"];

/// Objects all of whose values may be secrets.
pub const SECRET_OBJECTS: &[&str] = &["env", "headers"];

/// One key.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingRow {
    pub key: String,
    /// `null` when the key is unset; secrets are masked.
    pub value: Value,
    pub origin: Origin,
    pub secret: bool,
}

impl Settings {
    /// Every known key and every unknown one that a file has, sorted.
    pub fn rows(&self) -> Vec<SettingRow> {
        let Value::Object(effective) = &self.effective else { return Vec::new() };
        let mut rows: Vec<SettingRow> = schema::KEYS
            .iter()
            .map(|key| {
                let value = lookup(effective, key.path).unwrap_or(&Value::Null);
                self.row(key.path.to_owned(), value, key.secret)
            })
            .collect();
        self.unknown("", effective, &mut rows);
        rows.sort_by(|one, other| one.key.cmp(&other.key));
        rows
    }

    fn unknown(&self, path: &str, map: &Map<String, Value>, rows: &mut Vec<SettingRow>) {
        for (name, value) in map {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match value {
                _ if schema::find(&path).is_some() => {}
                Value::Object(inner) if !schema::below(&path).is_empty() => self.unknown(&path, inner, rows),
                value => rows.push(self.row(path, value, false)),
            }
        }
    }

    fn row(&self, key: String, value: &Value, secret: bool) -> SettingRow {
        let value = if secret && !value.is_null() { Value::from(MASK) } else { masked(&key, value) };
        SettingRow { origin: self.origin(&key).clone(), key, value, secret }
    }
}

/// A value with the secrets in it masked.
pub(crate) fn masked(key: &str, value: &Value) -> Value {
    if !value.is_null() && schema::covering(key).is_some_and(|key| key.secret) {
        return Value::from(MASK);
    }
    let name = key.rsplit('.').next().unwrap_or_default();
    match value {
        Value::Object(map) => {
            let all = SECRET_OBJECTS.contains(&name);
            let mask = |(name, value): (&String, &Value)| {
                let hidden = all && !value.is_object();
                (name.clone(), if hidden { Value::from(MASK) } else { masked(name, value) })
            };
            Value::Object(map.iter().map(mask).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| masked(key, item)).collect()),
        Value::String(_) if is_secret_name(name) => Value::from(MASK),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

pub(super) fn is_secret_name(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let plain = plain.to_lowercase();
    SECRET_NAMES.iter().any(|secret| plain.ends_with(secret))
}
