//! Edits a settings file on the user's request.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::defect::BadFile;
use super::schema::{self, Kind};
use super::{lookup, validate};
use crate::edit_file::edit_text;
use crate::files::{FileError, FileLock, LockError, Mode};
use crate::jsonc::is_reserved;
use crate::patch::{Blocked, Patch};

/// Limits the work for a key of many parts, which no setting has.
const MAX_SPELLINGS: usize = 64;

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("`{key}` is not a settings key")]
    BadKey { key: String },
    #[error("`{key}` is a secret and is never written to a settings file")]
    Secret { key: String },
    /// The file is left as it is.
    #[error("{0}")]
    BadFile(BadFile),
    #[error("`{key}` in `{}` is not an object, so nothing can be set below it", path.display())]
    Blocked { path: PathBuf, key: String },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl EditError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::BadKey { .. } => Some("write it as `group.name`, for example `general.vimMode`"),
            Self::Secret { .. } => Some("set GEMINI_API_KEY, or store the key with `/auth`"),
            Self::BadFile(_) => Some("fix the file by hand first; it was left unchanged"),
            Self::Blocked { .. } => Some("change that key first"),
            Self::Lock(error) => error.hint(),
            Self::File(_) => Some("check the permissions of the file and its folder"),
        }
    }
}

/// Why a typed text is not a value for a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("`{key}` is not a known setting{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownKey { key: String, near: Option<String> },
    #[error("`{key}` is a group of settings, for example `{example}`")]
    Group { key: String, example: &'static str },
    #[error("`{key}` is a secret and is never written to a settings file")]
    Secret { key: String },
    #[error("invalid value `{text}` for `{key}`: {reason}")]
    Unfit { key: String, text: String, reason: String },
}

/// Sets a dotted key and returns what the file said before. Comments, order, unknown keys and all other
/// bytes of the file stay.
pub fn set_value(file: &Path, key: &str, value: &Value) -> Result<Option<Value>, EditError> {
    let path = checked(key)?;
    set_path(file, &path, value)
}

/// As [`set_value`], for names that contain dots themselves.
pub fn set_path(file: &Path, path: &[&str], value: &Value) -> Result<Option<Value>, EditError> {
    refuse_secret(path)?;
    let mut before = None;
    let key = path.join(".");
    change(file, true, |patch| {
        before = patch.get(&[]).and_then(|root| lookup(root.as_object()?, &key).cloned());
        for dotted in dotted_spellings(path) {
            let names: Vec<&str> = dotted.iter().map(String::as_str).collect();
            if patch.get(path).is_some() {
                patch.remove(&names);
            } else if let Some(taken) = patch.take(&names) {
                patch.put(path, &taken)?;
            }
        }
        // `telemetry: true` is short for `telemetry: {"enabled": true}`.
        if let (["telemetry", _, ..], Some(Value::Bool(enabled))) = (path, patch.get(&["telemetry"])) {
            patch.set(&["telemetry"], &serde_json::json!({ "enabled": enabled }))?;
        }
        patch.set(path, value)
    })?;
    Ok(before)
}

/// Removes a dotted key; a key that is not there is no error.
pub fn remove_value(file: &Path, key: &str) -> Result<(), EditError> {
    let path = checked(key)?;
    remove_path(file, &path)
}

/// As [`remove_value`], for names that contain dots themselves.
pub fn remove_path(file: &Path, path: &[&str]) -> Result<(), EditError> {
    change(file, false, |patch| {
        patch.remove(path);
        for dotted in dotted_spellings(path) {
            patch.remove(&dotted.iter().map(String::as_str).collect::<Vec<_>>());
        }
        Ok(())
    })
}

/// The other spellings of a path, such as `{"model.name": …}`, which win over the nested one. Below a key of the schema,
/// a dot is a part of a name.
fn dotted_spellings(path: &[&str]) -> Vec<Vec<String>> {
    let mut spellings = vec![Vec::new()];
    for name in path {
        let mut longer = Vec::with_capacity(spellings.len() * 2);
        for spelling in spellings {
            if let Some((last, container)) = spelling.split_last() {
                let is_open = schema::covering(&container.join(".")).is_none();
                if is_open && longer.len() < MAX_SPELLINGS {
                    let joined = format!("{last}.{name}");
                    longer.push(container.iter().cloned().chain([joined]).collect());
                }
            }
            longer.push(spelling.into_iter().chain([(*name).to_owned()]).collect());
        }
        spellings = longer;
    }
    spellings.retain(|spelling: &Vec<String>| spelling.len() < path.len());
    spellings
}

/// Reads, changes and replaces a file under its lock, and again if an editor saves it meanwhile.
pub(crate) fn change(
    file: &Path,
    create: bool,
    mut edit: impl FnMut(&mut Patch) -> Result<(), Blocked>,
) -> Result<(), EditError> {
    if !create && !file.exists() {
        return Ok(());
    }
    let _lock = FileLock::acquire(file)?;
    edit_text(file, Mode::Private, |old| {
        if old.is_none() && !create {
            return Ok(None);
        }
        let text = old.unwrap_or("{}\n");
        let mut patch =
            Patch::open(text).map_err(|defect| EditError::BadFile(BadFile::parse(file, defect)))?;
        edit(&mut patch).map_err(|Blocked { key }| EditError::Blocked { path: file.to_owned(), key })?;
        let new = patch.into_text();
        Ok((old != Some(new.as_str())).then_some(new))
    })
}

/// Turns what a user typed into a value of the key's type.
pub fn parse_user_value(key: &str, text: &str) -> Result<Value, ValueError> {
    let unfit = |reason: String| ValueError::Unfit { key: key.to_owned(), text: text.to_owned(), reason };
    let json = serde_json::from_str::<Value>(text).ok();
    let Some(known) = schema::covering(key) else {
        return parse_unknown(key, json);
    };
    if known.secret {
        return Err(ValueError::Secret { key: key.to_owned() });
    }
    if known.path != key {
        // Below a map the names are the user's own, so any value will do.
        return match known.kind {
            Kind::Map | Kind::Sandbox => Ok(json.unwrap_or_else(|| Value::from(text))),
            Kind::Boolean
            | Kind::Number
            | Kind::Integer
            | Kind::Text
            | Kind::Choice(_)
            | Kind::Texts
            | Kind::TextOrTexts
            | Kind::List => {
                Err(ValueError::UnknownKey { key: key.to_owned(), near: Some(known.path.to_owned()) })
            }
        };
    }
    let value = match known.kind {
        Kind::Text | Kind::Choice(_) => match json {
            Some(Value::String(quoted)) => Value::String(quoted),
            Some(_) | None => Value::from(text),
        },
        Kind::Texts => comma_list(text, json),
        Kind::TextOrTexts | Kind::Sandbox => json.unwrap_or_else(|| Value::from(text)),
        Kind::Boolean | Kind::Number | Kind::Integer => json.unwrap_or_else(|| Value::from(text.trim())),
        Kind::List | Kind::Map => match json {
            Some(json) => json,
            None => {
                return Err(unfit(format!(
                    "expected {} as JSON",
                    validate::with_article(&known.kind.name())
                )));
            }
        },
    };
    match validate::complaint(known, &value) {
        Some(reason) => Err(unfit(reason)),
        None => Ok(validate::fitted(known, value)),
    }
}

fn parse_unknown(key: &str, json: Option<Value>) -> Result<Value, ValueError> {
    if let Some(example) = schema::below(key).first() {
        return Err(ValueError::Group { key: key.to_owned(), example: example.path });
    }
    let root = key.split('.').next().unwrap_or_default();
    let foreign = schema::find(root).is_none() && schema::below(root).is_empty();
    let near = schema::nearest(key).or_else(|| schema::nearest_anywhere(key).map(str::to_owned));
    match json {
        // A group of some other program's, or of a later release.
        Some(json) if foreign && key.contains('.') => Ok(json),
        Some(json) if foreign && near.is_none() => Ok(json),
        Some(_) | None => Err(ValueError::UnknownKey { key: key.to_owned(), near }),
    }
}

fn comma_list(text: &str, json: Option<Value>) -> Value {
    match json {
        Some(Value::Array(items)) => Value::Array(items),
        Some(Value::String(item)) => Value::from(vec![item]),
        Some(_) | None => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::from(items.collect::<Vec<_>>())
        }
    }
}

fn checked(key: &str) -> Result<Vec<&str>, EditError> {
    let path: Vec<&str> = key.split('.').collect();
    if path.iter().any(|name| name.trim().is_empty() || is_reserved(name)) {
        return Err(EditError::BadKey { key: key.to_owned() });
    }
    Ok(path)
}

fn refuse_secret(path: &[&str]) -> Result<(), EditError> {
    let key = path.join(".");
    let holds_secret = schema::covering(&key).is_some_and(|key| key.secret)
        || schema::below(&key).iter().any(|key| key.secret);
    if holds_secret { Err(EditError::Secret { key }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
