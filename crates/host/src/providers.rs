//! The model providers of a run: the one that it starts with, and clients for the others when they are asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::{General, Secret, Security};
use pollux_config::settings::Layer;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::model::{Dialect, ModelClient, ModelError, ModelErrorKind};
use pollux_model::auth;
use pollux_model::catalogue::Catalogue;
use pollux_model::gemini::{self, GeminiSetup};
use pollux_model::prompt_tools::ToolPlan;
use pollux_model::providers::{
    DefaultReason, EndpointParts, FoundKey, KeyPlace, ModelName, Provider, ProviderSettings, Providers,
    model_facts, read_settings,
};
use pollux_model::registry::Wire;
use pollux_model::router::{Chooser, ProviderSource, full_name, is_alias};
use pollux_model::shared::endpoint::{Endpoint, Key};
use pollux_net::client::HttpClient;
use pollux_net::credentials::{API_KEY_SERVICE, CredentialError, CredentialStore};

use serde_json::Value;

use crate::VERSION;
use crate::auth::store;
use crate::credentials::Credentials;
use crate::gguf::{GgufClient, GgufSetup};
use crate::loaded::Loaded;
use crate::local_server::{LocalServer, ServerOptions};
use crate::memory::is_of_project;

/// The providers of Google, whose credentials are chosen in `auth`.
pub(crate) const GOOGLE: [&str; 2] = ["gemini", "vertex"];

/// The provider whose models are files, served by a program that is started for them.
const GGUF: &str = "gguf";

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

/// The environment without variables from the project's `.env` files: a project chooses neither keys nor addresses.
pub(crate) fn own_env(loaded: &Loaded) -> Env {
    let kept = loaded.env.iter().filter(|(name, _)| !is_of_project(loaded, name));
    Env::new(kept.map(|(name, value)| (name.to_owned(), value.to_owned())), loaded.env.cwd().to_path_buf())
}

/// Where a provider's key is, if the environment has one.
pub(crate) fn users_key(providers: &Providers<'_>, id: &str) -> Option<String> {
    let provider = providers.find(id)?;
    match providers.key_in_environment(&provider, None)?.source {
        KeyPlace::Variable(name) => Some(name),
        KeyPlace::Stored | KeyPlace::Command => Some("stored key".to_owned()),
    }
}

/// Whether the user chose the model's name or allowed the project to.
fn is_users_choice(loaded: &Loaded) -> bool {
    if loaded.project_model.is_some() || loaded.project_may_choose_model {
        return true;
    }
    match loaded.settings.origin("model.name").layer {
        Layer::Project => false,
        Layer::Environment => !is_of_project(loaded, "GEMINI_MODEL"),
        _ => true,
    }
}

/// The providers that requests may go to: those that the user named in settings, on the command line or in the
/// environment. A project's settings, agents and aliases cannot add one.
fn allowed_providers(loaded: &Loaded, providers: &Providers<'_>, start: &str) -> BTreeSet<String> {
    let model = &loaded.groups.model;
    let mut allowed: BTreeSet<String> = GOOGLE.iter().map(|id| (*id).to_owned()).collect();
    allowed.insert(start.to_owned());
    if let Value::Object(own) = &model.providers {
        allowed.extend(own.keys().cloned());
    }
    let named = model.small.iter().chain(&model.fallback);
    allowed.extend(named.filter_map(|name| providers.split(name, |_| false).provider));
    allowed
}

/// Finds the provider of a run. `None` means one of Google's, whose credentials decide about everything else.
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
    let explicit = loaded.groups.model.provider.is_some();
    let has_key = |id: &str| {
        providers.find(id).is_some_and(|provider| providers.key_in_environment(&provider, None).is_some())
    };
    let model = &loaded.groups.model;
    // An explicit provider wins over what a bare name suggests.
    let by_name =
        is_users_choice(loaded).then(|| providers.split(&model.name, |id| !explicit && has_key(id)).provider);
    let named = by_name.flatten().or_else(|| model.provider.clone());
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
    let choice = providers.default_choice(false, |provider| has_key(provider.id));
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

/// Checks that a provider outside Google can be used (exit code 41).
pub(crate) fn provider_credentials(loaded: &Loaded, start: StartProvider) -> Result<Credentials, Failure> {
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
        .find_key(&provider, None, || stored_key(&store(loaded), &start.id))
        .map_err(|error| refused(&error))?;
    if found.is_some() {
        location.check_key(&provider).map_err(|error| refused(&error))?;
    } else if needs_key(&provider) {
        return Err(refused(&missing_key(&provider)));
    }
    let model = start_model(loaded, &providers, &start.id)?;
    Ok(Credentials::of_provider(start, model, found.map(|found| found.key)))
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

/// A provider of the user's own without `envKey` may need no key.
fn needs_key(provider: &Provider<'_>) -> bool {
    !provider.is_local()
        && (provider.is_built_in() || provider.settings().is_some_and(|own| own.env_key.is_some()))
}

/// Whether Google's API can be used, without asking the keychain twice.
pub(crate) fn has_google_credentials(loaded: &Loaded) -> bool {
    let file = loaded.home.settings_file();
    auth::choose(&loaded.env, &loaded.groups.security, || store(loaded).api_key(), &file).is_ok()
}

fn unknown(id: &str, providers: &Providers<'_>) -> Failure {
    let known: Vec<&str> = providers.all().map(|provider| provider.id).collect();
    Failure::new(ExitKind::Config, format!("unknown provider `{id}`"))
        .hint(format!("known providers: {}; add others under `providers` in your settings", known.join(", ")))
}

/// Everything that clients are made from.
pub(crate) struct RunProviders {
    env: Env,
    settings: BTreeMap<String, ProviderSettings>,
    general: General,
    security: Security,
    settings_file: PathBuf,
    store: Arc<CredentialStore>,
    http: HttpClient,
    catalogue: Arc<Catalogue>,
    /// `model.small`
    small: Option<String>,
    /// The model that the run starts with.
    model: String,
    /// `model.provider` is set: bare names stay with it.
    explicit: bool,
    allowed: BTreeSet<String>,
    /// `local.serverCommand`
    server_command: Vec<String>,
    logs: PathBuf,
    user_home: PathBuf,
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
            server_command: loaded.groups.model.server_command.clone(),
            logs: loaded.home.tmp_dir().join("background-processes"),
            user_home: loaded.home.user_home().to_path_buf(),
            explicit: loaded.groups.model.provider.is_some(),
            general: loaded.groups.general.clone(),
            security: loaded.groups.security.clone(),
            settings_file: loaded.home.settings_file(),
            store: store(loaded),
            http,
            catalogue,
            small: loaded.groups.model.small.clone(),
            model: loaded.groups.model.name.clone(),
        }
    }

    fn providers(&self) -> Providers<'_> {
        Providers::new(&self.env, &self.settings)
    }

    fn key(&self, provider: &Provider<'_>) -> Result<Option<FoundKey>, ModelError> {
        let found = self.providers().find_key(provider, None, || stored_key(&self.store, provider.id));
        found.map_err(|error| refused(error.to_string()))
    }

    /// How the models of a provider get tools: as its settings say, or as a server that is not a vendor's own can.
    fn tool_plan(&self, provider: &Provider<'_>) -> Option<ToolPlan> {
        let own = provider.settings();
        let is_set = own
            .is_some_and(|own| own.tools.is_some() || own.models.values().any(|model| model.tools.is_some()));
        if provider.is_built_in() && !provider.is_local() && !is_set {
            return None;
        }
        let (everywhere, models) = (own.and_then(|own| own.tools), own.map(|own| own.models.clone()));
        let models = models.unwrap_or_default();
        let mode = move |model: &str| models.get(model).and_then(|row| row.tools).or(everywhere);
        Some(ToolPlan { mode: Arc::new(mode), grammar: provider.is_local() })
    }

    /// A client that starts a server for the file that a model's name is.
    fn connect_gguf(&self, provider: &Provider<'_>) -> Arc<dyn ModelClient> {
        let facts = model_facts(provider, &Dialect::CHAT);
        let models = provider.settings().map(|own| own.models.clone()).unwrap_or_default();
        let plan = self.tool_plan(provider);
        let (id, http, known) = (provider.provider_id(), self.http.clone(), Arc::clone(&facts));
        let (timing, traits) = EndpointParts::local_patience(provider, &self.general);
        let connect = move |server: &LocalServer| {
            let mut endpoint = Endpoint::new(id.clone(), server.base_url(), http.clone(), Arc::clone(&known))
                .bearer(server.key.clone());
            (endpoint.timing, endpoint.traits) = (timing.clone(), traits.clone());
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
                logs: self.logs.clone(),
            },
            http: self.http.clone(),
            connect: Arc::new(connect),
            facts,
            user_context: Arc::new(move |model| models.get(model).and_then(|row| row.context)),
            user_home: self.user_home.clone(),
        }))
    }

    fn connect_google(&self, id: &str) -> Result<Arc<dyn ModelClient>, ModelError> {
        let auth = auth::choose(&self.env, &self.security, || self.store.api_key(), &self.settings_file);
        let auth = auth.map_err(|error| refused(error.to_string()))?;
        if id == "vertex" && auth.vertex.is_none() {
            return Err(refused(
                "Vertex AI is not configured; set GOOGLE_GENAI_USE_VERTEXAI=true".to_owned(),
            ));
        }
        let setup = GeminiSetup {
            http: self.http.clone(),
            catalogue: Arc::clone(&self.catalogue),
            env: &self.env,
            general: &self.general,
            version: VERSION,
            model: &self.model,
            auth,
            tokens: None,
        };
        gemini::connect(setup).map_err(|error| refused(error.to_string()))
    }
}

impl ProviderSource for RunProviders {
    fn split(&self, name: &str, by: Chooser) -> ModelName {
        let is_users = by == Chooser::User;
        let providers = self.providers();
        let has_key =
            |id: &str| self.allowed.contains(id) || (is_users && users_key(&providers, id).is_some());
        let split = providers.split(name, |id| !self.explicit && has_key(id));
        match split.provider {
            // A name that only the project chose stays with the provider in use.
            Some(id) if !is_users && !self.allowed.contains(&id) => {
                ModelName { provider: None, model: name.to_owned() }
            }
            _ => split,
        }
    }

    fn connect(&self, id: &str) -> Result<Arc<dyn ModelClient>, ModelError> {
        if GOOGLE.contains(&id) {
            return self.connect_google(id);
        }
        let providers = self.providers();
        let provider = providers.find(id).ok_or_else(|| refused(format!("unknown provider `{id}`")))?;
        if id == GGUF {
            return Ok(self.connect_gguf(&provider));
        }
        let location = providers.locate(&provider).map_err(|error| refused(error.to_string()))?;
        let found = self.key(&provider)?;
        if found.is_some() || provider.settings().is_some_and(|own| !own.env_headers.is_empty()) {
            location.check_key(&provider).map_err(|error| refused(error.to_string()))?;
        }
        if found.is_none() && needs_key(&provider) {
            return Err(missing_key(&provider));
        }
        let variable = found.as_ref().and_then(|found| match &found.source {
            KeyPlace::Variable(name) => Some(name.as_str()),
            KeyPlace::Stored | KeyPlace::Command => None,
        });
        let parts = EndpointParts {
            provider: &provider,
            location: &location,
            key: found.as_ref().map(|found| (Key::Fixed(found.key.clone()), variable)),
            env: &self.env,
            general: &self.general,
            http: self.http.clone(),
            facts: model_facts(&provider, &location.dialect),
        };
        let wire = Wire::of(&location.dialect)
            .ok_or_else(|| refused(format!("`{}` cannot speak `{}`", id, location.dialect.as_str())))?;
        let endpoint = parts.endpoint();
        let client = match self.tool_plan(&provider) {
            Some(plan) => wire.connect_with_tools(endpoint, plan),
            None => (wire.connect)(endpoint),
        };
        client.map_err(|error| refused(error.to_string()))
    }

    fn default_model(&self, id: &str) -> Option<String> {
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

/// What to do without a key.
fn missing_key(provider: &Provider<'_>) -> ModelError {
    refused(format!("no API key for {}; set {}", provider.name(), provider.main_key_variable()))
}

fn refused(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Auth, None, message)
}
