//! The storable form of a file: secrets are replaced by short hashes.

use std::path::Path;

use serde_json::Value;

use crate::paths::sha256_hex;
use crate::settings::SECRET_OBJECTS;
use crate::{dotenv, jsonc};

/// Ends of key names that hold a secret.
const SECRET_NAMES: &[&str] =
    &["key", "token", "secret", "password", "passwd", "authorization", "credentials"];

/// A line for each variable of a `.env` file. The folder is part of the hash, so that equal values in two
/// folders do not show.
pub(super) fn variables(text: &str, folder: &Path) -> String {
    let lines = dotenv::parse(text).into_iter().map(|set| {
        let secret = format!("{}\0{}\0{}", folder.display(), set.name, set.value);
        format!("{}={}\n", set.name, hidden(&secret))
    });
    lines.collect()
}

/// A JSON file re-serialised without comments and secrets; `None` if it is not JSON.
pub(super) fn json(text: &str) -> Option<String> {
    let value = jsonc::parse(text).ok()?.value;
    Some(format!("{:#}\n", masked("", &value)))
}

/// A value with hashes in the place of secrets.
pub(super) fn masked(key: &str, value: &Value) -> Value {
    let lower = key.to_lowercase();
    let secret = SECRET_NAMES.iter().any(|name| lower.ends_with(name));
    match value {
        Value::String(text) if secret => Value::from(hidden(text)),
        Value::Object(map) => {
            let all = SECRET_OBJECTS.contains(&lower.as_str());
            let pairs = map.iter().map(|(name, value)| {
                let shown = match value {
                    Value::String(text) if all => Value::from(hidden(text)),
                    other => masked(name, other),
                };
                (name.clone(), shown)
            });
            Value::Object(pairs.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| masked(key, item)).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn hidden(secret: &str) -> String {
    let hash: String = sha256_hex(secret.as_bytes()).chars().take(16).collect();
    format!("(hidden, {hash})")
}
