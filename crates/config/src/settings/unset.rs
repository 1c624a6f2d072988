//! Removes values that refer to variables which are not set, where the reference itself must not be used.
//!
//! Elsewhere the text stays as it is. A credential that is still `$NAME` is not one, and the text of a project's
//! reference must not be sent to a model as a model's name.

use serde_json::{Map, Value};

use super::interpolate::{is_reference, unset_variable};
use super::rows::{SECRET_OBJECTS, is_secret_name};
use super::schema;
use crate::credential_variables::is_credential;
use crate::env::Env;

/// A value that was removed.
pub(crate) struct UnsetValue {
    /// Dotted path.
    pub(crate) path: String,
    pub(crate) variable: String,
}

/// Which values are removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsetScope {
    /// Those that are credentials.
    Credentials,
    /// All except prose.
    All,
}

/// Removes values from a top-level part of a file, before its variables are replaced.
pub(crate) fn remove_unset(
    values: &mut Map<String, Value>,
    part: &str,
    env: &Env,
    scope: UnsetScope,
) -> Vec<UnsetValue> {
    let mut removed = Vec::new();
    if let Some(value) = values.get_mut(part)
        && !keeps(value, part, env, scope, &mut removed)
    {
        values.shift_remove(part);
    }
    removed
}

/// Whether the value may stay; removes what may not from within it.
fn keeps(value: &mut Value, path: &str, env: &Env, scope: UnsetScope, removed: &mut Vec<UnsetValue>) -> bool {
    match value {
        Value::String(text) => {
            let Some(variable) = unset_variable(text, env).filter(|_| is_affected(text, path, scope)) else {
                return true;
            };
            removed.push(UnsetValue { path: path.to_owned(), variable: variable.to_owned() });
            false
        }
        Value::Array(items) => {
            items.retain_mut(|item| keeps(item, path, env, scope, removed));
            true
        }
        Value::Object(map) => {
            map.retain(|name, value| keeps(value, &format!("{path}.{name}"), env, scope, removed));
            true
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_affected(text: &str, path: &str, scope: UnsetScope) -> bool {
    let mut names = path.rsplit('.');
    let name = names.next().unwrap_or_default();
    let container = names.next().unwrap_or_default();
    let in_object = SECRET_OBJECTS.iter().any(|object| container.to_lowercase().ends_with(object));
    match scope {
        UnsetScope::All => !text.contains(char::is_whitespace),
        // Programs have variables of all kinds.
        UnsetScope::Credentials if container == "env" => {
            is_credential(&name.to_uppercase(), "") && is_reference(text.trim())
        }
        // A header is often `Bearer $TOKEN`.
        UnsetScope::Credentials if in_object => text.split_whitespace().next_back().is_some_and(is_reference),
        UnsetScope::Credentials => {
            let is_secret = schema::find(path).is_some_and(|key| key.secret) || is_secret_name(name);
            is_secret && is_reference(text.trim())
        }
    }
}
