//! The `providers` setting: one object per provider.
//!
//! Spellings of codex (`base_url`, `env_key`, `wire_api`) and opencode (`npm`, `options.baseURL`) are read as well,
//! so that a block of theirs can be pasted.

use std::collections::BTreeMap;

use pollux_domain::JsonObject;
use pollux_domain::model::{BUILT_IN_PROVIDERS, Dialect};
use serde::Deserialize;
use serde_json::Value;

use super::variable_part;

/// What the user says of a provider.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSettings {
    pub name: Option<String>,
    #[serde(skip)]
    pub dialect: Option<Dialect>,
    #[serde(alias = "base_url", alias = "baseURL")]
    pub base_url: Option<String>,
    #[serde(alias = "env_key")]
    pub env_key: Option<String>,
    /// A program that prints the key; an argument list, no shell.
    #[serde(alias = "key_command")]
    pub key_command: Vec<String>,
    #[serde(alias = "http_headers")]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are in variables.
    #[serde(alias = "env_http_headers")]
    pub env_headers: BTreeMap<String, String>,
    #[serde(alias = "query_params")]
    pub query: BTreeMap<String, String>,
    pub timeouts: Timeouts,
    pub max_attempts: Option<u32>,
    pub max_concurrent: Option<u32>,
    pub tools: Option<ToolMode>,
    pub strict_tools: bool,
    /// Short prompts and few tools, or not; otherwise the models decide.
    pub compact: Option<bool>,
    pub extra_body: JsonObject,
    pub models: BTreeMap<String, ModelSettings>,
    /// `anthropic-version`, or Azure's `api-version`.
    pub api_version: Option<String>,
    /// Lets the key travel without encryption.
    pub allow_insecure: bool,
    /// The results of `pollux providers test`, by model.
    pub probed: JsonObject,
}

impl ProviderSettings {
    /// How tools are offered to a model: as the user says of it or of all, else as `pollux providers test` found out.
    pub fn tool_mode(&self, model: &str) -> Option<ToolMode> {
        let own = self.models.get(model).and_then(|row| row.tools).or(self.tools);
        own.or_else(|| {
            let works = self.probed.get(model)?.get("tools")?.as_bool()?;
            Some(if works { ToolMode::Native } else { ToolMode::Prompt })
        })
    }
}

/// How long a reply may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    pub first_byte_ms: Option<u64>,
    pub stall_ms: Option<u64>,
}

/// How tools are offered to the models of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolMode {
    /// In the words of the wire.
    Native,
    /// In the system prompt, for models that know no tools.
    Prompt,
    /// Not at all.
    None,
}

/// What the user says of a model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelSettings {
    pub context: Option<u64>,
    pub output: Option<u64>,
    #[serde(deserialize_with = "tool_mode")]
    pub tools: Option<ToolMode>,
    /// Short prompts and few tools, or not.
    pub compact: Option<bool>,
    pub images: Option<bool>,
    pub pdf: Option<bool>,
    /// `true`, `false`, or the field that carries reasoning.
    pub reasoning: Option<Value>,
    pub price: Option<Price>,
}

/// A mode by its name; `true` means native and `false` none.
fn tool_mode<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<ToolMode>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected `native`, `prompt` or `none`")]
    enum Said {
        Can(bool),
        Mode(ToolMode),
    }
    Ok(Option::<Said>::deserialize(deserializer)?.map(|said| match said {
        Said::Can(true) => ToolMode::Native,
        Said::Can(false) => ToolMode::None,
        Said::Mode(mode) => mode,
    }))
}

/// Prices in USD per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    pub input: f64,
    pub output: f64,
    pub cache_read: Option<f64>,
    pub cache_write: Option<f64>,
}

/// A mistake in the setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("invalid setting `providers.{path}`: {reason}")]
    Invalid { path: String, reason: String },
    #[error(
        "`providers.{id}.{key}` contains a key in a settings file; remove it, then store the key with \
         `pollux providers login {id}` or name a variable in `providers.{id}.envKey`"
    )]
    Key { id: String, key: String },
    #[error(
        "the providers `{first}` and `{second}` share the variable {variable}; rename one of them in `providers`"
    )]
    SameVariable { first: String, second: String, variable: String },
}

/// Headers that the program sets itself.
const RESERVED_HEADERS: &[&str] =
    &["authorization", "content-length", "host", "x-api-key", "api-key", "x-goog-api-key"];
/// Fields that would put a key into a settings file.
const KEY_FIELDS: &[&str] = &["apiKey", "api_key", "experimental_bearer_token", "token"];

/// Reads the setting. A provider with a mistake is left out and reported; the others are usable.
pub fn read_settings(value: &Value) -> (BTreeMap<String, ProviderSettings>, Vec<SettingsError>) {
    let mut providers = BTreeMap::new();
    let mut errors = Vec::new();
    let Value::Object(entries) = value else { return (providers, errors) };
    for (id, entry) in entries {
        match read(id, entry).and_then(|settings| distinct(id, &providers).map(|()| settings)) {
            Ok(settings) => {
                providers.insert(id.clone(), settings);
            }
            Err(error) => errors.push(error),
        }
    }
    (providers, errors)
}

/// Refuses an id whose variables another one has, because the key of one would go to the address of the other.
fn distinct(id: &str, others: &BTreeMap<String, ProviderSettings>) -> Result<(), SettingsError> {
    let part = variable_part(id);
    let built_in = BUILT_IN_PROVIDERS.iter().map(|row| row.id);
    let mut known = built_in.chain(others.keys().map(String::as_str));
    match known.find(|known| *known != id && variable_part(known) == part) {
        None => Ok(()),
        Some(first) => Err(SettingsError::SameVariable {
            first: first.to_owned(),
            second: id.to_owned(),
            variable: format!("POLLUX_{part}_API_KEY"),
        }),
    }
}

/// Whether an id can be a provider's.
pub fn is_provider_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn read(id: &str, entry: &Value) -> Result<ProviderSettings, SettingsError> {
    let invalid = |path: String, reason: &str| SettingsError::Invalid { path, reason: reason.to_owned() };
    if !is_provider_id(id) {
        return Err(invalid(id.to_owned(), "use only letters, digits, `-`, `_` and `.`"));
    }
    let Value::Object(object) = entry else {
        return Err(invalid(id.to_owned(), "expected an object"));
    };
    let mut object = object.clone();
    // opencode keeps its own in `options`.
    if let Some(Value::Object(options)) = object.shift_remove("options") {
        for (key, value) in options {
            object.entry(key).or_insert(value);
        }
    }
    if let Some(key) = KEY_FIELDS.iter().find(|key| object.contains_key(**key)) {
        return Err(SettingsError::Key { id: id.to_owned(), key: (*key).to_owned() });
    }
    let dialect = dialect(id, &mut object)?;
    let settings: ProviderSettings = serde_json::from_value(Value::Object(object))
        .map_err(|error| invalid(id.to_owned(), &error.to_string()))?;
    let reserved = settings.headers.keys().chain(settings.env_headers.keys());
    if let Some(name) =
        reserved.into_iter().find(|name| RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()))
    {
        return Err(invalid(format!("{id}.headers.{name}"), "this header cannot be set"));
    }
    Ok(ProviderSettings { dialect, ..settings })
}

fn dialect(id: &str, object: &mut JsonObject) -> Result<Option<Dialect>, SettingsError> {
    let Some((key, value)) =
        ["dialect", "wire_api", "npm"].iter().find_map(|key| Some((*key, object.shift_remove(*key)?)))
    else {
        return Ok(None);
    };
    let dialect = match value.as_str() {
        Some("gemini") => Dialect::GEMINI,
        Some("chat" | "@ai-sdk/openai-compatible") => Dialect::CHAT,
        Some("responses" | "@ai-sdk/openai") => Dialect::RESPONSES,
        Some("messages" | "@ai-sdk/anthropic") => Dialect::MESSAGES,
        _ => {
            return Err(SettingsError::Invalid {
                path: format!("{id}.{key}"),
                reason: "expected `chat`, `responses`, `messages` or `gemini`".to_owned(),
            });
        }
    };
    Ok(Some(dialect))
}
