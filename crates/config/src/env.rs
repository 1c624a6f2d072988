//! The environment as a value, so that nothing but `main` reads the process's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of the variables this crate understands.
pub mod name {
    pub const HOME: &str = "HOME";
    pub const USERPROFILE: &str = "USERPROFILE";
    pub const GEMINI_CLI_HOME: &str = "GEMINI_CLI_HOME";
    pub const SYSTEM_SETTINGS_PATH: &str = "GEMINI_CLI_SYSTEM_SETTINGS_PATH";
    pub const SYSTEM_DEFAULTS_PATH: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
    pub const TRUSTED_FOLDERS_PATH: &str = "GEMINI_CLI_TRUSTED_FOLDERS_PATH";
    pub const TRUST_WORKSPACE: &str = "GEMINI_CLI_TRUST_WORKSPACE";
    pub const RESTRICTED_MODE: &str = "GEMINI_RESTRICTED_MODE";
    pub const MODEL: &str = "GEMINI_MODEL";
    pub const POLLUX_MODEL: &str = "POLLUX_MODEL";
    pub const SANDBOX: &str = "GEMINI_SANDBOX";
    pub const OUTPUT_DIALECT: &str = "POLLUX_OUTPUT_DIALECT";
    pub const EXTENSION_REGISTRY_URI: &str = "GEMINI_CLI_EXTENSION_REGISTRY_URI";
    pub const TELEMETRY_ENABLED: &str = "GEMINI_TELEMETRY_ENABLED";
    pub const TELEMETRY_TARGET: &str = "GEMINI_TELEMETRY_TARGET";
    pub const TELEMETRY_OTLP_ENDPOINT: &str = "GEMINI_TELEMETRY_OTLP_ENDPOINT";
    pub const OTEL_EXPORTER_OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    pub const TELEMETRY_OTLP_PROTOCOL: &str = "GEMINI_TELEMETRY_OTLP_PROTOCOL";
    pub const TELEMETRY_TRACES_ENABLED: &str = "GEMINI_TELEMETRY_TRACES_ENABLED";
    pub const TELEMETRY_LOG_PROMPTS: &str = "GEMINI_TELEMETRY_LOG_PROMPTS";
    pub const TELEMETRY_OUTFILE: &str = "GEMINI_TELEMETRY_OUTFILE";
    pub const TELEMETRY_USE_COLLECTOR: &str = "GEMINI_TELEMETRY_USE_COLLECTOR";
    pub const TELEMETRY_USE_CLI_AUTH: &str = "GEMINI_TELEMETRY_USE_CLI_AUTH";
}

/// Environment variables and the working directory of this run.
#[derive(Debug, Clone, Default)]
pub struct Env {
    vars: BTreeMap<String, String>,
    cwd: PathBuf,
    uid: Option<u32>,
    is_gemini: bool,
    lent: Vec<PathBuf>,
}

impl Env {
    /// An environment from given values; tests build theirs with it.
    pub fn new(vars: impl IntoIterator<Item = (String, String)>, cwd: PathBuf) -> Self {
        Self { vars: vars.into_iter().collect(), cwd, uid: None, is_gemini: false, lent: Vec::new() }
    }

    /// The same for this user of the machine, whose files are looked at for their owner.
    pub fn with_uid(self, uid: u32) -> Self {
        Self { uid: Some(uid), ..self }
    }

    /// The same for a program that was called as `gemini`, whose scripts expect gemini-cli's output.
    pub fn called_as_gemini(self) -> Self {
        Self { is_gemini: true, ..self }
    }

    /// The same with more folders that the user gave to tools and commands.
    pub fn with_lent(self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { lent: folders.into_iter().collect(), ..self }
    }

    /// Folders that tools and commands may write, in addition to the working directory.
    pub fn lent(&self) -> &[PathBuf] {
        &self.lent
    }

    /// The dialect of output where nothing names one.
    pub fn usual_dialect(&self) -> &'static str {
        if self.is_gemini { "gemini-cli" } else { "pollux" }
    }

    /// The number of the user that the program runs as, where users have numbers.
    pub fn uid(&self) -> Option<u32> {
        self.uid
    }

    /// The value of a variable; an empty one counts as set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str)
    }

    /// The value of a variable if it is not empty.
    pub fn non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Whether a variable says yes (`true` or `1`).
    pub fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "TRUE" | "True" | "1"))
    }

    /// Sets a variable that is not set yet; an existing one is never overwritten.
    pub fn set_default(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.vars.entry(name.into()).or_insert_with(|| value.into());
    }

    /// The same environment with only some of its variables.
    pub fn filtered(&self, keep: impl Fn(&str, &str) -> bool) -> Self {
        let kept = self.vars.iter().filter(|(name, value)| keep(name, value));
        let vars = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { vars, ..self.clone() }
    }

    /// The same environment in another working directory.
    pub fn in_folder(&self, cwd: PathBuf) -> Self {
        let mut vars = self.vars.clone();
        if let Some(pwd) = vars.get_mut("PWD") {
            *pwd = cwd.to_string_lossy().into_owned();
        }
        Self { vars, cwd, uid: self.uid, is_gemini: self.is_gemini, lent: self.lent.clone() }
    }

    /// The working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// All variables in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.vars.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
