//! What `pollux skills` prints. The texts of lists are upstream's.

use serde_json::{Value, json};

use pollux_host::skills::{SkillRow, block, shown};

use super::Checked;

pub(super) fn show(row: &SkillRow, body: &str) -> String {
    format!("{}{body}\n", block(row))
}

pub(super) fn list_json(rows: &[SkillRow], all: bool) -> Value {
    shown(rows, all).into_iter().map(row_json).collect()
}

pub(super) fn show_json(row: &SkillRow, body: &str) -> Value {
    let mut value = row_json(row);
    value["body"] = body.into();
    value
}

fn row_json(row: &SkillRow) -> Value {
    let mut value = json!({
        "name": row.name,
        "description": row.description,
        "location": row.location,
        "origin": row.origin,
        "enabled": row.enabled,
    });
    if let Some(extension) = &row.extension {
        value["extension"] = extension.as_str().into();
    }
    value
}

pub(super) fn validation(path: &str, checked: &Checked) -> String {
    let mut text = if checked.errors.is_empty() {
        format!("Valid skill: {path}\n")
    } else {
        format!("Validation failed for {path}:\n")
    };
    checked.errors.iter().for_each(|error| text.push_str(&format!("  - {error}\n")));
    checked.advice.iter().for_each(|advice| text.push_str(&format!("  advice: {advice}\n")));
    text
}

pub(super) fn validation_json(path: &str, checked: &Checked) -> Value {
    json!({"path": path, "valid": checked.errors.is_empty(), "errors": checked.errors, "advice": checked.advice})
}
