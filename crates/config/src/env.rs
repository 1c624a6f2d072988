//! The environment as a value, so that nothing but `main` reads the process's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Environment variables and the working directory of this run.
#[derive(Debug, Clone, Default)]
pub struct Env {
    vars: BTreeMap<String, String>,
    cwd: PathBuf,
}

impl Env {
    /// An environment from given values; tests build theirs with it.
    pub fn new(vars: impl IntoIterator<Item = (String, String)>, cwd: PathBuf) -> Self {
        Self { vars: vars.into_iter().collect(), cwd }
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

    /// The working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// All variables in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.vars.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
