//! The model providers of a run: the one it starts with, and clients for the others on demand. [`set`] has the
//! operations behind `pollux providers` and `pollux models`.

mod key_command;
mod run;
pub mod set;

pub(crate) use run::{RunProviders, missing_key};

use std::cell::OnceCell;
use std::collections::BTreeSet;

use pollux_config::env::Env;
use pollux_config::groups::Secret;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{Dialect, ModelInfo};
use pollux_model::auth::{self};
use pollux_model::catalogue::live::{LiveFile, LiveModels};
use pollux_model::providers::{
    DefaultReason, KeyPlace, Location, Provider, Providers, ToolMode, model_facts, read_settings,
};
use pollux_model::router::{GGUF, full_name, is_alias};
use pollux_net::credentials::{API_KEY_SERVICE, CredentialError, CredentialStore};

use serde_json::Value;

use crate::credentials::Credentials;
use crate::loaded::Loaded;
use crate::project_providers;

/// Google's providers, whose credentials are chosen in `auth`.
pub(crate) const GOOGLE: [&str; 2] = ["gemini", "vertex"];

/// The provider that a run starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartProvider {
    pub id: String,
    /// A line for stderr, if the user did not name it.
    pub note: Option<String>,
    /// Why it was chosen, if the user did not name it.
    pub reason: Option<DefaultReason>,
}

/// The stored key of a provider.
pub fn stored_key(store: &CredentialStore, provider: &str) -> Result<Option<Secret>, CredentialError> {
    let found = store.credentials(API_KEY_SERVICE, &account(provider))?;
    Ok(found.map(|found| found.token.access_token))
}

/// The account under which a provider's key is stored.
pub fn account(provider: &str) -> String {
    format!("provider:{provider}")
}

/// The environment without variables from the project's `.env` files: a project must choose neither keys nor
/// addresses.
pub(crate) fn own_env(loaded: &Loaded) -> Env {
    let kept = loaded.env.iter().filter(|(name, _)| !loaded.is_of_project(name));
    Env::new(kept.map(|(name, value)| (name.to_owned(), value.to_owned())), loaded.env.cwd().to_path_buf())
}

/// The source of a provider's key in the environment, if any.
pub(crate) fn users_key(providers: &Providers<'_>, id: &str) -> Option<String> {
    let provider = providers.find(id)?;
    match providers.key_in_environment(&provider, None)?.source {
        KeyPlace::Variable(name) => Some(name),
        KeyPlace::Stored | KeyPlace::Command => Some("stored key".to_owned()),
    }
}

/// Which providers the user has a key for: in the environment, from a command, or stored.
pub(crate) struct Keys<'a> {
    loaded: &'a Loaded,
    providers: &'a Providers<'a>,
    /// The accounts of the credential store, which is read only if it matters.
    stored: OnceCell<BTreeSet<String>>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(loaded: &'a Loaded, providers: &'a Providers<'a>) -> Self {
        Self { loaded, providers, stored: OnceCell::new() }
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        let Some(provider) = self.providers.find(id) else { return false };
        self.providers.key_in_environment(&provider, None).is_some()
            || !provider.key_command().is_empty()
            || self.stored.get_or_init(|| stored_providers(self.loaded)).contains(&account_entry(id))
    }

    /// The provider that a model's name means; `None` if the name alone does not tell.
    pub(crate) fn provider_of(&self, name: &str) -> Option<String> {
        // An explicit provider wins over what a bare name suggests.
        let explicit = self.loaded.groups.model.provider.is_some();
        // A key that the command line names is that of the model's family.
        let has_family = |id: &str| self.loaded.api_key_env.is_some() || self.has(id);
        self.providers.split(name, |id| !explicit && has_family(id)).provider
    }
}

/// The providers that requests may go to: those that the user named in settings, on the command line or in the
/// environment. A project's settings, agents and aliases cannot add one.
fn allowed_providers(loaded: &Loaded, providers: &Providers<'_>, start: &str) -> BTreeSet<String> {
    let model = &loaded.groups.model;
    let mut allowed: BTreeSet<String> = GOOGLE.iter().map(|id| (*id).to_owned()).collect();
    allowed.insert(start.to_owned());
    if let Value::Object(own) = &model.providers {
        // A test result alone does not select a provider.
        let chosen =
            |entry: &Value| !entry.as_object().is_some_and(|entry| entry.keys().all(|key| key == "probed"));
        allowed.extend(own.iter().filter(|(_, entry)| chosen(entry)).map(|(id, _)| id.clone()));
    }
    let named = model.small.iter().chain(&model.fallback);
    allowed.extend(named.filter_map(|name| providers.split(name, |_| false).provider));
    allowed.extend(project_providers::allowed(loaded));
    allowed
}

/// Finds the provider of a run. `None` means one of Google's, selected by the credentials.
pub(crate) fn start_provider(loaded: &Loaded) -> Result<Option<StartProvider>, Failure> {
    let (settings, errors) = read_settings(&loaded.groups.model.providers);
    if let Some(error) = errors.first() {
        return Err(Failure::from_error(ExitKind::Config, error));
    }
    if let Some(id) = GOOGLE.iter().find(|id| settings.get(**id).is_some_and(|own| own.base_url.is_some())) {
        return Err(Failure::new(ExitKind::Config, format!("`providers.{id}.baseUrl` is not supported"))
            .hint("set GOOGLE_GEMINI_BASE_URL or GOOGLE_VERTEX_BASE_URL instead"));
    }
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let keys = Keys::new(loaded, &providers);
    let model = &loaded.groups.model;
    let named = keys.provider_of(&model.name).or_else(|| model.provider.clone());
    if let Some(id) = named {
        if providers.find(&id).is_none() {
            return Err(unknown(&id, &providers));
        }
        return Ok((!GOOGLE.contains(&id.as_str())).then_some(StartProvider {
            id,
            note: None,
            reason: None,
        }));
    }
    if loaded.groups.security.auth_selected.is_some() || has_google_credentials(loaded) {
        return Ok(None);
    }
    let choice = providers.default_choice(false, |provider| keys.has(provider.id));
    if GOOGLE.contains(&choice.provider.as_str()) {
        return Ok(None);
    }
    let provider =
        providers.find(&choice.provider).map(|provider| provider.name().to_owned()).unwrap_or_default();
    let note = match &choice.reason {
        DefaultReason::Gemini => None,
        DefaultReason::OnlyKey => Some(format!("Using {provider}, the only provider with an API key.")),
        DefaultReason::FirstOf(others) => Some(format!(
            "Using {provider}. API keys were also found for: {}. Set `model.provider` to choose.",
            others.join(", ")
        )),
    };
    Ok(Some(StartProvider { id: choice.provider, note, reason: Some(choice.reason) }))
}

/// The accounts of the credential store; without those of a file that cannot be read, which the request then reports.
fn stored_providers(loaded: &Loaded) -> BTreeSet<String> {
    let entries = loaded.credential_store().entries().entries;
    let keys = entries.into_iter().filter(|entry| entry.service == API_KEY_SERVICE);
    keys.map(|entry| entry.account).collect()
}

/// The account as the credential store lists it.
pub(crate) fn account_entry(provider: &str) -> String {
    account(provider).replace(':', "_")
}

/// Whether the user names Vertex AI as the provider.
pub(crate) fn wants_vertex(loaded: &Loaded) -> bool {
    let model = &loaded.groups.model;
    model.name.starts_with("vertex/") || model.provider.as_deref() == Some("vertex")
}

/// The value of the variable that `--api-key-env` names; a project's `.env` cannot supply it (exit code 41).
pub(crate) fn named_key(loaded: &Loaded) -> Result<Option<Secret>, Failure> {
    let Some(name) = &loaded.api_key_env else { return Ok(None) };
    let env = own_env(loaded);
    match env.get(name).map(str::trim).filter(|key| !key.is_empty()) {
        Some(key) => Ok(Some(Secret::new(key))),
        None => Err(Failure::new(ExitKind::Auth, format!("`--api-key-env` names {name}, which is not set"))
            .hint(format!("export {name} before running, or omit the flag"))),
    }
}

/// What is known about a run's model without a key, and how it is offered tools; `None` for Google's.
pub(crate) fn known_model(loaded: &Loaded) -> Result<Option<(ModelInfo, Option<ToolMode>)>, Failure> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let Some(start) = start_provider(loaded)? else { return Ok(None) };
    let provider = providers.find(&start.id).ok_or_else(|| unknown(&start.id, &providers))?;
    let split = providers.split(&loaded.groups.model.name, |_| false);
    // A Gemini alias is not a model of another provider.
    let named = split.provider.as_deref() == Some(start.id.as_str()) || !is_alias(&split.model);
    let model = if named { Some(split.model) } else { provider.default_model().map(str::to_owned) };
    let model = model.unwrap_or_else(|| "default".to_owned());
    let facts = if start.id == GGUF {
        model_facts(&provider, &Dialect::CHAT, LiveModels::new())
    } else {
        let location =
            providers.locate(&provider).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
        model_facts(&provider, &location.dialect, live_models(&live_file(loaded), &provider, &location))
    };
    let tools = provider.settings().and_then(|own| own.tool_mode(&model));
    let info = facts(&model);
    Ok(Some((ModelInfo { id: full_name(&start.id, &info.id), ..info }, tools)))
}

/// Checks that a provider other than Google can be used (exit code 41).
pub(crate) fn provider_credentials(loaded: &Loaded, start: StartProvider) -> Result<Credentials, Failure> {
    named_key(loaded)?;
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let provider = providers.find(&start.id).ok_or_else(|| unknown(&start.id, &providers))?;
    if start.id == GGUF {
        let model = start_model(loaded, &providers, &start.id)?;
        return Ok(Credentials::of_provider(start.id, start.note, model, None));
    }
    let refused = |error: &(dyn std::error::Error + 'static)| Failure::from_error(ExitKind::Auth, error);
    let location =
        providers.locate(&provider).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let found = providers
        .find_key(&provider, loaded.api_key_env.as_deref(), || {
            stored_key(&loaded.credential_store(), &start.id)
        })
        .map_err(|error| refused(&error))?;
    let has_key = found.is_some() || !provider.key_command().is_empty();
    if has_key {
        location.check_key(&provider).map_err(|error| refused(&error))?;
    } else if needs_key(&provider) {
        return Err(refused(&missing_key(&provider)));
    }
    let model = start_model(loaded, &providers, &start.id)?;
    let mut credentials = Credentials::of_provider(start.id, start.note, model, found.map(|found| found.key));
    credentials.api_key = has_key;
    Ok(credentials)
}

/// The concrete model that a run with this provider starts with, as `provider/model`.
fn start_model(loaded: &Loaded, providers: &Providers<'_>, id: &str) -> Result<String, Failure> {
    let name = &loaded.groups.model.name;
    let split = providers.split(name, |_| true);
    if split.provider.as_deref() == Some(id) {
        return Ok(full_name(id, &split.model));
    }
    if !is_alias(name) {
        return Ok(full_name(id, name));
    }
    let provider = providers.find(id).ok_or_else(|| unknown(id, providers))?;
    let own = provider.settings().and_then(|own| own.models.keys().next().cloned());
    match provider.default_model().map(str::to_owned).or(own) {
        Some(model) => Ok(full_name(id, &model)),
        None => Err(Failure::new(ExitKind::Config, format!("no model given for {}", provider.name()))
            .hint(format!("use `-m {id}/MODEL`, or set `model.name`"))),
    }
}

/// A user-defined provider without `envKey` may need no key.
pub(crate) fn needs_key(provider: &Provider<'_>) -> bool {
    !provider.is_local()
        && (provider.is_built_in() || provider.settings().is_some_and(|own| own.env_key.is_some()))
}

/// Whether Google's API can be used, without reading the keychain twice.
pub(crate) fn has_google_credentials(loaded: &Loaded) -> bool {
    let file = loaded.home.settings_file();
    auth::choose(&loaded.env, &loaded.groups.security, || loaded.credential_store().api_key(), &file).is_ok()
}

fn unknown(id: &str, providers: &Providers<'_>) -> Failure {
    let known: Vec<&str> = providers.all().map(|provider| provider.id).collect();
    Failure::new(ExitKind::Config, format!("unknown provider `{id}`"))
        .hint(format!("known providers: {}; add others under `providers` in your settings", known.join(", ")))
}

/// The last answer of a provider's server.
pub(crate) fn live_models(file: &LiveFile, provider: &Provider<'_>, location: &Location) -> LiveModels {
    file.read(provider.id, location.base.as_str()).map(|said| said.models).unwrap_or_default()
}

/// The file that caches the servers' answers about their models.
pub(crate) fn live_file(loaded: &Loaded) -> LiveFile {
    LiveFile::new(loaded.home.model_cache_file())
}
