//! Compares items with their destinations, and writes them. Nothing that exists is replaced.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileLock, Mode};
use pollux_config::settings::{read_object, set_path};
use pollux_install::Limits;
use pollux_install::skill;
use serde_json::Value;

use super::plan::{ImportChange, ImportItem, ImportScope, ImportState};

/// The files of one scope.
#[derive(Debug, Clone)]
pub(super) struct ScopeFiles {
    /// `.gemini`
    pub(super) folder: PathBuf,
    pub(super) settings: PathBuf,
    pub(super) skills: PathBuf,
    /// The policy file of imported rules.
    pub(super) rules: PathBuf,
    /// The project that a destination must be inside.
    pub(super) bound: Option<PathBuf>,
}

/// Where items go.
#[derive(Debug, Clone)]
pub(super) struct Destinations {
    pub(super) user: ScopeFiles,
    pub(super) project: ScopeFiles,
}

impl Destinations {
    fn of(&self, scope: ImportScope) -> &ScopeFiles {
        match scope {
            ImportScope::User => &self.user,
            ImportScope::Project => &self.project,
        }
    }

    /// Determines which items already exist or would replace something.
    pub(super) fn compare(&self, items: &mut [ImportItem]) {
        for item in items {
            let files = self.of(item.scope);
            if let ImportState::Ready(change) = &item.state {
                item.to = Some(files.target(change));
                if let Some(state) = files.state(change) {
                    item.state = state;
                }
            }
        }
    }

    /// Writes the items that are ready.
    pub(super) fn write(&self, items: &mut [ImportItem]) {
        for item in items {
            let files = self.of(item.scope);
            if let ImportState::Ready(change) = &item.state {
                // An earlier item may have written the same value.
                item.state = match files.state(change) {
                    Some(state) => state,
                    None => match files.write(change) {
                        Ok(()) => ImportState::Written,
                        Err(reason) => ImportState::Failed(reason),
                    },
                };
            }
        }
    }
}

impl ScopeFiles {
    /// The file or folder that a change writes.
    fn target(&self, change: &ImportChange) -> PathBuf {
        match change {
            ImportChange::SetKey { .. } | ImportChange::AddToList { .. } => self.settings.clone(),
            ImportChange::AddRule(_) => self.rules.clone(),
            ImportChange::CreateFile { file, .. } => self.folder.join(file),
            ImportChange::CopySkill { name, .. } => self.skills.join(name),
        }
    }

    /// Why a change is not made; `None` if it is made.
    fn state(&self, change: &ImportChange) -> Option<ImportState> {
        let target = self.target(change);
        if !self.contains(&target) {
            let text = format!("`{}` points outside the project", target.display());
            return Some(ImportState::Conflict(text));
        }
        let exists = || ImportState::Conflict(format!("`{}` exists and differs", target.display()));
        match change {
            ImportChange::SetKey { path, value } => match self.value(path) {
                Ok(None) => None,
                Ok(Some(known)) if known == *value => Some(ImportState::Present),
                Ok(Some(_)) => {
                    let key = path.join(".");
                    Some(ImportState::Conflict(format!("`{key}` is already set to another value")))
                }
                Err(reason) => Some(ImportState::Failed(reason)),
            },
            ImportChange::AddToList { path, values } => match self
                .value(path)
                .and_then(|known| list(path, known))
            {
                Ok(known) => values.iter().all(|value| known.contains(value)).then_some(ImportState::Present),
                Err(reason) => Some(ImportState::Conflict(reason)),
            },
            ImportChange::AddRule(block) => match files::read_text(&target) {
                Ok(text) => text.is_some_and(|text| text.contains(block)).then_some(ImportState::Present),
                Err(error) => Some(ImportState::Failed(error.to_string())),
            },
            ImportChange::CreateFile { text, .. } => target.symlink_metadata().ok().map(|_| {
                let same = files::read_text(&target).is_ok_and(|known| known.as_ref() == Some(text));
                if same { ImportState::Present } else { exists() }
            }),
            ImportChange::CopySkill { folder, .. } => target.symlink_metadata().ok().map(|_| {
                let text = |folder: &Path| files::read_text(&folder.join("SKILL.md")).ok().flatten();
                if text(folder) == text(&target) { ImportState::Present } else { exists() }
            }),
        }
    }

    fn write(&self, change: &ImportChange) -> Result<(), String> {
        let target = self.target(change);
        let mode = if self.bound.is_some() { Mode::Shared } else { Mode::Private };
        match change {
            ImportChange::SetKey { path, value } => self.set(path, value),
            ImportChange::AddToList { path, values } => {
                let mut all = list(path, self.value(path)?)?;
                for value in values {
                    if !all.contains(value) {
                        all.push(value.clone());
                    }
                }
                self.set(path, &Value::Array(all))
            }
            ImportChange::AddRule(block) => append(&target, block),
            ImportChange::CreateFile { text, .. } => {
                files::replace(&target, text.as_bytes(), mode).map_err(|error| error.to_string())
            }
            ImportChange::CopySkill { folder, .. } => {
                let mut quiet = |_: &str| {};
                let found = skill::obtain_link(folder, &mut quiet).map_err(|error| error.to_string())?;
                skill::install(&found, &self.skills, &Limits::default(), &mut quiet)
                    .map(|_| ())
                    .map_err(|error| error.to_string())
            }
        }
    }

    fn set(&self, path: &[String], value: &Value) -> Result<(), String> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        set_path(&self.settings, &path, value).map(|_| ()).map_err(|error| error.to_string())
    }

    /// The value that the settings file has for a key.
    fn value(&self, path: &[String]) -> Result<Option<Value>, String> {
        let found = read_object(&self.settings).map_err(|error| error.to_string())?;
        let mut value = Value::Object(found.unwrap_or_default());
        for name in path {
            match value.get_mut(name) {
                Some(inner) => value = inner.take(),
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    /// Whether a destination is really in this scope: a project's link must not redirect an import into the home
    /// directory.
    fn contains(&self, target: &Path) -> bool {
        let Some(bound) = &self.bound else { return true };
        let existing = target.ancestors().find(|path| fs::symlink_metadata(path).is_ok());
        let real = existing.and_then(|path| path.canonicalize().ok());
        match (real, bound.canonicalize()) {
            (Some(real), Ok(bound)) => real.starts_with(bound),
            _ => false,
        }
    }
}

/// A list in settings; a single text is a list of one.
fn list(path: &[String], known: Option<Value>) -> Result<Vec<Value>, String> {
    match known {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(text @ Value::String(_)) => Ok(vec![text]),
        Some(_) => Err(format!("`{}` is not a list", path.join("."))),
    }
}

fn append(file: &Path, block: &str) -> Result<(), String> {
    if let Some(folder) = file.parent() {
        files::create_folder(folder, Mode::Private).map_err(|error| error.to_string())?;
    }
    let _lock = FileLock::acquire(file).map_err(|error| error.to_string())?;
    let mut text = files::read_text(file).map_err(|error| error.to_string())?.unwrap_or_default();
    if !text.is_empty() {
        text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
    }
    text.push_str(block);
    files::replace(file, text.as_bytes(), Mode::Private).map_err(|error| error.to_string())
}
