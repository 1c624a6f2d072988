//! The items of an import: what was found, its destination and the result.

use std::path::{Path, PathBuf};

use pollux_domain::JsonObject;
use serde_json::Value;

/// The owner of the file that an item comes from; it is written to the same owner's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImportScope {
    User,
    Project,
}

impl ImportScope {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// The kind of item in Pollux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImportKind {
    Setting,
    Provider,
    Rule,
    Hook,
    Server,
    Context,
    Command,
    Agent,
    Skill,
}

impl ImportKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Setting => "setting",
            Self::Provider => "provider",
            Self::Rule => "rule",
            Self::Hook => "hook",
            Self::Server => "server",
            Self::Context => "context",
            Self::Command => "command",
            Self::Agent => "agent",
            Self::Skill => "skill",
        }
    }
}

/// A change to the files of one scope. None of them replaces anything.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ImportChange {
    /// Sets a key of the settings file that has no value yet.
    SetKey { path: Vec<String>, value: Value },
    /// Adds the missing values to a list of the settings file.
    AddToList { path: Vec<String>, values: Vec<Value> },
    /// Adds a `[[rule]]` block to the policy file of imported rules.
    AddRule(String),
    /// Creates a file below `.gemini`.
    CreateFile { file: PathBuf, text: String },
    /// Copies the folder of a skill.
    CopySkill { folder: PathBuf, name: String },
}

/// The result for an item.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ImportState {
    Ready(ImportChange),
    Written,
    /// The destination already has the same content.
    Present,
    /// The destination has different content, which is kept.
    Conflict(String),
    /// Not converted, for this reason.
    Skipped(String),
    Failed(String),
}

/// An item that was found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ImportItem {
    pub(super) kind: ImportKind,
    pub(super) scope: ImportScope,
    /// Contains no values that may be secret.
    pub(super) name: String,
    pub(super) from: PathBuf,
    /// The destination, once it is known.
    pub(super) to: Option<PathBuf>,
    /// The part that is lost.
    pub(super) note: Option<String>,
    pub(super) state: ImportState,
}

/// Collects the items of one file.
pub(super) struct Collector<'a> {
    items: &'a mut Vec<ImportItem>,
    pub(super) scope: ImportScope,
    from: PathBuf,
}

impl<'a> Collector<'a> {
    pub(super) fn new(items: &'a mut Vec<ImportItem>, scope: ImportScope, from: &Path) -> Self {
        Self { items, scope, from: from.to_path_buf() }
    }

    pub(super) fn ready(&mut self, kind: ImportKind, name: impl Into<String>, change: ImportChange) {
        self.add(kind, name.into(), None, ImportState::Ready(change));
    }

    pub(super) fn ready_with_note(
        &mut self,
        kind: ImportKind,
        name: impl Into<String>,
        note: Option<String>,
        change: ImportChange,
    ) {
        self.add(kind, name.into(), note, ImportState::Ready(change));
    }

    pub(super) fn skipped(&mut self, kind: ImportKind, name: impl Into<String>, reason: impl Into<String>) {
        self.add(kind, name.into(), None, ImportState::Skipped(reason.into()));
    }

    /// Sets a dotted key of the settings.
    pub(super) fn setting(&mut self, key: &str, value: Value) {
        let path = key.split('.').map(str::to_owned).collect();
        self.ready(ImportKind::Setting, key, ImportChange::SetKey { path, value });
    }

    fn add(&mut self, kind: ImportKind, name: String, note: Option<String>, state: ImportState) {
        let (scope, from) = (self.scope, self.from.clone());
        self.items.push(ImportItem { kind, scope, name, from, to: None, note, state });
    }
}

/// The object under a key; empty if it is missing or of another type.
pub(super) fn object<'v>(found: &'v JsonObject, key: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    found.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// The strings of a list; empty if it is missing or of another type.
pub(super) fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
