//! Clients for the providers of a run, created when they are first needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::{General, Redaction, Secret, Security};
use pollux_domain::model::{Chooser, Dialect, ModelClient, ModelError, ModelErrorKind};
use pollux_domain::time::SystemClock;
use pollux_model::auth::{self, Auth, AuthKind, VertexPlace};
use pollux_model::catalogue::Catalogue;
use pollux_model::catalogue::live::{LiveFile, LiveModels};
use pollux_model::gemini::{self, GeminiClient, GeminiSetup};
use pollux_model::prompt_tools::ToolPlan;
use pollux_model::providers::{
    EndpointParts, KeyPlace, ModelName, Provider, ProviderSettings, Providers, model_facts, read_settings,
};
use pollux_model::registry::Wire;
use pollux_model::router::{GGUF, ProviderSource, full_name};
use pollux_model::shared::endpoint::{Endpoint, Key};
use pollux_net::client::HttpClient;
use pollux_net::credentials::CredentialStore;
use pollux_net::google::{CLOUD_PLATFORM, GoogleTokens, find_credentials};

use super::key_command::KeyCommand;
use super::{GOOGLE, allowed_providers, live_file, live_models, needs_key, own_env, stored_key, users_key};
use crate::VERSION;
use crate::gguf::{GgufClient, GgufSetup};
use crate::loaded::Loaded;
use crate::local_server::{LocalServer, ServerOptions};

/// Everything needed to create clients.
pub(crate) struct RunProviders {
    env: Env,
    settings: BTreeMap<String, ProviderSettings>,
    pub(super) general: General,
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
            store: loaded.credential_store(),
            live: live_file(loaded),
            http,
            catalogue,
            small: loaded.groups.model.small.clone(),
            model: loaded.groups.model.name.clone(),
        }
    }

    /// The same with this key for a provider, in place of every other that it may have.
    pub(super) fn with_key(mut self, id: &str, key: &Secret) -> Self {
        let mut variables: Vec<String> = auth::KEY_VARIABLES.iter().map(|name| (*name).to_owned()).collect();
        if GOOGLE.contains(&id) {
            self.security.auth_selected = Some(AuthKind::ApiKey.as_str().to_owned());
        } else if let Some(provider) = self.providers().find(id) {
            variables = provider.key_variables();
        }
        let kept = self.env.iter().filter(|(name, _)| variables.iter().all(|variable| variable != name));
        let kept = kept.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let given = variables.iter().take(1).map(|name| (name.clone(), key.reveal().to_owned()));
        self.env = Env::new(kept.chain(given), self.env.cwd().to_path_buf());
        self.named = None;
        self
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
    pub(super) fn google(&self, id: &str) -> Result<(Auth, Option<GoogleTokens>), ModelError> {
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
        providers.find(id)?.small_model().map(|model| full_name(id, model))
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
        None => format!("{name} requires an API key; set {} or {login}", provider.main_key_variable()),
    }
}

fn refused(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Auth, None, message)
}
