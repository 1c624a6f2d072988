//! Expires the sessions of hooks.

use pollux_domain::JsonObject;
use pollux_domain::time::Timestamp;
use serde_json::Value;

use crate::session_key::is_hook;

const MAX_AGE_MS: i64 = 48 * 60 * 60 * 1000;
const MAX_COUNT: usize = 500;

/// Drops what is too old or too many; no other key is touched. Returns what was dropped.
pub(super) fn hook_sessions(store: &mut JsonObject, now: Timestamp) -> Vec<Value> {
    let mut hooks: Vec<(String, i64)> = store
        .iter()
        .filter(|(key, _)| is_hook(key))
        .map(|(key, entry)| {
            (key.clone(), entry.get("updatedAt").and_then(Value::as_f64).unwrap_or(0.0) as i64)
        })
        .collect();
    // Newest first, so that what is too many is at the end.
    hooks.sort_by_key(|(_, updated)| std::cmp::Reverse(*updated));
    let outdated =
        |index: usize, updated: i64| index >= MAX_COUNT || now.millis().saturating_sub(updated) > MAX_AGE_MS;
    let dropped = hooks.into_iter().enumerate().filter(|(index, (_, updated))| outdated(*index, *updated));
    dropped.filter_map(|(_, (key, _))| store.shift_remove(&key)).collect()
}
