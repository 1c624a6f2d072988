//! `pollux agents list` and `show`.

use pollux_host::agents::first_line;
use serde_json::{Value, json};

use super::AgentRow;

pub(super) fn text(rows: &[AgentRow], is_on: bool) -> String {
    let mut text = String::new();
    if !is_on {
        text.push_str("Sub-agents are disabled (`experimental.enableAgents`).\n\n");
    }
    for (title, remote) in [("Local agents:", false), ("Remote agents:", true)] {
        let rows: Vec<&AgentRow> = rows.iter().filter(|row| row.is_remote == remote).collect();
        if rows.is_empty() {
            continue;
        }
        text.push_str(&format!("{title}\n\n"));
        rows.iter().for_each(|row| text.push_str(&entry(row)));
    }
    text
}

fn entry(row: &AgentRow) -> String {
    let mut text = format!("{}{}\n", row.name, marks(row));
    text.push_str(&format!("  Description: {}\n", first_line(&row.description)));
    if let Some(path) = &row.path {
        text.push_str(&format!("  Location:    {path}\n"));
    }
    text.push('\n');
    text
}

fn marks(row: &AgentRow) -> String {
    let status = match row.status {
        "enabled" => "[Enabled]",
        "disabled" => "[Disabled]",
        _ => "[Needs approval]",
    };
    let origin = match row.origin.as_str() {
        "built-in" => " [Built-in]".to_owned(),
        other => format!(" [{other}]"),
    };
    format!(" {status}{origin}")
}

pub(super) fn whole(row: &AgentRow, prompt: &str) -> String {
    let mut text = format!("{}{}\n  Name:        {}\n", row.name, marks(row), row.title);
    text.push_str(&format!("  Description: {}\n", first_line(&row.description)));
    if let Some(path) = &row.path {
        text.push_str(&format!("  Location:    {path}\n"));
    }
    for (key, label) in [
        ("model", "Model"),
        ("temperature", "Temperature"),
        ("tools", "Tools"),
        ("mcpServers", "MCP servers"),
        ("maxTurns", "Turns"),
        ("timeoutSeconds", "Time"),
        ("card", "Card"),
        ("auth", "Signs in by"),
        ("inputs", "Inputs"),
        ("output", "Output"),
        ("prompt", "Prompt"),
    ] {
        if let Some(value) = row.details.get(key) {
            text.push_str(&format!("  {:<13}{}\n", format!("{label}:"), shown(key, value)));
        }
    }
    if !prompt.is_empty() {
        text.push_str(&format!("\n{prompt}\n"));
    }
    text
}

fn shown(key: &str, value: &Value) -> String {
    match (key, value) {
        ("timeoutSeconds", value) => format!("{value} s"),
        ("tools", Value::Array(items)) if items.iter().any(|item| item == "*") => {
            "all tools of the main agent".to_owned()
        }
        ("tools" | "mcpServers", Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        ("inputs", value) => inputs(value),
        ("output", value) => {
            let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
            format!("{name}: {}", value.get("schema").unwrap_or(&Value::Null))
        }
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

fn inputs(schema: &Value) -> String {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let names =
        schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|fields| fields.keys());
    let marked =
        names.map(|name| if required.contains(&name.as_str()) { format!("{name}*") } else { name.clone() });
    marked.collect::<Vec<_>>().join(", ")
}

pub(super) fn json(rows: &[AgentRow], is_on: bool, problems: &[String]) -> Value {
    let rows: Vec<Value> = rows.iter().map(object).collect();
    json!({"enabled": is_on, "agents": rows, "problems": problems})
}

pub(super) fn whole_json(row: &AgentRow, prompt: &str) -> Value {
    let mut value = object(row);
    if let (Some(fields), false) = (value.as_object_mut(), prompt.is_empty()) {
        fields.insert("systemPrompt".into(), json!(prompt));
    }
    value
}

fn object(row: &AgentRow) -> Value {
    let mut value = json!({
        "name": row.name,
        "displayName": row.title,
        "description": row.description,
        "kind": if row.is_remote { "remote" } else { "local" },
        "source": row.origin,
        "path": row.path,
        "status": row.status,
    });
    if let Some(fields) = value.as_object_mut() {
        fields.extend(row.details.clone());
    }
    value
}
