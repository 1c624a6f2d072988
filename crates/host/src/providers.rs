//! The model providers of a run: the one it starts with, and clients for the others on demand. [`set`] has the
//! operations behind `pollux providers` and `pollux models`.

mod key_command;
pub mod set;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::{General, Redaction, Secret, Security};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{Chooser, Dialect, ModelClient, ModelError, ModelErrorKind, ModelInfo};
use pollux_domain::time::SystemClock;
use pollux_model::auth::{self, Auth, VertexPlace};
use pollux_model::catalogue::Catalogue;
use pollux_model::catalogue::live::{LiveFile, LiveModels};
use pollux_model::gemini::{self, GeminiClient, GeminiSetup};
use pollux_model::prompt_tools::ToolPlan;
use pollux_model::providers::{
    DefaultReason, EndpointParts, KeyPlace, Location, ModelName, Provider, ProviderSettings, Providers,
    ToolMode, model_facts, read_settings,
};
use pollux_model::registry::Wire;
use pollux_model::router::{GGUF, ProviderSource, full_name, is_alias};
use pollux_model::shared::endpoint::{Endpoint, Key};
use pollux_net::client::HttpClient;
use pollux_net::credentials::{API_KEY_SERVICE, CredentialError, CredentialStore};
use pollux_net::google::{CLOUD_PLATFORM, GoogleTokens, find_credentials};

use serde_json::Value;

use crate::VERSION;
use crate::auth::store;
use crate::credentials::Credentials;
use crate::gguf::{GgufClient, GgufSetup};
use crate::loaded::Loaded;
use crate::local_server::{LocalServer, ServerOptions};
use crate::memory::is_of_project;
use crate::project_model;
use key_command::KeyCommand;

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
    let kept = loaded.env.iter().filter(|(name, _)| !is_of_project(loaded, name));
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
    allowed.extend(project_model::allowed(loaded));
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

/// The accounts of the credential store; empty if it cannot be read, which the request then reports.
fn stored_providers(loaded: &Loaded) -> BTreeSet<String> {
    let listing = store(loaded).entries().map(|listing| listing.entries).unwrap_or_default();
    let keys = listing.into_iter().filter(|entry| entry.service == API_KEY_SERVICE);
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
        return Ok(Credentials::of_provider(start, model, None));
    }
    let refused = |error: &(dyn std::error::Error + 'static)| Failure::from_error(ExitKind::Auth, error);
    let location =
        providers.locate(&provider).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let found = providers
        .find_key(&provider, loaded.api_key_env.as_deref(), || stored_key(&store(loaded), &start.id))
        .map_err(|error| refused(&error))?;
    let has_key = found.is_some() || !provider.key_command().is_empty();
    if has_key {
        location.check_key(&provider).map_err(|error| refused(&error))?;
    } else if needs_key(&provider) {
        return Err(refused(&missing_key(&provider)));
    }
    let model = start_model(loaded, &providers, &start.id)?;
    let mut credentials = Credentials::of_provider(start, model, found.map(|found| found.key));
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
    auth::choose(&loaded.env, &loaded.groups.security, || store(loaded).api_key(), &file).is_ok()
}

fn unknown(id: &str, providers: &Providers<'_>) -> Failure {
    let known: Vec<&str> = providers.all().map(|provider| provider.id).collect();
    Failure::new(ExitKind::Config, format!("unknown provider `{id}`"))
        .hint(format!("known providers: {}; add others under `providers` in your settings", known.join(", ")))
}

/// Everything needed to create clients.
pub(crate) struct RunProviders {
    env: Env,
    settings: BTreeMap<String, ProviderSettings>,
    general: General,
    security: Security,
    settings_file: PathBuf,
    store: Arc<CredentialStore>,
    live: LiveFile,
    http: HttpClient,
    catalogue: Arc<Catalogue>,
    /// `model.small`
    small: Option<String>,
    /// The model that the run starts with.
    model: String,
    /// `model.provider` is set: bare names stay with it.
    explicit: bool,
    allowed: BTreeSet<String>,
    /// The provider that the run starts with.
    start: String,
    /// The provider that `--api-key-env` is for, and the variable that it names.
    named: Option<(String, String)>,
    /// `local.serverCommand`
    server_command: Vec<String>,
    /// Where child processes are registered and their logs are kept.
    logs: PathBuf,
    user_home: PathBuf,
    /// What of the environment no child gets.
    redaction: Redaction,
}

impl RunProviders {
    pub(crate) fn new(loaded: &Loaded, start: &str, http: HttpClient, catalogue: Arc<Catalogue>) -> Self {
        let (settings, _) = read_settings(&loaded.groups.model.providers);
        let env = own_env(loaded);
        let allowed = allowed_providers(loaded, &Providers::new(&env, &settings), start);
        Self {
            env,
            settings,
            allowed,
            start: start.to_owned(),
            server_command: loaded.groups.model.server_command.clone(),
            logs: loaded.home.tmp_dir().join("background-processes"),
            explicit: loaded.groups.model.provider.is_some(),
            general: loaded.groups.general.clone(),
            security: loaded.groups.security.clone(),
            settings_file: loaded.home.settings_file(),
            user_home: loaded.home.user_home().to_path_buf(),
            redaction: loaded.groups.tools.redaction.clone(),
            named: loaded.api_key_env.clone().map(|variable| (start.to_owned(), variable)),
            store: store(loaded),
            live: live_file(loaded),
            http,
            catalogue,
            small: loaded.groups.model.small.clone(),
            model: loaded.groups.model.name.clone(),
        }
    }

    fn providers(&self) -> Providers<'_> {
        Providers::new(&self.env, &self.settings)
    }

    /// The key of a provider: a variable, the stored one, or the command that prints it.
    fn key(&self, provider: &Provider<'_>) -> Result<Option<(Key, KeyPlace)>, ModelError> {
        let named =
            self.named.as_ref().filter(|(id, _)| id == provider.id).map(|(_, variable)| variable.as_str());
        let found = self.providers().find_key(provider, named, || stored_key(&self.store, provider.id));
        if let Some(found) = found.map_err(|error| refused(error.to_string()))? {
            return Ok(Some((Key::Fixed(found.key), found.source)));
        }
        let command = provider.key_command();
        if command.is_empty() {
            return Ok(None);
        }
        let source = KeyCommand::new(provider.id, command, &self.env, &self.user_home, self.logs.clone());
        Ok(Some((Key::Source(Arc::new(source.map_err(refused)?)), KeyPlace::Command)))
    }

    /// How a provider's models get tools: from its settings, or detected for servers other than a vendor's own.
    fn tool_plan(&self, provider: &Provider<'_>) -> Option<ToolPlan> {
        let own = provider.settings();
        let is_set = own.is_some_and(|own| {
            own.tools.is_some()
                || !own.probed.is_empty()
                || own.models.values().any(|model| model.tools.is_some())
        });
        if provider.is_built_in() && !provider.is_local() && !is_set {
            return None;
        }
        let own = own.cloned().unwrap_or_default();
        let mode = move |model: &str| own.tool_mode(model);
        Some(ToolPlan { mode: Arc::new(mode), grammar: provider.is_local() })
    }

    /// A client that starts a server for the file named by the model.
    fn connect_gguf(&self, provider: &Provider<'_>) -> Arc<dyn ModelClient> {
        let facts = model_facts(provider, &Dialect::CHAT, LiveModels::new());
        let models = provider.settings().map(|own| own.models.clone()).unwrap_or_default();
        let extra_body = provider.settings().map(|own| own.extra_body.clone()).unwrap_or_default();
        let plan = self.tool_plan(provider);
        let (id, http, known) = (provider.provider_id(), self.http.clone(), Arc::clone(&facts));
        let (timing, traits) = EndpointParts::local_patience(provider, &self.general);
        let connect = move |server: &LocalServer| {
            let mut endpoint = Endpoint::new(id.clone(), server.base_url(), http.clone(), Arc::clone(&known))
                .bearer(server.key.clone());
            (endpoint.timing, endpoint.traits) = (timing.clone(), traits.clone());
            endpoint.extra_body = extra_body.clone();
            let wire = Wire::of(&Dialect::CHAT).ok_or_else(|| refused("no wire".to_owned()))?;
            let client = match plan.clone() {
                Some(plan) => wire.connect_with_tools(endpoint, plan),
                None => (wire.connect)(endpoint),
            };
            client.map_err(|error| refused(error.to_string()))
        };
        Arc::new(GgufClient::new(GgufSetup {
            options: ServerOptions {
                model: PathBuf::new(),
                command: self.server_command.clone(),
                port: None,
                context: None,
                env: self.env.clone(),
                redaction: self.redaction.clone(),
                logs: self.logs.clone(),
            },
            http: self.http.clone(),
            connect: Arc::new(connect),
            facts,
            user_context: Arc::new(move |model| models.get(model).and_then(|row| row.context)),
            user_home: self.user_home.clone(),
        }))
    }

    /// The server of a provider other than Google, and its wire format.
    pub(crate) fn endpoint(&self, id: &str) -> Result<(Endpoint, &'static Wire), ModelError> {
        let providers = self.providers();
        let provider = providers.find(id).ok_or_else(|| refused(format!("unknown provider `{id}`")))?;
        let location = providers.locate(&provider).map_err(|error| refused(error.to_string()))?;
        let found = self.key(&provider)?;
        if found.is_some() || provider.settings().is_some_and(|own| !own.env_headers.is_empty()) {
            location.check_key(&provider).map_err(|error| refused(error.to_string()))?;
        }
        if found.is_none() && needs_key(&provider) {
            return Err(missing_key(&provider));
        }
        let (key, place) = found.unzip();
        let variable = place.as_ref().and_then(|place| match place {
            KeyPlace::Variable(name) => Some(name.as_str()),
            KeyPlace::Stored | KeyPlace::Command => None,
        });
        let parts = EndpointParts {
            provider: &provider,
            location: &location,
            key_advice: Some(key_advice(&provider, place.as_ref())),
            key: key.map(|key| (key, variable)),
            env: &self.env,
            general: &self.general,
            http: self.http.clone(),
            facts: model_facts(&provider, &location.dialect, live_models(&self.live, &provider, &location)),
        };
        let wire = Wire::of(&location.dialect).ok_or_else(|| {
            refused(format!("`{}` does not support the `{}` dialect", id, location.dialect.as_str()))
        })?;
        Ok((parts.endpoint(), wire))
    }

    /// The credentials of one of Google's providers, and tokens if it takes them.
    fn google(&self, id: &str) -> Result<(Auth, Option<GoogleTokens>), ModelError> {
        if id != "vertex" {
            let auth = auth::choose(&self.env, &self.security, || self.store.api_key(), &self.settings_file);
            let auth = auth.map_err(|error| refused(error.to_string()))?;
            let tokens = self.tokens(&auth)?;
            return Ok((auth, tokens));
        }
        let auth = auth::choose_vertex(&self.env, &self.security).map_err(|error| match error {
            auth::AuthError::VertexWithoutPlace => refused(
                "Vertex AI is not configured; set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or GOOGLE_API_KEY \
                 for express mode"
                    .to_owned(),
            ),
            error => refused(error.to_string()),
        })?;
        let tokens = self.tokens(&auth)?;
        Ok((auth, tokens))
    }

    fn tokens(&self, auth: &Auth) -> Result<Option<GoogleTokens>, ModelError> {
        let Some(VertexPlace::Project { .. }) = auth.vertex else { return Ok(None) };
        let found = find_credentials(&self.env, &self.user_home).map_err(|error| {
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            refused(format!("{error}{hint}"))
        })?;
        let scopes = vec![CLOUD_PLATFORM.to_owned()];
        Ok(Some(GoogleTokens::new(found, scopes, self.http.clone(), Arc::new(SystemClock))))
    }

    pub(crate) fn connect_google(&self, id: &str) -> Result<GeminiClient, ModelError> {
        let (auth, tokens) = self.google(id)?;
        let setup = GeminiSetup {
            http: self.http.clone(),
            catalogue: Arc::clone(&self.catalogue),
            env: &self.env,
            general: &self.general,
            version: VERSION,
            model: &self.model,
            auth,
            tokens,
        };
        gemini::connect(setup).map_err(|error| refused(error.to_string()))
    }
}

/// The last answer of a provider's server.
pub(crate) fn live_models(file: &LiveFile, provider: &Provider<'_>, location: &Location) -> LiveModels {
    file.read(provider.id, location.base.as_str()).map(|said| said.models).unwrap_or_default()
}

/// The file that caches the servers' answers about their models.
pub(crate) fn live_file(loaded: &Loaded) -> LiveFile {
    LiveFile::new(loaded.home.model_cache_file())
}

impl ProviderSource for RunProviders {
    fn split(&self, name: &str, by: Chooser) -> ModelName {
        let providers = self.providers();
        let is_local = |id: &str| providers.find(id).is_some_and(|provider| provider.is_local());
        let may_use = |id: &str| match by {
            Chooser::User => self.allowed.contains(id) || users_key(&providers, id).is_some(),
            Chooser::Anyone => self.allowed.contains(id),
            Chooser::Project => id == self.start || (self.allowed.contains(id) && is_local(id)),
        };
        let split = providers.split(name, |id| !self.explicit && may_use(id));
        match split.provider {
            // A name that the user did not choose stays with the provider in use.
            Some(id) if by != Chooser::User && !may_use(&id) => {
                ModelName { provider: None, model: name.to_owned() }
            }
            _ => split,
        }
    }

    fn connect(&self, id: &str) -> Result<Arc<dyn ModelClient>, ModelError> {
        if GOOGLE.contains(&id) {
            return Ok(Arc::new(self.connect_google(id)?));
        }
        if id == GGUF {
            let providers = self.providers();
            let provider = providers.find(id).ok_or_else(|| refused(format!("unknown provider `{id}`")))?;
            return Ok(self.connect_gguf(&provider));
        }
        let (endpoint, wire) = self.endpoint(id)?;
        let plan = self.providers().find(id).and_then(|provider| self.tool_plan(&provider));
        let client = match plan {
            Some(plan) => wire.connect_with_tools(endpoint, plan),
            None => (wire.connect)(endpoint),
        };
        client.map_err(|error| refused(error.to_string()))
    }

    fn default_model(&self, id: &str) -> Option<String> {
        if GOOGLE.contains(&id) {
            return None;
        }
        let providers = self.providers();
        let provider = providers.find(id)?;
        let own = provider.settings().and_then(|settings| settings.models.keys().next());
        provider.default_model().map(str::to_owned).or_else(|| own.cloned())
    }

    fn small_model(&self, id: &str) -> Option<String> {
        if let Some(small) = &self.small {
            return Some(small.clone());
        }
        if GOOGLE.contains(&id) {
            return None;
        }
        let providers = self.providers();
        let small = providers.find(id)?.small_model().map(str::to_owned);
        small.or_else(|| self.default_model(id)).map(|model| full_name(id, &model))
    }
}

/// The error for a missing key.
pub(crate) fn missing_key(provider: &Provider<'_>) -> ModelError {
    let (name, variable, id) = (provider.name(), provider.main_key_variable(), provider.id);
    let mut error =
        refused(format!("no API key for {name}; set {variable} or run `pollux providers login {id}`"));
    error.details.provider = Some(provider.provider_id());
    error
}

/// What to do when the server refuses the key, which is from this place.
fn key_advice(provider: &Provider<'_>, place: Option<&KeyPlace>) -> String {
    let (name, id) = (provider.name(), provider.id);
    let login = format!("run `pollux providers login {id}`");
    match place {
        Some(KeyPlace::Variable(variable)) => {
            format!("{name} rejected the key in {variable}; correct it, or unset it and {login}")
        }
        Some(KeyPlace::Stored) => format!("{name} rejected the stored key; {login} to replace it"),
        Some(KeyPlace::Command) => {
            format!("{name} rejected the key that `providers.{id}.keyCommand` printed")
        }
        None => format!("{name} wants a key; set {} or {login}", provider.main_key_variable()),
    }
}

fn refused(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Auth, None, message)
}
