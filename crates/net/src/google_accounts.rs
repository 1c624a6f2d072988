//! `google_accounts.json`: the active and earlier Google accounts.

use std::path::{Path, PathBuf};

use pollux_config::edit_file::{ObjectError, change_object, read_object};
use serde_json::{Map, Value, json};

const FILE: &str = "google_accounts.json";

/// The accounts by e-mail address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoogleAccounts {
    pub active: Option<String>,
    pub old: Vec<String>,
}

impl GoogleAccounts {
    /// What the file says; one that cannot be understood says nothing.
    pub fn read(gemini_dir: &Path) -> Self {
        Self::of(&read_object(&gemini_dir.join(FILE)).unwrap_or_default())
    }

    fn of(object: &Map<String, Value>) -> Self {
        let old = object.get("old").and_then(Value::as_array).into_iter().flatten();
        Self {
            active: object.get("active").and_then(Value::as_str).map(str::to_owned),
            old: old.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    /// Makes an account the active one. Returns the path to which a damaged file was moved.
    pub fn activate(gemini_dir: &Path, email: &str) -> Result<Option<PathBuf>, ObjectError> {
        Self::change(gemini_dir, |accounts| {
            accounts.retire();
            accounts.old.retain(|known| known != email);
            accounts.active = Some(email.to_owned());
        })
    }

    /// Clears the active account. Returns the path to which a damaged file was moved: it may name one.
    pub fn sign_out(gemini_dir: &Path) -> Result<Option<PathBuf>, ObjectError> {
        match read_object(&gemini_dir.join(FILE)) {
            Ok(object) if Self::of(&object).active.is_none() => Ok(None),
            Ok(_) | Err(_) => Self::change(gemini_dir, Self::retire),
        }
    }

    fn retire(&mut self) {
        if let Some(active) = self.active.take()
            && !self.old.contains(&active)
        {
            self.old.push(active);
        }
    }

    fn change(gemini_dir: &Path, change: impl Fn(&mut Self)) -> Result<Option<PathBuf>, ObjectError> {
        change_object(&gemini_dir.join(FILE), |object| {
            let mut accounts = Self::of(object);
            change(&mut accounts);
            object.insert("active".to_owned(), json!(accounts.active));
            object.insert("old".to_owned(), json!(accounts.old));
        })
    }
}

#[cfg(test)]
mod tests {
    use pollux_config::files::{self, Mode};

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
    #[test]
    fn unknown_fields_stay_and_a_damaged_file_is_kept_under_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, file) = (folder.path(), folder.path().join(FILE));
        let known = "\u{feff}{\"active\": \"a@x\", \"old\": [], \"tier\": {\"a@x\": \"pro\"}}";
        files::replace(&file, known.as_bytes(), Mode::Private).unwrap();
        assert_eq!(GoogleAccounts::activate(dir, "b@x").unwrap(), None);
        let text = files::read_text(&file).unwrap().unwrap();
        let now = json!({"active": "b@x", "old": ["a@x"], "tier": {"a@x": "pro"}});
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), now);
        let torn = "{\"active\": \"b@x\", \"ol";
        files::replace(&file, torn.as_bytes(), Mode::Private).unwrap();
        let aside = GoogleAccounts::sign_out(dir).unwrap().unwrap();
        assert_eq!(files::read_text(&aside).unwrap().as_deref(), Some(torn));
        assert_eq!(GoogleAccounts::read(dir), GoogleAccounts::default());
    }
}
