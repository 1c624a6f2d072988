//! What happens to contents on their way into a capsule.

use pollux_config::paths::sha256_hex;
use pollux_domain::JsonObject;
use pollux_domain::redact::holds_secret;
use serde_json::Value;
use uuid::Uuid;

use crate::private::Private;

/// Digits of a placeholder's hash: enough to tell the texts of a session apart.
const HASH: usize = 10;
/// The longest name that is kept as it is.
const MAX_NAME: usize = 64;
const MAX_ARGUMENT_NAME: usize = 32;

/// How contents are treated.
#[derive(Debug)]
pub enum Concealment {
    /// Replaced by placeholders, which are equal where the contents are. The key is never stored, so nobody can find out
    /// whether a placeholder means a text that they guess.
    Hide { key: String, private: Private },
    /// Kept without secrets.
    Redact(Private),
    /// Kept; for what a replay recorded, whose contents come from a capsule.
    Keep,
}

impl Concealment {
    /// Hides everything, with a new key.
    pub fn hide(private: Private) -> Self {
        Self::Hide { key: format!("{}{}", Uuid::new_v4(), Uuid::new_v4()), private }
    }

    /// A text of the user, the model or a tool.
    pub fn text(&self, text: &str) -> String {
        match self {
            Self::Hide { .. } if text.is_empty() => String::new(),
            Self::Hide { key, .. } => format!("text({}) {}", text.chars().count(), hash(key, text)),
            Self::Redact(private) => private.removed_from(text),
            Self::Keep => text.to_owned(),
        }
    }

    /// The name of a tool, a model, a server or a setting. Hidden only if it does not look like one.
    pub fn name(&self, name: &str) -> String {
        match self {
            Self::Hide { key, private } if !is_plain(name, private) => format!("hidden_{}", hash(key, name)),
            Self::Hide { .. } | Self::Keep => name.to_owned(),
            Self::Redact(private) => private.removed_from(name),
        }
    }

    /// The arguments of a call: hidden ones keep their names.
    pub fn arguments(&self, args: &JsonObject) -> JsonObject {
        match self {
            Self::Hide { .. } => {
                args.iter().map(|(name, value)| (self.argument_name(name), self.argument(value))).collect()
            }
            Self::Redact(private) => match private.removed_from_value(&Value::Object(args.clone())) {
                Value::Object(args) => args,
                _ => JsonObject::new(),
            },
            Self::Keep => args.clone(),
        }
    }

    fn argument_name(&self, name: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '-');
        match self {
            Self::Hide { key, .. } if name.len() > MAX_ARGUMENT_NAME || !name.chars().all(is_word) => {
                format!("hidden_{}", hash(key, name))
            }
            _ => self.name(name),
        }
    }

    fn argument(&self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) => value.clone(),
            Value::String(text) => Value::String(self.text(text)),
            other => Value::String(self.text(&other.to_string())),
        }
    }
}

fn hash(key: &str, text: &str) -> String {
    let mut hash = sha256_hex(format!("{key}\n{text}").as_bytes());
    hash.truncate(HASH);
    hash
}

fn is_plain(name: &str, private: &Private) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '@');
    // A path or an address says more than a name.
    let is_place = name.starts_with(['/', '.']) || name.contains("//");
    !name.is_empty()
        && !is_place
        && name.len() <= MAX_NAME
        && name.chars().all(is_sign)
        && !holds_secret(name)
        && !private.is_in(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hide() -> Concealment {
        let mut private = Private::default();
        private.home("/home/ada");
        Concealment::hide(private)
    }

    #[test]
    fn equal_texts_have_equal_placeholders_only_within_a_capsule() {
        let (one, other) = (hide(), hide());
        assert_eq!(one.text("möhre"), one.text("möhre"));
        assert!(one.text("möhre").starts_with("text(5) "));
        assert_ne!(one.text("möhre"), one.text("melon"));
        assert_ne!(one.text("möhre"), other.text("möhre"));
        assert_eq!(one.text(""), "");
    }

    #[test]
    fn names_stay_unless_they_could_be_something_else() {
        let hide = hide();
        for name in ["read_file", "mcp_git_log", "gemini-2.5-pro", "lab/model:7b"] {
            assert_eq!(hide.name(name), name);
        }
        for name in [
            "",
            "two words",
            "ghp_1234567890abcdefghijklmnop",
            "/home/ada/m.gguf",
            "/srv/customer/m.gguf",
            "./m.gguf",
            "../customer/m.gguf",
            "http://llm.customer.test:8080/v1",
            "customer//m",
            "x\u{1b}[2J",
            "ada",
        ] {
            assert!(hide.name(name).starts_with("hidden_"), "{name}");
        }
        assert!(hide.name(&"x".repeat(65)).starts_with("hidden_"));
    }

    #[test]
    fn arguments_keep_their_names_and_whether_they_are_equal() {
        // The hashes are random: what must not occur in them has letters that they cannot have.
        let args =
            json!({"path": "/home/max/a", "n": 4711, "deep": {"hunter2": [1]}, "on": true, "pin4711": 1});
        let hidden = Value::Object(hide().arguments(args.as_object().unwrap())).to_string();
        for secret in ["/max", ":4711", "pin4711", "hunter2"] {
            assert!(!hidden.contains(secret), "{hidden}");
        }
        assert!(hidden.contains(r#""path":"text(11) "#) && hidden.contains(r#""on":true"#), "{hidden}");
        let redact = Concealment::Redact(Private::default());
        let args = json!({"command": "curl -H 'Authorization: Bearer abcdefghijklmnop1234'"});
        let kept = Value::Object(redact.arguments(args.as_object().unwrap())).to_string();
        assert!(kept.contains("curl") && !kept.contains("abcdefghijklmnop1234"), "{kept}");
    }
}
