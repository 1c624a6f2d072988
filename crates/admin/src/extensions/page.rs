//! The list of extensions, for people and for programs.

use serde_json::{Map, Value, json};

use super::{ExtensionRow, setting_json};

/// Upstream's blocks.
pub(super) fn text(rows: &[ExtensionRow]) -> String {
    if rows.is_empty() {
        return "No extensions installed.\n".to_owned();
    }
    rows.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(row: &ExtensionRow) -> String {
    let mark = if row.enabled_here { '✓' } else { '✗' };
    let mut text = format!("{mark} {} ({})\n", row.name, row.version);
    let mut line = |title: &str, value: &str| text.push_str(&format!(" {title}: {value}\n"));
    line("ID", &row.id);
    line("name", &row.name_hash);
    line("Path", &row.path);
    if let Some(origin) = &row.origin {
        let word = |key: &str| origin.get(key).and_then(Value::as_str);
        line(
            "Source",
            &format!("{} (Type: {})", word("source").unwrap_or_default(), word("type").unwrap_or_default()),
        );
        [("Ref", "ref"), ("Release tag", "releaseTag")]
            .iter()
            .filter_map(|(title, key)| Some((title, word(key)?)))
            .for_each(|(title, value)| line(title, value));
    }
    if row.of_project {
        line("Source", "this project's .gemini/extensions");
    }
    line("Enabled (User)", &row.enabled_for_user.to_string());
    line("Enabled (Workspace)", &row.enabled_here.to_string());
    let mut items = |title: &str, items: Vec<String>| {
        if !items.is_empty() {
            text.push_str(&format!(" {title}:\n"));
            items.iter().for_each(|item| text.push_str(&format!("  {item}\n")));
        }
    };
    items("Context files", row.context_files.clone());
    items("MCP servers", row.servers.iter().map(|(name, _)| name.clone()).collect());
    items("Excluded tools", row.excluded_tools.clone());
    items("Agent skills", row.skills.iter().map(|(name, about)| format!("{name}: {about}")).collect());
    let settings = row.settings.iter().map(|setting| {
        let value = match (&setting.value, setting.sensitive) {
            (None, _) => "[not set]",
            (Some(_), true) => "***",
            (Some(value), false) => value,
        };
        let place = setting.place.as_ref().map(|(scope, source)| format!(" ({scope} - {source})"));
        format!("{}: {value}{}", setting.name, place.unwrap_or_default())
    });
    items("Settings", settings.collect());
    text
}

/// What `--list-extensions` prints.
pub(super) fn names(names: &[(String, String)]) -> String {
    if names.is_empty() {
        return "No extensions installed.\n".to_owned();
    }
    let lines: String = names.iter().map(|(name, _)| format!("- {name}\n")).collect();
    format!("Installed extensions:\n{lines}")
}

pub(super) fn updated(name: &str, from: &str, to: &str) -> String {
    format!("Extension \"{name}\" successfully updated: {from} → {to}.\n")
}

/// Upstream's keys.
pub(super) fn json(rows: &[ExtensionRow]) -> Value {
    rows.iter()
        .map(|row| {
            let servers: Map<String, Value> = row.servers.iter().cloned().collect();
            let skills: Vec<Value> =
                row.skills.iter().map(|(name, about)| json!({"name": name, "description": about})).collect();
            json!({
                "name": row.name,
                "version": row.version,
                "description": row.description,
                "path": row.path,
                "contextFiles": row.context_files,
                "installMetadata": row.origin,
                "mcpServers": servers,
                "excludeTools": row.excluded_tools,
                "isActive": row.active,
                "enabled": {"user": row.enabled_for_user, "workspace": row.enabled_here},
                "id": row.id,
                "resolvedSettings": row.settings.iter().map(setting_json).collect::<Vec<_>>(),
                "skills": skills,
            })
        })
        .collect()
}
