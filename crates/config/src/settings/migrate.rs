//! Old key names, renamed in the file itself: the flat form of early releases and later renames.
//!
//! The text is edited, never serialised: comments move with their key, and `$NAME` stays `$NAME`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{lookup, schema};
use crate::files::{self, FileError, FileLock, LockError, Mode};
use crate::patch::{Patch, Taken};

mod names;

use names::{Change, FLAT, RENAMED};

/// Shorter than usual: this happens at start-up, and the file can be read without it.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Maximum number of backups of one file.
const MAX_BACKUPS: u32 = 1000;

/// A file that was rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    pub file: PathBuf,
    /// The file as it was.
    pub backup: PathBuf,
    /// Old and new names.
    pub renamed: Vec<(String, String)>,
}

/// Why a file could not be rewritten.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrateError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("no free name for a backup of `{}`", path.display())]
    NoBackupName { path: PathBuf },
}

/// A text with new names.
pub(crate) struct Plan {
    pub(crate) text: String,
    pub(crate) renamed: Vec<(String, String)>,
}

/// Whether a file has an old name in it.
pub(crate) fn is_needed(root: &Value) -> bool {
    let Value::Object(map) = root else { return false };
    FLAT.iter().any(|(old, new)| is_flat(map, old, new))
        || RENAMED.iter().any(|(old, _, change)| lookup(map, old).is_some_and(|value| change.applies(value)))
}

/// The text with new names, or `None` if it has no old ones or does not parse.
pub(crate) fn plan(text: &str) -> Option<Plan> {
    let mut patch = Patch::open(text).ok()?;
    let mut renamed = Vec::new();
    for (old, new) in FLAT {
        let applies =
            patch.get(&[]).and_then(|root| Some(is_flat(root.as_object()?, old, new))).unwrap_or_default();
        if applies && rename(&mut patch, &[old], new, Change::Keep) {
            renamed.push(((*old).to_owned(), (*new).to_owned()));
        }
    }
    let flat = !renamed.is_empty();
    // A key is no reason to rewrite the file that holds it, but it goes along with the others.
    if flat && patch.get(&["apiKey"]).is_some() && rename(&mut patch, &["apiKey"], "api.key", Change::Keep) {
        renamed.push(("apiKey".to_owned(), "api.key".to_owned()));
    }
    // The default editor has no name in the new form, so that its key is the whole difference.
    if flat && patch.get(&["editor"]) == Some(json!("none")) && patch.remove(&["editor"]) {
        renamed.push(("editor".to_owned(), "general.preferredEditor".to_owned()));
    }
    for (old, new, change) in RENAMED {
        let path: Vec<&str> = old.split('.').collect();
        let applies = patch.get(&path).is_some_and(|value| change.applies(&value));
        if applies && rename(&mut patch, &path, new, *change) {
            renamed.push(((*old).to_owned(), (*new).to_owned()));
        }
    }
    (!renamed.is_empty()).then(|| Plan { text: patch.into_text(), renamed })
}

/// Rewrites a file under its lock; `None` if it was already rewritten.
pub(crate) fn rewrite(path: &Path) -> Result<Option<Migrated>, MigrateError> {
    let _lock = FileLock::acquire_within(path, LOCK_WAIT)?;
    let Some(text) = files::read_text(path)? else { return Ok(None) };
    let Some(plan) = plan(&text) else { return Ok(None) };
    let backup = back_up(&files::follow(path)?, &text)?;
    files::replace(path, plan.text.as_bytes(), Mode::Private)?;
    Ok(Some(Migrated { file: path.to_owned(), backup, renamed: plan.renamed }))
}

/// Whether a top-level key is of the flat form. `model` is both: there an object is the new form.
fn is_flat(root: &Map<String, Value>, old: &str, new: &str) -> bool {
    let Some(value) = root.get(old) else { return false };
    let also_new = !schema::below(old).is_empty() || schema::find(old).is_some();
    let fits = match schema::find(new).map(|key| key.kind) {
        // `editor: "none"` and the like have no new form.
        Some(schema::Kind::Choice(words)) if old == "editor" => {
            value.as_str().is_some_and(|word| words.contains(&word))
        }
        Some(_) | None => true,
    };
    fits && !(also_new && value.is_object())
}

/// Moves a value; says whether the old name is gone.
fn rename(patch: &mut Patch, old: &[&str], new: &str, change: Change) -> bool {
    let Some(value) = patch.get(old) else { return false };
    let (new, change) = adjust(new, &value, change);
    let new: Vec<&str> = new.split('.').collect();
    let before = patch.text().to_owned();
    let Some(taken) = patch.take(old) else { return false };
    if let Some(existing) = patch.get(&new) {
        // The new name wins; of two objects the old one fills the holes. The comments stay where they are.
        patch.reset(before);
        patch.remove(old);
        fill(patch, &new, &existing, &value);
        return true;
    }
    let raw = match change {
        Change::Keep => taken.raw,
        Change::Invert => value.as_bool().map_or(taken.raw, |on| (!on).to_string()),
        Change::Field(field) => value.get(field).map_or(taken.raw, Value::to_string),
        Change::Investigator => format!("{:#}", investigator(&value)),
    };
    if patch.put(&new, &Taken { raw, comments: taken.comments }).is_err() {
        patch.reset(before);
        return false;
    }
    true
}

/// Shapes that changed together with the name.
fn adjust<'n>(new: &'n str, value: &Value, change: Change) -> (&'n str, Change) {
    match new {
        "general.checkpointing" if value.is_boolean() => ("general.checkpointing.enabled", change),
        "model.compressionThreshold" if value.is_object() => {
            (new, Change::Field("contextPercentageThreshold"))
        }
        _ => (new, change),
    }
}

fn fill(patch: &mut Patch, path: &[&str], existing: &Value, older: &Value) {
    if let (Value::Object(existing), Value::Object(older)) = (existing, older) {
        for (name, value) in older.iter().filter(|(name, _)| !existing.contains_key(*name)) {
            let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
            // The container is an object, so this cannot be blocked.
            let _ = patch.set(&path, value);
        }
    }
}

fn investigator(old: &Value) -> Value {
    let mut new = Map::new();
    for (from, to) in [
        ("enabled", "enabled"),
        ("maxNumTurns", "runConfig.maxTurns"),
        ("maxTimeMinutes", "runConfig.maxTimeMinutes"),
        ("model", "modelConfig.model"),
        ("thinkingBudget", "modelConfig.generateContentConfig.thinkingConfig.thinkingBudget"),
    ] {
        if let Some(value) = old.get(from) {
            schema::insert(&mut new, to, value.clone());
        }
    }
    json!(new)
}

/// Saves the old text next to the file under a name that is free, or that already holds it.
fn back_up(path: &Path, text: &str) -> Result<PathBuf, MigrateError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".orig");
    let first = PathBuf::from(name);
    for number in 0..MAX_BACKUPS {
        let candidate = if number == 0 {
            first.clone()
        } else {
            let mut name = first.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        match create_new(&candidate, path, text) {
            Ok(()) => return Ok(candidate),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if files::read_text(&candidate).is_ok_and(|old| old.as_deref() == Some(text)) {
                    return Ok(candidate);
                }
            }
            Err(source) => return Err(FileError::Write { path: candidate, source }.into()),
        }
    }
    Err(MigrateError::NoBackupName { path: path.to_owned() })
}

fn create_new(path: &Path, like: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_permissions(File::open(like)?.metadata()?.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
