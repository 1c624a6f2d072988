//! The data types of `pollux extensions`.

use serde_json::Value;

/// An installed extension.
#[derive(Debug, Clone, Default)]
pub struct ExtensionRow {
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
    /// The value as shown; `None` if unset.
    pub value: Option<String>,
    /// `User` or `Workspace`, and a file or `Keychain`.
    pub place: Option<(&'static str, String)>,
}

/// The message of a change, and notes.
#[derive(Debug, Default)]
pub struct ExtensionOutcome {
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
    /// No update, with the reason if there is one.
    Not(Option<String>),
}

/// An extension to install.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewExtension {
    pub source: String,
    pub reference: Option<String>,
    pub auto_update: bool,
    pub pre_release: bool,
    /// Consent given in advance.
    pub consent: bool,
    pub skip_settings: bool,
}

/// The scope to enable or disable in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchScope {
    /// Everywhere.
    Unsaid,
    /// As it was typed.
    User(String),
    Workspace(String),
}
