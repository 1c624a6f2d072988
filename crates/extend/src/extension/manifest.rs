//! Parses `gemini-extension.json`, the manifest of an extension.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use pollux_config::dotenv::is_address;
use pollux_config::files::{self, FileError};
use pollux_domain::JsonObject;
use serde_json::Value;

/// The file's name.
pub const MANIFEST: &str = "gemini-extension.json";

/// No manifest is longer; whatever is, is not one.
const MAX_BYTES: u64 = 1024 * 1024;

/// A longer name fits no folder.
const MAX_NAME: usize = 200;

/// A manifest as it is written, variables not replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub name: String,
    pub version: String,
    pub description: Option<String>,
    /// The settings that users give values for.
    pub settings: Vec<Setting>,
    /// Where newer versions are found.
    pub migrated_to: Option<String>,
    raw: JsonObject,
}

/// A setting with a user-supplied value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    pub description: String,
    /// The variable that carries it.
    pub variable: String,
    /// Kept in the credential store.
    pub sensitive: bool,
}

/// Why a folder is not an extension. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("Configuration file not found at {}", file.display())]
    Missing { file: PathBuf },
    #[error("Failed to load extension config from {}: {defect}", file.display())]
    Invalid { file: PathBuf, defect: Defect },
}

/// The mistake in a manifest.
#[derive(Debug, thiserror::Error)]
pub enum Defect {
    #[error("Invalid configuration in {}: missing \"{key}\"", file.display())]
    Lacks { file: PathBuf, key: &'static str },
    #[error(
        "Invalid extension name: \"{name}\". Only letters (a-z, A-Z), numbers (0-9), and dashes (-) are allowed."
    )]
    Name { name: String },
    #[error("it is larger than {} MiB", MAX_BYTES / (1024 * 1024))]
    TooLarge,
    #[error("it is not a JSON object")]
    NoObject,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("it points outside the extension's folder")]
    LeadsOut,
}

/// Why a context file is not one of the extension. The words are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextFileError {
    #[error("expected a non-empty string.")]
    NoText,
    #[error("null bytes are not allowed.")]
    NullByte,
    #[error("Absolute paths are not allowed.")]
    Absolute,
    #[error("Relative parent directory references (\"..\") are not allowed.")]
    Parent,
    #[error("escapes the extension directory boundary (\"{}\").", .0.display())]
    Outside(PathBuf),
}

/// A context file that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    /// As it is written, `${/}` replaced.
    pub name: String,
    pub path: Result<PathBuf, ContextFileError>,
}

impl Manifest {
    /// Reads the manifest in a folder.
    pub fn read(folder: &Path) -> Result<Self, ManifestError> {
        let file = folder.join(MANIFEST);
        match parse(folder, &file) {
            Ok(Some(manifest)) => Ok(manifest),
            Ok(None) => Err(ManifestError::Missing { file }),
            Err(defect) => Err(ManifestError::Invalid { file, defect }),
        }
    }

    /// A value as it is written.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.raw.get(key)
    }

    /// MCP servers as they are written.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &Value)> {
        let servers = self.raw.get("mcpServers").and_then(Value::as_object).into_iter().flatten();
        servers.map(|(name, entry)| (name.as_str(), entry))
    }

    /// Tools that the model is not to have: names, or `name(prefix)`.
    pub fn excluded_tools(&self) -> Vec<String> {
        let items = self.raw.get("excludeTools").and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Colours for the screen, as they are written.
    pub fn themes(&self) -> &[Value] {
        self.raw.get("themes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The default plans folder below the project; `Err` contains a path that is not allowed.
    pub fn plan_directory(&self) -> Option<Result<&str, &Value>> {
        let given = self.raw.get("plan")?.get("directory")?;
        let inner = |text: &&str| {
            !text.is_empty()
                && Path::new(text)
                    .components()
                    .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
                && !has_drive(text)
        };
        Some(given.as_str().filter(inner).ok_or(given))
    }

    /// The files that it names as context, or the usual one if it names none; they need not exist.
    pub fn context_files(&self, folder: &Path) -> Vec<ContextFile> {
        let named: Vec<Value> = match self.raw.get("contextFileName") {
            None | Some(Value::Null) => vec![Value::from("GEMINI.md")],
            Some(Value::String(text)) if text.is_empty() => vec![Value::from("GEMINI.md")],
            Some(Value::Array(names)) => names.clone(),
            Some(other) => vec![other.clone()],
        };
        named.iter().map(|name| context_file(name, folder)).collect()
    }

    /// Whether it names its context files itself.
    pub fn names_context(&self) -> bool {
        self.raw.get("contextFileName").is_some_and(|value| !value.is_null() && value != "")
    }

    /// Fields that would change where model requests are sent.
    fn addresses(&self) -> Vec<String> {
        let is_set = |value: &Value| !value.is_null();
        let mut found = Vec::new();
        if self.raw.get("providers").is_some_and(is_set) {
            found.push("providers".to_owned());
        }
        for key in ["env", "settings"] {
            let fields = self.raw.get(key).and_then(Value::as_object).into_iter().flatten();
            let fields = fields.filter(|(name, _)| *name == "providers" || is_address(name));
            found.extend(fields.map(|(name, _)| format!("{key}.{name}")));
        }
        let settings = self.settings.iter().filter(|setting| is_address(&setting.variable));
        found.extend(settings.map(|setting| format!("settings: {}", setting.variable)));
        found
    }

    /// Warnings about ignored fields.
    pub fn warnings(&self) -> Vec<String> {
        let mut said = Vec::new();
        let mut wrong = |key: &str, fits: fn(&Value) -> bool, expected: &str| {
            if let Some(value) = self.raw.get(key)
                && !value.is_null()
                && !fits(value)
            {
                said.push(format!("`{key}` is ignored: it must be {expected}"));
            }
        };
        wrong("mcpServers", Value::is_object, "an object");
        wrong("excludeTools", Value::is_array, "a list of names");
        wrong("settings", Value::is_array, "a list");
        wrong("themes", Value::is_array, "a list");
        let given = self.raw.get("settings").and_then(Value::as_array).map_or(0, Vec::len);
        if given > self.settings.len() {
            let count = given - self.settings.len();
            said.push(format!("{count} of its settings are ignored: they need `name` and a valid `envVar`"));
        }
        said.extend(redirections(&self.addresses()));
        if let Some(Err(given)) = self.plan_directory() {
            said.push(format!("`plan.directory` is ignored: {given} is not a folder below the project"));
        }
        said
    }
}

/// The line about fields or variables of an extension that would change where model requests are sent.
pub(super) fn redirections(found: &[String]) -> Option<String> {
    let named: Vec<String> = found.iter().map(|name| format!("`{name}`")).collect();
    (!named.is_empty()).then(|| {
        format!("ignored, because an extension cannot redirect model requests: {}", named.join(", "))
    })
}

/// Whether this can be an extension's name.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether this can be a variable's name.
pub(super) fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn parse(folder: &Path, file: &Path) -> Result<Option<Manifest>, Defect> {
    let read = |source| FileError::Read { path: file.to_owned(), source };
    let mut meta = match fs::symlink_metadata(file) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read(error).into()),
    };
    if meta.is_symlink() {
        if !stays_in(file, folder) {
            return Err(Defect::LeadsOut);
        }
        meta = fs::metadata(file).map_err(read)?;
    }
    if meta.len() > MAX_BYTES {
        return Err(Defect::TooLarge);
    }
    let Some(text) = files::read_text(file)? else { return Ok(None) };
    let Value::Object(raw) = serde_json::from_str(text.trim_start_matches('\u{feff}'))? else {
        return Err(Defect::NoObject);
    };
    let word = |key: &'static str| match raw.get(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        // A version is sometimes written without quotes.
        Some(Value::Number(number)) if key == "version" => Ok(number.to_string()),
        _ => Err(Defect::Lacks { file: file.to_owned(), key }),
    };
    let (name, version) = (word("name")?, word("version")?);
    if !is_name(&name) {
        return Err(Defect::Name { name: name.chars().take(MAX_NAME).collect() });
    }
    let text = |key: &str| raw.get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(Some(Manifest {
        name,
        version,
        description: text("description"),
        settings: settings(&raw),
        migrated_to: text("migratedTo").filter(|source| !source.is_empty()),
        raw,
    }))
}

fn settings(raw: &JsonObject) -> Vec<Setting> {
    let items = raw.get("settings").and_then(Value::as_array).into_iter().flatten();
    items
        .filter_map(|item| {
            let text = |key: &str| item.get(key).and_then(Value::as_str);
            let variable = text("envVar").filter(|name| is_variable(name))?;
            Some(Setting {
                name: text("name")?.to_owned(),
                description: text("description").unwrap_or_default().to_owned(),
                variable: variable.to_owned(),
                sensitive: item.get("sensitive") == Some(&Value::Bool(true)),
            })
        })
        .collect()
}

fn context_file(name: &Value, folder: &Path) -> ContextFile {
    let Some(text) = name.as_str() else {
        return ContextFile { name: name.to_string(), path: Err(ContextFileError::NoText) };
    };
    let separator = std::path::MAIN_SEPARATOR_STR;
    let text = text.replace("${/}", separator).replace("${pathSeparator}", separator);
    let path = checked(&text, folder);
    ContextFile { name: text, path }
}

fn checked(name: &str, folder: &Path) -> Result<PathBuf, ContextFileError> {
    if name.trim().is_empty() {
        return Err(ContextFileError::NoText);
    }
    if name.contains('\0') {
        return Err(ContextFileError::NullByte);
    }
    if Path::new(name).is_absolute() || name.starts_with(['/', '\\']) || has_drive(name) {
        return Err(ContextFileError::Absolute);
    }
    if name.contains("..") || name.to_ascii_lowercase().contains("%2e%2e") {
        return Err(ContextFileError::Parent);
    }
    let path = folder.join(name);
    if path.exists() && !stays_in(&path, folder) {
        return Err(ContextFileError::Outside(folder.to_owned()));
    }
    Ok(path)
}

fn has_drive(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic()) && bytes.next() == Some(b':')
}

/// Whether a file is, links resolved, below a folder.
pub(super) fn stays_in(file: &Path, folder: &Path) -> bool {
    match (file.canonicalize(), folder.canonicalize()) {
        (Ok(file), Ok(folder)) => file.starts_with(folder),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests;
