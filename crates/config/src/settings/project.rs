//! What a project's settings file may not do, however much the folder is trusted.
//!
//! Whoever may commit to a repository must not be able to redirect where prompts and keys go, or to
//! take away a protection that the user chose.

use serde_json::{Map, Value};

use super::defect::{SettingsWarning, WarningKind};
use super::layers::LayerValues;
use super::lookup;

/// Keys and containers a project cannot set at all.
const NEVER: &[&str] = &[
    "adminPolicyPaths",
    "api",
    "experimental.gemmaModelRouter",
    // It would stand in the place of the user's own rules.
    "policyPaths",
    "security.auth",
    "security.folderTrust",
    "telemetry",
];

/// Switches a project can turn on but not off.
const ONLY_ON: &[&str] = &[
    "security.blockGitExtensions",
    "security.disableAlwaysAllow",
    "security.disableYoloMode",
    "security.environmentVariableRedaction.enabled",
    "security.protectBuildFiles",
    "security.toolSandboxing",
];

/// Removes those values from a project's layer and returns them by dotted path.
pub(crate) fn withhold(values: &mut Map<String, Value>) -> Vec<(String, Value)> {
    let mut withheld = Vec::new();
    for path in NEVER {
        if let Some(value) = remove(values, path) {
            leaves(path, value, &mut withheld);
        }
    }
    for path in ONLY_ON {
        let off = |value: &Value| match value {
            Value::Bool(on) => !on,
            Value::String(text) => !text.eq_ignore_ascii_case("true"),
            Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
        };
        if lookup(values, path).is_some_and(off)
            && let Some(value) = remove(values, path)
        {
            withheld.push(((*path).to_owned(), value));
        }
    }
    withheld
}

/// Warns about withheld values that would have changed something.
pub(crate) fn report(
    withheld: Vec<(String, Value)>,
    layer: &LayerValues,
    effective: &Map<String, Value>,
    warnings: &mut Vec<SettingsWarning>,
) {
    for (path, value) in withheld {
        if lookup(effective, &path) != Some(&value) {
            let message = "ignored: a project's settings cannot change this".to_owned();
            let warning =
                SettingsWarning::new(WarningKind::NotFromProject, &layer.origin(&path), &path, message);
            warnings.push(warning.with_fix("set it in your user settings"));
        }
    }
}

fn leaves(path: &str, value: Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                leaves(&format!("{path}.{name}"), value, found);
            }
        }
        Value::Object(_) => {}
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            found.push((path.to_owned(), value));
        }
    }
}

fn remove(values: &mut Map<String, Value>, path: &str) -> Option<Value> {
    match path.split_once('.') {
        None => values.shift_remove(path),
        Some((head, rest)) => remove(values.get_mut(head)?.as_object_mut()?, rest),
    }
}
