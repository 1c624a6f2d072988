//! Changing a provider: its settings and its stored key.

use std::path::PathBuf;

use pollux_config::groups::Secret;
use pollux_config::settings;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock};
use pollux_model::providers::{KeyPlace, Providers, is_provider_id, read_settings};
use pollux_net::credentials::{API_KEY_SERVICE, OAuthCredentials};
use serde_json::{Value, json};

use super::super::{GOOGLE, account};
use super::ProviderSet;
use crate::auth::{Reached, failed, key, place_of};
use crate::settings::unwritten;

/// Names that users try for subscriptions, which work only with their own programs.
const SUBSCRIPTIONS: &[&str] =
    &["chatgpt", "chat-gpt", "codex", "claude", "claude-code", "claude-ai", "claude.ai", "claude-pro"];
const MAX_KEY: usize = 8 * 1024;

/// A provider to write into the user settings; `None` leaves a value as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewProvider {
    pub id: String,
    pub base_url: String,
    pub name: Option<String>,
    pub dialect: Option<String>,
    pub env_key: Option<String>,
    /// `native`, `prompt` or `none`.
    pub tools: Option<String>,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    pub allow_insecure: bool,
}

/// A key that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    pub place: String,
    pub notes: Vec<String>,
}

impl ProviderSet {
    /// Writes a provider into the user settings. Returns the file and whether the provider was there before.
    pub fn add(&self, new: &NewProvider) -> Result<(PathBuf, bool), Failure> {
        let invalid = |text: String| Failure::new(ExitKind::Input, text);
        if !is_provider_id(&new.id) {
            let text = format!("invalid provider id `{}`", new.id);
            return Err(invalid(text).hint("use only letters, digits, `-`, `_` and `.`"));
        }
        if GOOGLE.contains(&new.id.as_str()) {
            return Err(invalid(format!("`providers.{}.baseUrl` is not supported", new.id))
                .hint("set GOOGLE_GEMINI_BASE_URL or GOOGLE_VERTEX_BASE_URL instead"));
        }
        let file = self.loaded.home.settings_file();
        let failed = |error: &(dyn std::error::Error + 'static)| Failure::from_error(ExitKind::Config, error);
        let before = settings::read_object(&file).map_err(|error| failed(&error))?;
        let before = before.and_then(|object| object.get("providers")?.get(&new.id).cloned());
        let fields = fields(new);
        self.check_new(new, &fields)?;
        let mut written = before.clone().unwrap_or(Value::Null);
        if written.is_object() {
            // The user's comments and other fields stay.
            for (key, value) in &fields {
                settings::set_path(&file, &["providers", &new.id, key], value)
                    .map_err(|error| unwritten(&error))?;
            }
        } else {
            written = Value::Object(fields.into_iter().collect());
            settings::set_path(&file, &["providers", &new.id], &written)
                .map_err(|error| unwritten(&error))?;
        }
        Ok((file, before.is_some()))
    }

    /// Checks the entry together with the user's others, before anything is written.
    fn check_new(&self, new: &NewProvider, fields: &[(String, Value)]) -> Result<(), Failure> {
        let refused = |error: &(dyn std::error::Error + 'static)| Failure::from_error(ExitKind::Input, error);
        let mut all = self.loaded.groups.model.providers.clone();
        if !all.is_object() {
            all = json!({});
        }
        let Some(entries) = all.as_object_mut() else { return Ok(()) };
        let entry = entries.entry(new.id.clone()).or_insert_with(|| json!({}));
        if let Some(entry) = entry.as_object_mut() {
            entry.extend(fields.iter().cloned());
        }
        let (settings, errors) = read_settings(&all);
        let known = |error: &&_| !self.errors.contains(error);
        if let Some(error) = errors.iter().find(known) {
            return Err(refused(error));
        }
        // The address in the settings counts here, not one in a variable.
        let env = pollux_config::env::Env::default();
        let providers = Providers::new(&env, &settings);
        let Some(provider) = providers.find(&new.id) else { return Ok(()) };
        let location = providers.locate(&provider).map_err(|error| refused(&error))?;
        match location.check_key(&provider) {
            Err(error) if new.env_key.is_some() => Err(refused(&error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Stores a provider's key, replacing the previous one.
    pub fn login(&self, id: &str, typed: &str) -> Result<StoredKey, Failure> {
        let key = self.checked_key(id, typed)?;
        let entry = OAuthCredentials::api_key(&account(id), &key, SystemClock.now().millis());
        let store = self.loaded.credential_store();
        let backend = store.set_credentials(API_KEY_SERVICE, &entry).map_err(|error| failed(&error))?;
        let provider = self.find(id)?;
        let mut notes = Vec::new();
        let variable = self.providers().key_in_environment(&provider, None).map(|found| found.source);
        if let Some(KeyPlace::Variable(name)) = variable {
            notes.push(format!("Note: {name} is set and takes precedence over the stored key."));
        }
        Ok(StoredKey { place: place_of(&store, &backend), notes })
    }

    /// The key that was typed, if it can be stored for a provider.
    pub fn checked_key(&self, id: &str, typed: &str) -> Result<Secret, Failure> {
        self.can_login(id)?;
        if GOOGLE.contains(&id) { key::checked(typed) } else { check_key(id, typed) }
    }

    /// Checks that a key can be stored for a provider, before asking for one.
    pub fn can_login(&self, id: &str) -> Result<(), Failure> {
        if SUBSCRIPTIONS.contains(&id.to_ascii_lowercase().as_str()) {
            return Err(subscription());
        }
        if id == "vertex" {
            let text = "Vertex AI uses Google's credentials, not a stored key";
            return Err(Failure::new(ExitKind::Input, text).hint(
                "run `gcloud auth application-default login`, or set GOOGLE_API_KEY for express mode",
            ));
        }
        self.find(id).map(drop)
    }

    /// Removes the stored key of a provider from every place that works; returns whether one was stored.
    pub fn logout(&self, id: &str) -> Result<Reached<bool>, Failure> {
        self.find(id)?;
        let removal = self.loaded.credential_store().delete_credentials(API_KEY_SERVICE, &account(id));
        let keychain_missing = removal.unreached.map(|reason| reason.to_string());
        Ok(Reached { result: removal.removed, keychain_missing, unread: removal.unread })
    }

    /// The source of the key that remains, if any.
    pub fn key_left(&self, id: &str) -> Option<String> {
        let provider = self.providers().find(id)?;
        let variable = self.providers().key_in_environment(&provider, None).map(|found| found.source);
        match variable {
            Some(KeyPlace::Variable(name)) => Some(name),
            _ => (!provider.key_command().is_empty()).then(|| "key command".to_owned()),
        }
    }
}

fn fields(new: &NewProvider) -> Vec<(String, Value)> {
    let text = |key: &str, value: &Option<String>| Some((key.to_owned(), Value::from(value.clone()?)));
    let mut fields = vec![("baseUrl".to_owned(), Value::from(new.base_url.trim()))];
    fields.extend(text("name", &new.name));
    fields.extend(text("dialect", &new.dialect));
    fields.extend(text("envKey", &new.env_key));
    fields.extend(text("tools", &new.tools));
    if !new.headers.is_empty() {
        let headers = new.headers.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        fields.push(("headers".to_owned(), Value::Object(headers.collect())));
    }
    if new.allow_insecure {
        fields.push(("allowInsecure".to_owned(), Value::Bool(true)));
    }
    fields
}

/// The key in the input; errors never contain any of it.
fn check_key(id: &str, typed: &str) -> Result<Secret, Failure> {
    let invalid = |problem: &str| Failure::new(ExitKind::Input, format!("invalid API key: {problem}"));
    let key = typed.trim();
    if key.is_empty() {
        return Err(invalid("it is empty"));
    }
    if key.split_whitespace().nth(1).is_some() {
        return Err(invalid("it contains spaces or several lines"));
    }
    if key.starts_with(['"', '\'', '$']) {
        return Err(invalid("enter only the key, without quotes or `$`"));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid("it contains invalid characters"));
    }
    if key.len() > MAX_KEY {
        return Err(invalid(&format!("{} characters", key.len())));
    }
    // Tokens of a signed-in subscription, as the vendors' own programs keep them.
    if (id == "anthropic" && key.starts_with("sk-ant-oat")) || (id == "openai" && key.starts_with("eyJ")) {
        return Err(subscription());
    }
    Ok(Secret::new(key))
}

fn subscription() -> Failure {
    Failure::new(
        ExitKind::Input,
        "ChatGPT and Claude subscriptions cannot be used; only API keys work",
    )
    .hint(
        "create a key at https://platform.openai.com/api-keys or https://platform.claude.com/settings/keys, then run \
         `pollux providers login openai` or `pollux providers login anthropic`",
    )
}
