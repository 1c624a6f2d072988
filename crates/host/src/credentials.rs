//! Credentials for model requests.

use pollux_config::groups::Secret;
use pollux_model::auth::Auth;
use pollux_model::providers::{Providers, read_settings};
use pollux_model::router::is_alias;
use pollux_net::google::GoogleCredentials;

use crate::auth::kind_of_google;
use crate::prepared::Prepared;
use crate::providers::{GOOGLE, StartProvider, own_env, users_key};

/// The credentials of a run.
pub struct Credentials {
    /// The provider that the run starts with.
    pub provider: String,
    /// The model that the run starts with, as people and programs see it: concrete unless it is Gemini's alias.
    pub model: String,
    /// Google's account or key, if the provider is Google's.
    pub auth: Option<Auth>,
    /// Source of tokens for Vertex AI.
    pub google: Option<GoogleCredentials>,
    pub auth_type: Option<String>,
    pub api_key: bool,
    pub vertex: bool,
    /// Secrets that telemetry must not contain.
    pub secrets: Vec<Secret>,
    /// Whether they come from the project because the user has none.
    pub of_project: bool,
    /// Lines for stderr.
    pub notes: Vec<String>,
}

impl Credentials {
    /// Those of a provider outside Google, with its key if it has one.
    pub(crate) fn of_provider(start: StartProvider, model: String, key: Option<Secret>) -> Self {
        Self {
            model,
            auth_type: Some(start.id.clone()),
            provider: start.id,
            auth: None,
            google: None,
            api_key: key.is_some(),
            vertex: false,
            secrets: key.into_iter().collect(),
            of_project: false,
            notes: start.note.into_iter().collect(),
        }
    }
}

impl Prepared<'_> {
    /// How requests to this model are authenticated: Google's method, or the provider's id.
    pub fn auth_method(&self, model: &str) -> Option<String> {
        let start = &self.credentials;
        if model == start.model {
            return start.auth_type.clone();
        }
        let (settings, _) = read_settings(&self.loaded.groups.model.providers);
        let env = own_env(self.loaded);
        let providers = Providers::new(&env, &settings);
        let has_key = |id: &str| GOOGLE.contains(&id) || users_key(&providers, id).is_some();
        match providers.split(model, has_key).provider {
            Some(id) if !GOOGLE.contains(&id.as_str()) => Some(id),
            // A bare name stays with the provider in use; aliases are Google's.
            None if start.auth.is_none() && !is_alias(model) => start.auth_type.clone(),
            Some(_) | None if start.auth.is_some() => start.auth_type.clone(),
            Some(_) | None => kind_of_google(self.loaded),
        }
    }
}
