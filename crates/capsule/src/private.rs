//! What identifies a user or opens something of theirs, and removing it from texts.

use pollux_domain::redact::{MASK, find, redact_value, redacted};
use serde_json::Value;

/// Shorter values are parts of ordinary words.
const MIN_SECRET: usize = 6;
const MIN_NAME: usize = 3;

/// Accounts that many machines have; their names tell nothing.
const COMMON_ACCOUNTS: &[&str] = &["root", "user", "admin", "ubuntu", "runner", "node", "home"];

/// Secrets, folders and names that no capsule may hold.
#[derive(Debug, Clone, Default)]
pub struct Private {
    /// Longest first, because one may be part of another.
    secrets: Vec<String>,
    homes: Vec<String>,
    names: Vec<String>,
}

impl Private {
    /// Adds a value that is a secret wherever it stands.
    pub fn secret(&mut self, value: &str) {
        let value = value.trim();
        if value.chars().count() >= MIN_SECRET && !self.secrets.iter().any(|known| known == value) {
            self.secrets.push(value.to_owned());
            self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// Adds the secrets that a text holds, such as a line `NAME=value`.
    pub fn secrets_in(&mut self, text: &str) {
        for secret in find(text) {
            if let Some(value) = text.get(secret.range) {
                self.secret(value);
            }
        }
    }

    /// Adds a home folder, and the user name that it ends with.
    pub fn home(&mut self, path: &str) {
        let path = path.trim_end_matches('/');
        if path.is_empty() || self.homes.iter().any(|known| known == path) {
            return;
        }
        self.homes.push(path.to_owned());
        self.homes.sort_by_key(|home| std::cmp::Reverse(home.len()));
        self.name(path.rsplit('/').next().unwrap_or_default());
    }

    /// Adds the name of a user or a machine.
    pub fn name(&mut self, name: &str) {
        let is_common = COMMON_ACCOUNTS.iter().any(|common| common.eq_ignore_ascii_case(name));
        let is_known = self.names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if name.chars().count() >= MIN_NAME && !is_common && !is_known {
            self.names.push(name.to_owned());
        }
    }

    /// The text without all of it.
    pub fn removed_from(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASK);
            }
        }
        text = redacted(&text).into_owned();
        for home in &self.homes {
            if text.contains(home.as_str()) {
                text = text.replace(home.as_str(), "~");
            }
        }
        for name in &self.names {
            text = without_word(&text, name);
        }
        text
    }

    /// The value without it, in names as well as in values.
    pub fn removed_from_value(&self, value: &Value) -> Value {
        let mut value = value.clone();
        // First, because a name says that a value is a secret.
        redact_value(&mut value);
        self.cleaned(value)
    }

    fn cleaned(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.removed_from(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.cleaned(item)).collect(),
            Value::Object(fields) => {
                let clean = |(name, value): (String, Value)| (self.removed_from(&name), self.cleaned(value));
                Value::Object(fields.into_iter().map(clean).collect())
            }
            other => other,
        }
    }

    /// Whether a text holds any of it.
    pub fn is_in(&self, text: &str) -> bool {
        self.removed_from(text) != text
    }
}

/// The text with a word replaced, in whatever case it is written.
fn without_word(text: &str, word: &str) -> String {
    let mut clean = String::new();
    let mut copied = 0;
    let mut before: Option<char> = None;
    for (at, sign) in text.char_indices() {
        let starts = at >= copied && !before.is_some_and(char::is_alphanumeric);
        before = Some(sign);
        let end = at + word.len();
        let is_word = starts && text.get(at..end).is_some_and(|found| found.eq_ignore_ascii_case(word));
        let goes_on =
            || text.get(end..).and_then(|rest| rest.chars().next()).is_some_and(char::is_alphanumeric);
        if is_word && !goes_on() {
            clean.push_str(text.get(copied..at).unwrap_or_default());
            clean.push_str("user");
            copied = end;
        }
    }
    clean.push_str(text.get(copied..).unwrap_or_default());
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn private() -> Private {
        let mut private = Private::default();
        private.home("/home/ada/");
        private.secret("correct horse");
        private.secret("short");
        private.secrets_in("DB_PASSWORD=battery-staple");
        private
    }

    #[test]
    fn homes_names_and_secrets_are_removed_wherever_they_stand() {
        let cases = [
            ("see /home/ada/work/a.rs", "see ~/work/a.rs"),
            ("Ada asked; ADA_1 and adamant stay apart", "user asked; user_1 and adamant stay apart"),
            ("it is correct horse!", "it is ***!"),
            ("printed battery-staple alone", "printed *** alone"),
            ("a short word", "a short word"),
            ("Füße von ada", "Füße von user"),
        ];
        for (text, clean) in cases {
            assert_eq!(private().removed_from(text), clean);
            assert_eq!(private().is_in(text), text != clean);
        }
    }

    #[test]
    fn names_of_fields_are_cleaned_and_say_what_is_secret() {
        let value = json!({"ada": ["/home/ada"], "apiKey": "x", "n": 1});
        assert_eq!(private().removed_from_value(&value), json!({"user": ["~"], "apiKey": "***", "n": 1}));
    }

    #[test]
    fn accounts_that_every_machine_has_are_no_names() {
        let mut private = Private::default();
        private.home("/root");
        assert_eq!(private.removed_from("the root of /root/x"), "the root of ~/x");
    }
}
