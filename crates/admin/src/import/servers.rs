//! Converts entries of MCP servers. Values may be secrets, so errors never contain them.

use pollux_domain::JsonObject;
use pollux_mcp::ServerConfig;
use serde_json::{Map, Value, json};

use super::plan::{Collector, ImportChange, ImportKind};

/// Keys of Claude Code that mean the same here.
const CLAUDE_KEYS: &[&str] = &["type", "command", "args", "env", "url", "headers", "timeout"];
/// Keys of Codex that are converted or have no effect on the connection.
const CODEX_KEYS: &[&str] = &[
    "command",
    "args",
    "env",
    "env_vars",
    "cwd",
    "url",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "enabled",
    "enabled_tools",
    "disabled_tools",
    "required",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "supports_parallel_tool_calls",
    "tool_timeout_sec",
];

/// Collects the servers of an `mcpServers` object of Claude Code.
pub(super) fn from_claude(servers: &JsonObject, out: &mut Collector<'_>) {
    for (name, entry) in servers {
        add(name, claude_entry(entry), out);
    }
}

/// Collects the servers of the `mcp_servers` table of Codex.
pub(super) fn from_codex(servers: &JsonObject, out: &mut Collector<'_>) {
    for (name, entry) in servers {
        add(name, codex_entry(entry), out);
    }
}

fn add(name: &str, entry: Result<(Value, Option<String>), String>, out: &mut Collector<'_>) {
    let checked = entry.and_then(|(entry, note)| match ServerConfig::parse(name, &entry) {
        Ok(_) => Ok((entry, note)),
        // The error may quote a URL with a token in it.
        Err(_) => Err("the entry is not valid".to_owned()),
    });
    match checked {
        Ok((value, note)) => {
            let path = vec!["mcpServers".to_owned(), name.to_owned()];
            out.ready_with_note(ImportKind::Server, name, note, ImportChange::SetKey { path, value });
        }
        Err(reason) => out.skipped(ImportKind::Server, name, reason),
    }
}

fn claude_entry(entry: &Value) -> Result<(Value, Option<String>), String> {
    let fields = entry.as_object().ok_or("the entry is not an object")?;
    if let Some(key) = fields.keys().find(|key| !CLAUDE_KEYS.contains(&key.as_str())) {
        return Err(format!("`{key}` has no equivalent"));
    }
    // Claude Code expands `${NAME}` only; here `$NAME` is a reference, too.
    if has_bare_reference(entry) {
        return Err("a value contains a `$`, which would be read as a variable".to_owned());
    }
    let mut fields = fields.clone();
    if fields.get("type").is_some_and(|kind| kind == "stdio") {
        fields.shift_remove("type");
    }
    Ok((Value::Object(fields), None))
}

fn codex_entry(entry: &Value) -> Result<(Value, Option<String>), String> {
    let fields = entry.as_object().ok_or("the entry is not a table")?;
    if fields.get("enabled") == Some(&Value::Bool(false)) {
        return Err("disabled".to_owned());
    }
    if let Some(key) = fields.keys().find(|key| !CODEX_KEYS.contains(&key.as_str())) {
        return Err(format!("`{key}` has no equivalent"));
    }
    if ["command", "args", "env", "cwd", "url", "http_headers"]
        .iter()
        .filter_map(|key| fields.get(*key))
        .any(has_dollar)
    {
        return Err("a value contains a `$`, which would be read as a variable".to_owned());
    }
    let mut converted = Map::new();
    for (theirs, ours) in [
        ("command", "command"),
        ("args", "args"),
        ("env", "env"),
        ("cwd", "cwd"),
        ("url", "url"),
        ("http_headers", "headers"),
        ("enabled_tools", "includeTools"),
        ("disabled_tools", "excludeTools"),
    ] {
        if let Some(value) = fields.get(theirs) {
            converted.insert(ours.to_owned(), value.clone());
        }
    }
    if fields.contains_key("url") {
        converted.insert("type".to_owned(), json!("http"));
    }
    for name in fields.get("env_vars").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str().ok_or("`env_vars` with sources has no equivalent")?;
        into(&mut converted, "env", name, &format!("${name}"))?;
    }
    for (header, variable) in fields.get("env_http_headers").and_then(Value::as_object).into_iter().flatten()
    {
        let variable = variable.as_str().ok_or("`env_http_headers` is not valid")?;
        into(&mut converted, "headers", header, &format!("${variable}"))?;
    }
    if let Some(variable) = fields.get("bearer_token_env_var").and_then(Value::as_str) {
        into(&mut converted, "headers", "Authorization", &format!("Bearer ${variable}"))?;
    }
    if let Some(seconds) = fields.get("tool_timeout_sec").and_then(Value::as_f64)
        && let Ok(time) = std::time::Duration::try_from_secs_f64(seconds)
    {
        converted.insert("timeout".to_owned(), json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
    }
    let lost: Vec<String> = ["startup_timeout_sec", "startup_timeout_ms", "required"]
        .iter()
        .filter(|key| fields.contains_key(**key))
        .map(|key| format!("`{key}`"))
        .collect();
    let note = (!lost.is_empty()).then(|| format!("without {}", lost.join(" and ")));
    Ok((Value::Object(converted), note))
}

/// Adds a reference to a variable to an object of the entry.
fn into(entry: &mut Map<String, Value>, key: &str, name: &str, value: &str) -> Result<(), String> {
    let object = entry.entry(key).or_insert_with(|| json!({}));
    let object = object.as_object_mut().ok_or_else(|| format!("`{key}` is not a table"))?;
    object.entry(name).or_insert_with(|| json!(value));
    Ok(())
}

fn any_text(value: &Value, test: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, test)),
        Value::Object(fields) => fields.values().any(|item| any_text(item, test)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn has_dollar(value: &Value) -> bool {
    any_text(value, &|text| text.contains('$'))
}

fn has_bare_reference(value: &Value) -> bool {
    any_text(value, &|text| text.split('$').skip(1).any(|after| !after.starts_with('{')))
}
