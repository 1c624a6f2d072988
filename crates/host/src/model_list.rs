//! The models and providers that the user can choose, and the local servers that respond.

use std::collections::HashSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{ModelInfo, Prices};
use pollux_domain::spelling;
use pollux_domain::terminal_text::one_line;
use pollux_model::auth;
use pollux_model::catalogue::{Catalogue, known};
use pollux_model::gemini;
use pollux_model::providers::{DefaultReason, Providers, model_facts, read_settings};
use pollux_model::router::{ProviderSource, full_name};
use pollux_net::client::{self, ClientOptions};
use tokio::net::TcpStream;

use crate::VERSION;
use crate::loaded::Loaded;
use crate::providers::{
    GOOGLE, RunProviders, account_entry, has_google_credentials, live_file, live_models, missing_key,
    needs_key, own_env, start_provider, users_key,
};

/// How long a server on this machine may take to accept a connection.
const PROBE: Duration = Duration::from_millis(150);
/// How long it may take to list its models.
const LISTING: Duration = Duration::from_secs(2);

/// A model to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRow {
    /// As `-m` takes it.
    pub name: String,
    /// The model that an alias stands for now.
    pub stands_for: Option<String>,
    /// The provider's id and name.
    pub provider: String,
    pub provider_name: String,
    /// Tokens that fit its context window.
    pub context: u64,
    pub prices: Option<Prices>,
}

/// A provider to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRow {
    pub id: String,
    pub name: String,
    pub local: bool,
    /// The source of its key, never the key.
    pub key: String,
    /// The model to start with there.
    pub model: Option<String>,
}

/// The providers that can be used now: with a key, configured by the user, or Google's with credentials.
pub fn usable_providers(loaded: &Loaded) -> Vec<ProviderRow> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let stored = stored_accounts(loaded);
    let mut rows = Vec::new();
    for provider in providers.all() {
        let id = provider.id;
        let key = if id == "vertex" {
            continue;
        } else if GOOGLE.contains(&id) {
            has_google_credentials(loaded).then(|| "Google credentials".to_owned())
        } else {
            key_source(&providers, &stored, id).or_else(|| provider.settings().map(|_| "no key".to_owned()))
        };
        let Some(key) = key else { continue };
        let own = provider.settings().and_then(|own| own.models.keys().next().cloned());
        let model = provider.default_model().map(str::to_owned).or(own);
        let model = if GOOGLE.contains(&id) { Some("auto".to_owned()) } else { model };
        rows.push(ProviderRow {
            id: id.to_owned(),
            name: provider.name().to_owned(),
            local: provider.is_local(),
            key,
            model: model.map(|model| full_name(id, &model)),
        });
    }
    rows
}

fn key_source(providers: &Providers<'_>, stored: &[String], id: &str) -> Option<String> {
    let is_stored = || stored.contains(&account_entry(id)).then(|| "stored key".to_owned());
    users_key(providers, id).or_else(is_stored)
}

fn stored_accounts(loaded: &Loaded) -> Vec<String> {
    loaded.credential_store().entries().entries.into_iter().map(|entry| entry.account).collect()
}

/// The known models of all usable providers; contacts no server.
pub fn known_models(loaded: &Loaded) -> Vec<ModelRow> {
    let mut rows = Vec::new();
    for row in usable_providers(loaded) {
        rows.extend(if GOOGLE.contains(&row.id.as_str()) {
            google_models(loaded, &row)
        } else {
            provider_models(loaded, &row)
        });
    }
    rows
}

fn google_models(loaded: &Loaded, provider: &ProviderRow) -> Vec<ModelRow> {
    let catalogue = Catalogue::with_settings(&loaded.groups.model.configs);
    let catalogue = catalogue.unwrap_or_else(|_| Catalogue::built_in());
    let row = |(name, id): (String, String)| ModelRow {
        context: catalogue.info(&name).context_window,
        prices: known::prices(&id),
        stands_for: Some(id).filter(|id| *id != name),
        provider: provider.id.clone(),
        provider_name: provider.name.clone(),
        name,
    };
    catalogue.choices().into_iter().map(row).collect()
}

fn provider_models(loaded: &Loaded, row: &ProviderRow) -> Vec<ModelRow> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let Some(provider) = providers.find(&row.id) else { return Vec::new() };
    let Ok(location) = providers.locate(&provider) else { return Vec::new() };
    let live = live_models(&live_file(loaded), &provider, &location);
    let served: Vec<String> = live.keys().cloned().collect();
    let facts = model_facts(&provider, &location.dialect, live);
    let own = provider.settings().into_iter().flat_map(|own| own.models.keys().cloned());
    let mut names: Vec<String> = own.chain(known::models(&row.id).map(str::to_owned)).chain(served).collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    // The provider's default model comes first.
    let first = provider.default_model();
    names.sort_by_key(|name| Some(name.as_str()) != first);
    names.into_iter().map(|name| model_row(row, &facts(&name))).collect()
}

fn model_row(provider: &ProviderRow, info: &ModelInfo) -> ModelRow {
    ModelRow {
        name: full_name(&provider.id, &info.id),
        stands_for: None,
        provider: provider.id.clone(),
        provider_name: provider.name.clone(),
        context: info.context_window,
        prices: info.prices.clone(),
    }
}

/// Servers on this machine that accept a connection. Nothing is sent to them, and no other machine is asked.
pub async fn local_servers(loaded: &Loaded) -> Vec<ProviderRow> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let mut probes = Vec::new();
    for provider in providers.all().filter(|provider| provider.is_local()) {
        let Ok(location) = providers.locate(&provider) else { continue };
        let host = location.base.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let Some(port) = location.base.port_or_known_default() else { continue };
        let row = ProviderRow {
            id: provider.id.to_owned(),
            name: provider.name().to_owned(),
            local: true,
            key: "no key".to_owned(),
            model: None,
        };
        probes.push(tokio::spawn(async move { answers(&host, port).await.then_some(row) }));
    }
    let mut found = Vec::new();
    for probe in probes {
        found.extend(probe.await.ok().flatten());
    }
    found
}

async fn answers(host: &str, port: u16) -> bool {
    let is_loopback = |address: &SocketAddr| address.ip().is_loopback();
    // Any other name would need a DNS lookup.
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    if host.parse::<std::net::IpAddr>().is_err() {
        return false;
    }
    let Ok(mut addresses) = (host, port).to_socket_addrs() else { return false };
    let Some(address) = addresses.find(is_loopback) else { return false };
    matches!(tokio::time::timeout(PROBE, TcpStream::connect(address)).await, Ok(Ok(_)))
}

/// The models that a provider's server lists.
pub async fn served_models(loaded: &Loaded, provider: &ProviderRow) -> Result<Vec<ModelRow>, Failure> {
    let failed = |message: String| Failure::new(ExitKind::Failure, message);
    let http = client::client(&ClientOptions::from_env(&loaded.env, format!("pollux/{VERSION}")))
        .map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let source = RunProviders::new(loaded, &provider.id, http, Arc::new(Catalogue::built_in()));
    let client = source.connect(&provider.id).map_err(|error| failed(error.message))?;
    let listed = tokio::time::timeout(LISTING, client.list_models()).await;
    let listed = listed.map_err(|_| failed(format!("{} did not list its models in time", provider.name)))?;
    let listed = listed.map_err(|error| failed(error.message))?;
    Ok(listed.iter().map(|info| model_row(provider, info)).collect())
}

/// The providers with a key, if several have one and none was chosen, so that the first would be used.
pub fn undecided(loaded: &Loaded) -> Vec<ProviderRow> {
    let undecided = matches!(
        start_provider(loaded),
        Ok(Some(start)) if matches!(start.reason, Some(DefaultReason::FirstOf(_)))
    );
    if !undecided {
        return Vec::new();
    }
    usable_providers(loaded).into_iter().filter(|row| !row.local && row.key != "no key").collect()
}

/// What is odd about a model's name that is nevertheless taken: a provider that looks mistyped, or one without a key.
pub fn name_warning(loaded: &Loaded, name: &str) -> Option<String> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    if let Some(similar) = providers.similar(name) {
        return Some(format!(
            "unknown provider in `{}`; did you mean `{}`?",
            one_line(name),
            one_line(&similar)
        ));
    }
    let id = providers.split(name, |_| false).provider?;
    let provider = providers.find(&id).filter(|_| !GOOGLE.contains(&id.as_str()))?;
    let has_key = users_key(&providers, &id).is_some()
        || !provider.key_command().is_empty()
        || stored_accounts(loaded).contains(&account_entry(&id));
    (needs_key(&provider) && !has_key).then(|| missing_key(&provider).message)
}

/// A line about a chosen model that none of its provider's lists has, with similar names.
pub fn unlisted_model(loaded: &Loaded, name: &str) -> Option<String> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let split = providers.split(name, |_| false);
    // Names of other providers begin with their id.
    let id = split.provider.unwrap_or_else(|| "gemini".to_owned());
    let provider = providers.find(&id)?;
    let row = |id: &str| ProviderRow {
        id: id.to_owned(),
        name: provider.name().to_owned(),
        local: provider.is_local(),
        key: String::new(),
        model: None,
    };
    if GOOGLE.contains(&id.as_str()) {
        let known = google_models(loaded, &row("gemini")).into_iter();
        let known = known.flat_map(|row| [Some(row.name), row.stands_for]).flatten();
        let known: Vec<String> = known.chain(live_gemini(loaded)).collect();
        let bare = split.model.strip_prefix("models/").unwrap_or(&split.model);
        let is_tuned = bare.starts_with("tunedModels/");
        return if is_tuned { None } else { unknown_model(bare, provider.name(), &known) };
    }
    let known: Vec<String> = provider_models(loaded, &row(&id)).into_iter().map(|row| row.name).collect();
    unknown_model(&full_name(&id, &split.model), provider.name(), &known)
}

/// `None` if the model is known, or if no models are.
fn unknown_model(model: &str, provider: &str, known: &[String]) -> Option<String> {
    if known.is_empty() || known.iter().any(|name| name == model) {
        return None;
    }
    let similar = spelling::similar(model, known.iter().map(String::as_str));
    let quoted: Vec<String> = similar.iter().map(|name| format!("`{}`", one_line(name))).collect();
    let advice = match quoted.as_slice() {
        [] => "Run /model for a list.".to_owned(),
        names => format!("Did you mean {}?", names.join(" or ")),
    };
    let model = one_line(model);
    Some(format!("`{model}` is not among the known models of {provider}; it is used anyway. {advice}"))
}

/// The models that Google's server listed last.
fn live_gemini(loaded: &Loaded) -> Vec<String> {
    let store = || loaded.credential_store().api_key();
    let security = &loaded.groups.security;
    let auth = auth::choose(&own_env(loaded), security, store, &loaded.home.settings_file());
    let said = auth.ok().and_then(|auth| live_file(loaded).read("gemini", &gemini::address(&auth)));
    said.map(|said| said.models.into_keys().collect()).unwrap_or_default()
}

/// The line about names of the settings and the command line whose provider looks mistyped.
pub(crate) fn mistyped(loaded: &Loaded) -> Vec<String> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let model = &loaded.groups.model;
    let names = std::iter::once(&model.name).chain(&model.small).chain(&model.fallback);
    let odd = names.filter(|name| providers.similar(name).is_some());
    odd.filter_map(|name| name_warning(loaded, name)).collect()
}

/// The provider outside Google that a run without its key would start with.
pub fn wanted_provider(loaded: &Loaded) -> Option<ProviderRow> {
    let id = start_provider(loaded).ok()??.id;
    Some(ProviderRow { key: "no key".to_owned(), ..provider_outside_google(loaded, &id)? })
}

/// A provider outside Google by its id, whether or not it has a key.
pub fn provider_outside_google(loaded: &Loaded, id: &str) -> Option<ProviderRow> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let provider = providers.find(id).filter(|_| !GOOGLE.contains(&id))?;
    let key = key_source(&providers, &stored_accounts(loaded), id);
    Some(ProviderRow {
        name: provider.name().to_owned(),
        local: provider.is_local(),
        key: key.unwrap_or_else(|| "no key".to_owned()),
        model: provider.default_model().map(|model| full_name(id, model)),
        id: id.to_owned(),
    })
}

/// The providers outside Google that take a key.
pub fn providers_with_keys(loaded: &Loaded) -> Vec<ProviderRow> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    let with_keys = providers.all().filter(|provider| !GOOGLE.contains(&provider.id) && needs_key(provider));
    with_keys
        .filter(|provider| providers.locate(provider).is_ok())
        .map(|provider| ProviderRow {
            id: provider.id.to_owned(),
            name: provider.name().to_owned(),
            local: false,
            key: provider.main_key_variable(),
            model: provider.default_model().map(|model| full_name(provider.id, model)),
        })
        .collect()
}

/// Models of other usable providers, to propose when the chosen one cannot answer.
pub(crate) fn alternatives(loaded: &Loaded, start: &str) -> Vec<String> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    let providers = Providers::new(&env, &settings);
    // The credential store is not opened for this, because that may ask the user.
    let usable = providers.all().filter(|provider| provider.id != start && !GOOGLE.contains(&provider.id));
    usable
        .filter(|provider| users_key(&providers, provider.id).is_some() || provider.settings().is_some())
        .filter_map(|provider| {
            let own = provider.settings().and_then(|own| own.models.keys().next().cloned());
            let model = provider.default_model().map(str::to_owned).or(own)?;
            Some(full_name(provider.id, &model))
        })
        .collect()
}
