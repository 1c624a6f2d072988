//! What is known of extensions, and what can be done with them.

use serde_json::Value;

/// An extension that is installed.
#[derive(Debug, Clone, Default)]
pub struct Row {
    pub name: String,
    pub version: String,
    pub description: Option<String>,
    pub id: String,
    /// The hash of its name, as upstream shows it.
    pub name_hash: String,
    pub path: String,
    /// `.gemini-extension-install.json`
    pub origin: Option<Value>,
    pub of_project: bool,
    pub active: bool,
    pub enabled_for_user: bool,
    pub enabled_here: bool,
    pub context_files: Vec<String>,
    /// Entries as they are written.
    pub servers: Vec<(String, Value)>,
    pub excluded_tools: Vec<String>,
    pub skills: Vec<(String, String)>,
    pub settings: Vec<SettingRow>,
}

/// A setting of an extension.
#[derive(Debug, Clone, Default)]
pub struct SettingRow {
    pub name: String,
    pub variable: String,
    pub sensitive: bool,
    /// What may be shown of it; `None` if it is not set.
    pub value: Option<String>,
    /// `User` or `Workspace`, and a file or `Keychain`.
    pub place: Option<(&'static str, String)>,
}

/// What a change did, and lines beside it.
#[derive(Debug, Default)]
pub struct Said {
    pub out: String,
    pub notes: Vec<String>,
}

/// How an update ended.
pub enum Updated {
    Newer {
        from: String,
        to: String,
        notes: Vec<String>,
    },
    /// Nothing newer, or nothing ever; the line says why if there is a reason.
    Not(Option<String>),
}

/// An extension to be installed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewExtension {
    pub source: String,
    pub reference: Option<String>,
    pub auto_update: bool,
    pub pre_release: bool,
    /// Agreed beforehand.
    pub consent: bool,
    pub skip_settings: bool,
}

/// Where it is switched on or off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchScope {
    /// On: wherever it was off. Off: for the user.
    Unsaid,
    /// As it was typed.
    User(String),
    Workspace(String),
}
