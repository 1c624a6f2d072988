//! Objects in which upstream knows every key.

use serde_json::{Map, Value};

use super::Issue;
use crate::settings::schema::Key;

/// What an entry of `mcpServers` may say.
pub const MCP_SERVER_KEYS: &[&str] = &[
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "type",
    "httpUrl",
    "tcp",
    "headers",
    "timeout",
    "trust",
    "description",
    "includeTools",
    "excludeTools",
    "oauth",
    "authProviderType",
    "targetAudience",
    "targetServiceAccount",
    "extension",
];
const AGENT_OVERRIDE: &[&str] = &["enabled", "modelConfig", "runConfig", "tools", "mcpServers"];
const SUMMARY: &[&str] = &["tokenBudget"];
const BUG_COMMAND: &[&str] = &["urlTemplate"];
/// `type` is the older name of `command`.
const SANDBOX: &[&str] =
    &["enabled", "command", "type", "image", "imageArchive", "scope", "allowedPaths", "networkAccess"];

/// Keys that mean nothing in a value that otherwise fits.
pub(super) fn unknown_keys(key: &Key, value: &Value) -> Vec<Issue> {
    let Value::Object(map) = value else { return Vec::new() };
    match key.path {
        "mcpServers" => in_entries(map, MCP_SERVER_KEYS),
        "agents.overrides" => in_entries(map, AGENT_OVERRIDE),
        "model.summarizeToolOutput" => in_entries(map, SUMMARY),
        "advanced.bugCommand" => in_object(map, BUG_COMMAND, "").into_iter().collect(),
        "tools.sandbox" => in_object(map, SANDBOX, "").into_iter().collect(),
        _ => Vec::new(),
    }
}

fn in_entries(map: &Map<String, Value>, known: &[&str]) -> Vec<Issue> {
    let entries = map.iter().filter_map(|(name, entry)| Some((name, entry.as_object()?)));
    entries.filter_map(|(name, entry)| in_object(entry, known, &format!(".{name}"))).collect()
}

fn in_object(map: &Map<String, Value>, known: &[&str], below: &str) -> Option<Issue> {
    let unknown: Vec<String> =
        map.keys().filter(|name| !known.contains(&name.as_str())).map(|name| format!("'{name}'")).collect();
    (!unknown.is_empty()).then(|| Issue {
        below: below.to_owned(),
        message: format!("Unrecognized key(s) in object: {}", unknown.join(", ")),
        expected: None,
        received: None,
    })
}
