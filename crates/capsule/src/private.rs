//! What identifies a user or opens something of theirs, and removing it from texts.

use pollux_domain::redact::{MASK, find, is_secret_name, redacted};
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
            text = replaced(&text, home, "~", |_| true);
        }
        for name in &self.names {
            text = replaced(&text, name, "user", begins_word);
        }
        text
    }

    /// The value without it, in names as well as in values. Whatever has the name of a secret is masked.
    pub fn removed_from_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.removed_from(text)),
            Value::Array(items) => items.iter().map(|item| self.removed_from_value(item)).collect(),
            Value::Object(fields) => {
                let clean = |(name, value): (&String, &Value)| {
                    let value = match is_secret_name(name) && holds_something(value) {
                        true => Value::String(MASK.to_owned()),
                        false => self.removed_from_value(value),
                    };
                    (self.removed_from(name), value)
                };
                Value::Object(fields.iter().map(clean).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Whether a text holds any of it.
    pub fn is_in(&self, text: &str) -> bool {
        self.removed_from(text) != text
    }
}

/// Whether a value could be a secret.
fn holds_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// The text with a name or path replaced where no word goes on after it, in whatever case it is written. `begins` says
/// whether it may follow the text before.
fn replaced(text: &str, known: &str, by: &str, begins: impl Fn(&str) -> bool) -> String {
    let mut clean = String::new();
    let mut copied = 0;
    for (at, _) in text.char_indices() {
        let end = at + known.len();
        let is_known =
            at >= copied && text.get(at..end).is_some_and(|found| found.eq_ignore_ascii_case(known));
        let (Some(before), Some(rest)) = (text.get(..at), text.get(end..)) else { continue };
        if is_known && !rest.starts_with(char::is_alphanumeric) && begins(before) {
            clean.push_str(text.get(copied..at).unwrap_or_default());
            clean.push_str(by);
            copied = end;
        }
    }
    clean.push_str(text.get(copied..).unwrap_or_default());
    clean
}

/// Whether a word can begin after this text: not after a letter, unless that ends an escape sequence.
fn begins_word(before: &str) -> bool {
    if !before.ends_with(char::is_alphanumeric) {
        return true;
    }
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match before.as_bytes() {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'%', a, b] if is_hex(&[*a, *b]) => true,
        [.., b'\\', b'u', a, b, c, d] if is_hex(&[*a, *b, *c, *d]) => true,
        // A colour, as in `[31m`.
        _ => before.strip_suffix(|last: char| last.is_ascii_alphabetic()).is_some_and(|rest| {
            rest.trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == ';').ends_with('[')
        }),
    }
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
            ("/home/adam and /home/ada.txt, /home/ada", "/home/adam and ~.txt, ~"),
            ("-I/home/ada/include", "-I~/include"),
            (r"first\nada wrote\tada\u001b[1mada", r"first\nuser wrote\tuser\u001b[1muser"),
            ("file:%2F%2Fhome%2fada%2Fx", "file:%2F%2Fhome%2fuser%2Fx"),
            ("\u{1b}[01;32mada@box", "\u{1b}[01;32muser@box"),
            (r"C:\nadav canada", r"C:\nadav canada"),
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
    fn whatever_has_the_name_of_a_secret_is_masked() {
        let value = json!({
            "pin": 1, "passcode": 471_108, "password": ["a", "b"], "credentials": {"user": "x", "n": 3},
            "token": "", "secret": null, "cookie": true, "deep": [{"api_key": 7}],
        });
        let masked = json!({
            "pin": 1, "passcode": "***", "password": "***", "credentials": "***",
            "token": "", "secret": null, "cookie": true, "deep": [{"api_key": "***"}],
        });
        assert_eq!(private().removed_from_value(&value), masked);
    }

    #[test]
    fn accounts_that_every_machine_has_are_no_names() {
        let mut private = Private::default();
        private.home("/root");
        assert_eq!(private.removed_from("the root of /root/x"), "the root of ~/x");
    }
}
