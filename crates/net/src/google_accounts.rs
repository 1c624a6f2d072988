//! `google_accounts.json`: the active and earlier Google accounts.

use std::path::Path;

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use serde_json::{Value, json};

const FILE: &str = "google_accounts.json";

/// The accounts by e-mail address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoogleAccounts {
    pub active: Option<String>,
    pub old: Vec<String>,
}

/// Why the accounts could not be written.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl GoogleAccounts {
    /// What the file says; one that cannot be understood says nothing.
    pub fn read(gemini_dir: &Path) -> Self {
        let text = files::read_text(&gemini_dir.join(FILE)).ok().flatten().unwrap_or_default();
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let old = value.get("old").and_then(Value::as_array).into_iter().flatten();
        Self {
            active: value.get("active").and_then(Value::as_str).map(str::to_owned),
            old: old.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    /// Makes an account the active one.
    pub fn activate(gemini_dir: &Path, email: &str) -> Result<(), AccountsError> {
        Self::change(gemini_dir, |accounts| {
            accounts.retire();
            accounts.old.retain(|known| known != email);
            accounts.active = Some(email.to_owned());
        })
    }

    /// Clears the active account.
    pub fn sign_out(gemini_dir: &Path) -> Result<(), AccountsError> {
        if Self::read(gemini_dir).active.is_none() {
            return Ok(());
        }
        Self::change(gemini_dir, Self::retire)
    }

    fn retire(&mut self) {
        if let Some(active) = self.active.take()
            && !self.old.contains(&active)
        {
            self.old.push(active);
        }
    }

    fn change(gemini_dir: &Path, change: impl FnOnce(&mut Self)) -> Result<(), AccountsError> {
        let path = gemini_dir.join(FILE);
        let _lock = FileLock::acquire(&path)?;
        let mut accounts = Self::read(gemini_dir);
        change(&mut accounts);
        let text = format!("{:#}", json!({"active": accounts.active, "old": accounts.old}));
        Ok(files::replace(&path, text.as_bytes(), Mode::Private)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_is_left_is_remembered_once() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        GoogleAccounts::sign_out(dir).unwrap();
        assert!(!dir.join(FILE).exists());
        for email in ["a@x", "b@x", "a@x", "a@x"] {
            GoogleAccounts::activate(dir, email).unwrap();
        }
        let now = GoogleAccounts { active: Some("a@x".into()), old: vec!["b@x".into()] };
        assert_eq!(GoogleAccounts::read(dir), now);
        GoogleAccounts::sign_out(dir).unwrap();
        let text = files::read_text(&dir.join(FILE)).unwrap().unwrap();
        assert_eq!(text, "{\n  \"active\": null,\n  \"old\": [\n    \"b@x\",\n    \"a@x\"\n  ]\n}");
        files::replace(&dir.join(FILE), b"[", Mode::Private).unwrap();
        assert_eq!(GoogleAccounts::read(dir), GoogleAccounts::default());
    }
}
