//! Validates a folder against the public Agent Skills specification.

use std::path::Path;

use pollux_domain::JsonObject;
use serde_json::Value;

use super::{FILE, MAX_FILE};
use crate::frontmatter::{self, FrontMatterError};

/// The keys that the specification knows.
const KEYS: &[&str] = &["name", "description", "license", "allowed-tools", "metadata", "compatibility"];
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const MAX_COMPATIBILITY: usize = 500;
/// Longer instructions crowd out the task; separate reference files are opened when they are needed.
const ADVISED_LINES: usize = 500;

/// The result for one folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validation {
    /// Violations of the specification.
    pub errors: Vec<String>,
    /// Deviations from its recommendations.
    pub advice: Vec<String>,
}

impl Validation {
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn error(mut self, text: impl Into<String>) -> Self {
        self.errors.push(text.into());
        self
    }
}

/// Validates one skill: its folder, or the `SKILL.md` in it.
pub fn validate(path: &Path) -> Validation {
    let found = Validation::default();
    let folder =
        if path.file_name().is_some_and(|name| name == FILE) { path.parent().unwrap_or(path) } else { path };
    if !folder.exists() {
        return found.error(format!("`{}` does not exist", folder.display()));
    }
    if !folder.is_dir() {
        return found.error(format!("`{}` is not a folder", folder.display()));
    }
    let file = folder.join(FILE);
    if !file.exists() {
        return found.error(format!("no {FILE} in `{}`", folder.display()));
    }
    let text = match frontmatter::read_whole(&file, MAX_FILE) {
        Ok(text) => text,
        Err(error) => return found.error(format!("{FILE} {error}")),
    };
    let Some((front, body)) = frontmatter::split(&text) else {
        return found.error(format!("{FILE} must begin with front matter between two `---` lines"));
    };
    let keys: JsonObject = match frontmatter::parse(front) {
        Ok(keys) => keys,
        Err(error) => {
            let mut found = found.error(error.to_string());
            if matches!(error, FrontMatterError::Invalid(_)) {
                found.advice.push("quote values that contain `: ` or ` #`".to_owned());
            }
            return found;
        }
    };
    // `.` has no name.
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let folder_name = real.file_name().map(|name| name.to_string_lossy().into_owned());
    Validation { errors: errors(&keys, folder_name.as_deref()), advice: advice(body) }
}

fn errors(keys: &JsonObject, folder: Option<&str>) -> Vec<String> {
    let mut errors = Vec::new();
    let unknown: Vec<&str> = keys.keys().map(String::as_str).filter(|key| !KEYS.contains(key)).collect();
    if !unknown.is_empty() {
        errors.push(format!(
            "unknown keys in the front matter: {} (expected {}; put others under `metadata`)",
            unknown.join(", "),
            KEYS.join(", ")
        ));
    }
    match keys.get("name") {
        None => errors.push("missing `name` in the front matter".to_owned()),
        Some(value) => match text(value) {
            Some(name) if !name.trim().is_empty() => name_errors(name.trim(), folder, &mut errors),
            _ => errors.push("`name` must be a non-empty string".to_owned()),
        },
    }
    match keys.get("description") {
        None => errors.push("missing `description` in the front matter".to_owned()),
        Some(value) => match text(value) {
            Some(text) if !text.trim().is_empty() => {
                too_long("description", &text, MAX_DESCRIPTION, &mut errors)
            }
            _ => errors.push("`description` must be a non-empty string".to_owned()),
        },
    }
    if let Some(value) = keys.get("compatibility") {
        match text(value) {
            Some(text) => too_long("compatibility", &text, MAX_COMPATIBILITY, &mut errors),
            None => errors.push("`compatibility` must be a string".to_owned()),
        }
    }
    for key in ["license", "allowed-tools"] {
        if keys.get(key).is_some_and(|value| text(value).is_none()) {
            errors.push(format!("`{key}` must be a string (separate several tools with spaces)"));
        }
    }
    let flat =
        |value: &Value| value.as_object().is_some_and(|map| map.values().all(|value| text(value).is_some()));
    if keys.get("metadata").is_some_and(|value| !flat(value)) {
        errors.push("`metadata` must be a mapping of strings".to_owned());
    }
    errors
}

fn name_errors(name: &str, folder: Option<&str>, errors: &mut Vec<String>) {
    let shown = name.escape_debug();
    too_long("name", name, MAX_NAME, errors);
    if name != name.to_lowercase() {
        errors.push(format!("the name `{shown}` must be lower case"));
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push(format!("the name `{shown}` must not begin or end with a hyphen"));
    }
    if name.contains("--") {
        errors.push(format!("the name `{shown}` must not contain two hyphens in a row"));
    }
    if !name.chars().all(|c| c.is_alphanumeric() || c == '-') {
        errors.push(format!("the name `{shown}` must contain only letters, digits and hyphens"));
    }
    if let Some(folder) = folder.filter(|folder| *folder != name) {
        errors.push(format!(
            "the folder `{}` must have the same name as the skill, `{shown}`",
            folder.escape_debug()
        ));
    }
}

fn too_long(key: &str, text: &str, limit: usize, errors: &mut Vec<String>) {
    let length = text.chars().count();
    if length > limit {
        errors.push(format!("`{key}` has {length} characters (limit {limit})"));
    }
}

/// Every plain value is a text, whatever it looks like.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn advice(body: &str) -> Vec<String> {
    let mut advice = Vec::new();
    let lines = body.lines().count();
    if body.trim().is_empty() {
        advice.push("no instructions after the front matter".to_owned());
    }
    if lines > ADVISED_LINES {
        advice.push(format!(
            "the instructions have {lines} lines; keep them below {ADVISED_LINES} and move details into separate files"
        ));
    }
    advice
}
