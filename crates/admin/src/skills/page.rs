//! What `pollux skills` prints. The texts of lists are upstream's.

use serde_json::{Value, json};

use super::{Checked, Row};

pub fn list(rows: &[Row], all: bool, descriptions: bool) -> String {
    let rows = shown(rows, all);
    if rows.is_empty() {
        return "No skills discovered.\n".to_owned();
    }
    let blocks =
        rows.into_iter().map(|row| if descriptions { block(row) } else { format!("{}\n", title(row)) });
    format!("Discovered Agent Skills:\n\n{}", blocks.collect::<String>())
}

/// By name, those of the program last and only if they are asked for.
fn shown(rows: &[Row], all: bool) -> Vec<&Row> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| all || !row.is_built_in()).collect();
    rows.sort_by_key(|row| (row.is_built_in(), row.name.to_lowercase()));
    rows
}

fn title(row: &Row) -> String {
    let state = if row.enabled { "[Enabled]" } else { "[Disabled]" };
    let built_in = if row.is_built_in() { " [Built-in]" } else { "" };
    format!("{} {state}{built_in}", row.name)
}

fn block(row: &Row) -> String {
    format!("{}\n  Description: {}\n  Location:    {}\n\n", title(row), row.description, row.location)
}

pub(super) fn show(row: &Row, body: &str) -> String {
    format!("{}{body}\n", block(row))
}

/// What looking anew found.
pub fn change(added: usize, removed: usize) -> String {
    let skills = |count: usize| if count == 1 { "skill" } else { "skills" };
    let mut details = Vec::new();
    if added > 0 {
        details.push(format!("{added} newly available {}", skills(added)));
    }
    if removed > 0 {
        details.push(format!("{removed} {} no longer available", skills(removed)));
    }
    let details = if details.is_empty() { String::new() } else { format!(" {}.", details.join(" and ")) };
    format!("Agent skills reloaded successfully.{details}\n")
}

pub(super) fn list_json(rows: &[Row], all: bool) -> Value {
    shown(rows, all).into_iter().map(row_json).collect()
}

pub(super) fn show_json(row: &Row, body: &str) -> Value {
    let mut value = row_json(row);
    value["body"] = body.into();
    value
}

fn row_json(row: &Row) -> Value {
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
