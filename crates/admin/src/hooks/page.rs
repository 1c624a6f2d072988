//! `pollux hooks list`.

use serde_json::{Value, json};

use super::{HookRow, HookSet};

pub(super) fn text(hooks: &HookSet) -> String {
    let rows = hooks.rows();
    if rows.is_empty() {
        // Upstream's words.
        return "No hooks configured.\n".to_owned();
    }
    let mut text = String::new();
    if !hooks.is_enabled() {
        text.push_str("Hooks are disabled (`hooksConfig.enabled`).\n\n");
    }
    let mut events: Vec<&str> = Vec::new();
    for row in &rows {
        if !events.contains(&row.event) {
            events.push(row.event);
        }
    }
    for event in events {
        text.push_str(&format!("{event}\n"));
        for row in rows.iter().filter(|row| row.event == event) {
            text.push_str(&entry(row));
        }
    }
    text
}

fn entry(row: &HookRow) -> String {
    let state = if row.enabled { "enabled" } else { "disabled" };
    let title = row.name.as_deref().unwrap_or(&row.command);
    let mut text = format!("  {title} [{state}]\n");
    if let Some(description) = &row.description {
        text.push_str(&format!("    {description}\n"));
    }
    let mut facts = vec![format!("Source: {}", row.source), format!("Command: {}", row.command)];
    facts.extend(row.matcher.as_ref().map(|matcher| format!("Matcher: {matcher}")));
    facts.extend(row.sequential.then(|| "Sequential".to_owned()));
    facts.extend(row.required.then(|| "Required".to_owned()));
    facts.push(format!("Timeout: {} ms", row.timeout_ms));
    text.push_str(&format!("    {}\n    {}: {}\n", facts.join(" | "), row.file, row.key));
    text
}

pub(super) fn json(hooks: &HookSet) -> Value {
    let rows: Vec<Value> = hooks.rows().iter().map(object).collect();
    json!({"enabled": hooks.is_enabled(), "hooks": rows, "problems": hooks.problems()})
}

fn object(row: &HookRow) -> Value {
    json!({
        "event": row.event,
        "name": row.name,
        "command": row.command,
        "source": row.source,
        "matcher": row.matcher,
        "sequential": row.sequential,
        "required": row.required,
        "timeout": u64::try_from(row.timeout_ms).unwrap_or(u64::MAX),
        "description": row.description,
        "enabled": row.enabled,
        "file": row.file,
        "key": row.key,
    })
}
