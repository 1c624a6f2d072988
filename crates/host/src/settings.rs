//! The operations behind `pollux config`, and warnings about settings.

use std::path::PathBuf;

use pollux_config::env::Env;
use pollux_config::paths::{Home, same_place};
use pollux_config::settings::{self, Layer, Settings as Loaded};
use pollux_config::startup::Start;
use pollux_config::trust::{self, Binding};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::redact::{MASK, redact_value};
use pollux_domain::time::{Clock, SystemClock};
use serde_json::Value;

use crate::request::{Request, Scope};

/// An effective setting.
#[derive(Debug, Clone)]
pub struct SettingsRow {
    /// Dotted.
    pub key: String,
    pub value: Value,
    /// `default`, a file's path, a variable's name or a flag.
    pub origin: String,
    /// Never shown.
    pub secret: bool,
    /// Whether it comes from a system settings file.
    pub of_system: bool,
}

impl SettingsRow {
    /// The value with secrets masked.
    pub fn shown(&self) -> Value {
        if self.secret && !self.value.is_null() {
            return Value::from(MASK);
        }
        // A secret in an unrelated setting must not appear on a shared screen.
        let mut value = self.value.clone();
        redact_value(&mut value);
        value
    }
}

/// A string without quotes, anything else as JSON.
pub fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => format!("{value:#}"),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// The result of a `set`.
#[derive(Debug, Clone)]
pub struct Change {
    pub file: PathBuf,
    /// The previous value in the file.
    pub before: Option<Value>,
    pub after: Value,
}

/// The settings for `pollux config`.
pub fn settings(options: &Request, env: &Env) -> Result<SettingsFiles, Failure> {
    let start = crate::start_up::start(options, env)?;
    let project_is_home = same_place(start.project.root(), start.home.user_home());
    let mut notes = notes(&start);
    notes.extend(super::trust::first_use(&start));
    if !start.trust.uses_project() && start.project.settings_file().exists() && !project_is_home {
        let file = start.project.settings_file();
        notes.push(format!(
            "`{}` is ignored: this folder is not trusted (see `pollux trust show`; use `--skip-trust` for one run).",
            file.display()
        ));
    }
    Ok(SettingsFiles {
        user_file: start.home.settings_file(),
        project_file: start.project.settings_file(),
        project_is_home,
        home: start.home,
        root: start.project.root().to_path_buf(),
        binding: start.binding,
        notes,
        settings: start.settings,
    })
}

/// Warnings about settings and `.env` files, for stderr.
pub fn notes(start: &Start) -> Vec<String> {
    let mut notes = start.home_notes.clone();
    let warnings = settings::report(&start.settings.warnings);
    if !warnings.is_empty() {
        notes.push(warnings.trim_end().to_owned());
    }
    for migrated in &start.settings.migrated {
        let (file, backup) = (migrated.file.display(), migrated.backup.display());
        notes.push(format!("Renamed deprecated settings in `{file}`; the original file is in `{backup}`."));
    }
    for (file, reason) in &start.dotenv.unreadable {
        notes.push(format!("Warning: `{}` could not be read: {reason}", file.display()));
    }
    notes.extend(start.dotenv.redirections());
    notes
}

/// The settings files of a run.
pub struct SettingsFiles {
    settings: Loaded,
    user_file: PathBuf,
    project_file: PathBuf,
    project_is_home: bool,
    home: Home,
    root: PathBuf,
    /// How the project compared with its trust record before this change.
    binding: Binding,
    notes: Vec<String>,
}

/// Keys of a server entry where `$NAME` may refer to a secret; `env` and `headers` are never shown.
const EXPANDED: [&str; 6] = ["args", "command", "cwd", "description", "httpUrl", "url"];

impl SettingsFiles {
    fn file(&self, scope: Scope) -> Result<&PathBuf, Failure> {
        match scope {
            Scope::User => Ok(&self.user_file),
            Scope::Project if self.project_is_home => Err(Failure::new(
                ExitKind::Failure,
                "Error: Please use --scope user to edit settings in the home directory.",
            )),
            Scope::Project => Ok(&self.project_file),
        }
    }

    /// The user's own change does not need a second approval.
    fn agree(&self, scope: Scope) -> Result<(), Failure> {
        match scope {
            Scope::User => Ok(()),
            Scope::Project => trust::rebind(&self.home, &self.root, &self.binding, Some(SystemClock.now()))
                .map_err(|error| Failure::from_error(ExitKind::Failure, &error)),
        }
    }

    /// Server entries as written, without expanded variables.
    fn as_written(&self, mut servers: Value) -> Value {
        for (name, entry) in servers.as_object_mut().into_iter().flatten() {
            let file = match self.settings.origin(&format!("mcpServers.{name}")).layer {
                Layer::Project => &self.project_file,
                _ => &self.user_file,
            };
            let written = settings::read_object(file).ok().flatten();
            let written = written.as_ref().and_then(|object| object.get("mcpServers")?.get(name));
            for key in EXPANDED {
                if let (Some(value), Some(shown)) =
                    (written.and_then(|written| written.get(key)), entry.get_mut(key))
                {
                    *shown = value.clone();
                }
            }
        }
        servers
    }
}

impl SettingsFiles {
    /// All known settings, in display order.
    pub fn rows(&self) -> Vec<SettingsRow> {
        let rows = self.settings.rows().into_iter();
        rows.map(|row| SettingsRow {
            value: if row.key == "mcpServers" { self.as_written(row.value) } else { row.value },
            key: row.key,
            of_system: matches!(row.origin.layer, Layer::System | Layer::SystemDefaults),
            origin: row.origin.to_string(),
            secret: row.secret,
        })
        .collect()
    }

    /// Warnings about the files, for stderr.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Writes a typed value to one settings file.
    pub fn set(&mut self, key: &str, text: &str, scope: Scope) -> Result<Change, Failure> {
        let file = self.file(scope)?.clone();
        let value = settings::parse_user_value(key, text)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        let before = settings::set_value(&file, key, &value).map_err(|error| unwritten(&error))?;
        self.agree(scope)?;
        Ok(Change { file, before, after: value })
    }

    /// The value in one settings file, if set.
    pub fn written(&self, key: &str, scope: Scope) -> Option<Value> {
        let object = settings::read_object(self.file(scope).ok()?).ok().flatten()?;
        Value::Object(object).pointer(&format!("/{}", key.replace('.', "/"))).cloned()
    }

    /// Removes a setting from a settings file.
    pub fn reset(&mut self, key: &str, scope: Scope) -> Result<(), Failure> {
        let file = self.file(scope)?;
        settings::remove_value(file, key).map_err(|error| unwritten(&error))?;
        self.agree(scope)
    }
}

pub(crate) fn unwritten(error: &settings::EditError) -> Failure {
    let failure = Failure::from_error(ExitKind::Failure, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
