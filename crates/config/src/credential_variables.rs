//! Environment variables that hold credentials: which ones, and the environment without them.
//!
//! Used wherever variables leave the program: the environment of child processes, and texts of projects and
//! extensions that refer to variables. Does not own the user's exceptions (`groups::Redaction`).

use pollux_domain::model::BuiltInProvider;
use pollux_domain::redact::holds_secret;
use serde_json::Value;

use crate::env::Env;

/// Endings of names that always mean a credential.
const ENDINGS: &[&str] = &[
    "_TOKEN",
    "_SECRET",
    "_KEY",
    "_APIKEY",
    "_CREDENTIALS",
    "_CREDS",
    "_PASS",
    "_PASSPHRASE",
    "_PWD",
    "_PAT",
    "_COOKIE",
    // Headers of requests to models and collectors; one of them may be the key.
    "_CUSTOM_HEADERS",
    "_OTLP_HEADERS",
    "_OTLP_LOGS_HEADERS",
    "_OTLP_METRICS_HEADERS",
    "_OTLP_TRACES_HEADERS",
];
const NAMES: &[&str] = &["TOKEN", "SECRET", "APIKEY", "SSHPASS"];

/// What providers read besides the keys of the built-in table and `POLLUX_<ID>_API_KEY`: tokens, headers, accounts.
const OF_PROVIDERS: &[&str] = &[
    "ANTHROPIC_CUSTOM_HEADERS",
    "GEMINI_API_KEY",
    "GEMINI_CLI_CUSTOM_HEADERS",
    "GOOGLE_API_KEY",
    "GOOGLE_CLOUD_ACCESS_TOKEN",
    "OPENAI_ORGANIZATION",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT",
    "OPENAI_PROJECT_ID",
];

/// Spellings of the settings that name a key's variable, and of those that name variables of headers.
const KEY_SETTINGS: [&str; 2] = ["envKey", "env_key"];
const HEADER_SETTINGS: [&str; 2] = ["envHeaders", "env_http_headers"];

/// Whether a variable contains a credential; the name is in capitals.
pub fn is_credential(upper: &str, value: &str) -> bool {
    ENDINGS.iter().any(|ending| upper.ends_with(ending))
        || NAMES.contains(&upper)
        || upper.contains("PASSWORD")
        || upper.contains("PASSWD")
        || is_of_a_provider(upper)
        || holds_secret(value)
}

fn is_of_a_provider(upper: &str) -> bool {
    OF_PROVIDERS.contains(&upper) || BuiltInProvider::key_variables().any(|key| key == upper)
}

/// The variables of model providers, those that the user's settings name included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderKeys {
    named: Vec<String>,
}

impl ProviderKeys {
    /// Reads the names from the `providers` setting.
    pub fn of_settings(providers: &Value) -> Self {
        let mut keys = Self::default();
        let entries = providers.as_object().into_iter().flat_map(|providers| providers.values());
        // opencode keeps its own in `options`.
        for entry in entries.flat_map(|entry| [Some(entry), entry.get("options")]).flatten() {
            for name in KEY_SETTINGS.iter().filter_map(|key| entry.get(*key)?.as_str()) {
                keys.add(name);
            }
            let headers = HEADER_SETTINGS.iter().filter_map(|key| entry.get(*key)?.as_object());
            headers
                .flat_map(|headers| headers.values())
                .filter_map(Value::as_str)
                .for_each(|name| keys.add(name));
        }
        keys
    }

    /// Adds a variable that was named elsewhere, such as on the command line.
    pub fn add(&mut self, name: &str) {
        let name = name.trim();
        if !name.is_empty() && !self.contains(name) {
            self.named.push(name.to_owned());
        }
    }

    /// The variables that settings or the command line name.
    pub fn named(&self) -> &[String] {
        &self.named
    }

    /// Whether a variable is one of them.
    pub fn contains(&self, name: &str) -> bool {
        let upper = name.to_uppercase();
        let of_some_provider = upper.starts_with("POLLUX_") && upper.ends_with("_API_KEY");
        of_some_provider || is_of_a_provider(&upper) || self.is_named(name)
    }

    /// Whether settings or the command line name it.
    pub fn is_named(&self, name: &str) -> bool {
        self.named.iter().any(|named| named.eq_ignore_ascii_case(name))
    }

    /// The environment for texts that the user did not write: a reference to a key of theirs finds nothing.
    pub fn removed_from(&self, env: &Env) -> Env {
        env.filtered(|name, _| !self.contains(name))
    }

    /// The same without any credential.
    pub fn and_credentials_removed_from(&self, env: &Env) -> Env {
        env.filtered(|name, value| !self.contains(name) && !is_credential(&name.to_uppercase(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_come_from_every_spelling_of_the_setting() {
        let keys = ProviderKeys::of_settings(&json!({
            "lab": {"envKey": "LAB_ACCESS", "envHeaders": {"X-Org": "LAB_ORG"}},
            "codex": {"env_key": "CODEX_PASSAGE", "env_http_headers": {"X-A": "A_HEADER"}},
            "opencode": {"options": {"envKey": "NESTED"}},
            "odd": 3,
        }));
        assert_eq!(keys.named(), ["LAB_ACCESS", "LAB_ORG", "CODEX_PASSAGE", "A_HEADER", "NESTED"]);
        for name in ["lab_access", "ANTHROPIC_API_KEY", "POLLUX_LAB_API_KEY", "ANTHROPIC_CUSTOM_HEADERS"] {
            assert!(keys.contains(name), "{name}");
        }
        assert!(!keys.contains("EXA_API_KEY") && !keys.contains("GITHUB_TOKEN") && !keys.contains("EDITOR"));
    }

    #[test]
    fn an_environment_is_lent_without_keys() {
        let vars = [("LAB", "x"), ("OPENAI_API_KEY", "x"), ("GITHUB_TOKEN", "x"), ("EDITOR", "vi")];
        let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value.to_owned())), "/".into());
        let mut keys = ProviderKeys::default();
        keys.add("LAB");
        let left = |env: &Env| env.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(left(&keys.removed_from(&env)), ["EDITOR", "GITHUB_TOKEN"]);
        assert_eq!(left(&keys.and_credentials_removed_from(&env)), ["EDITOR"]);
    }
}
