//! Credentials for model requests.

use pollux_config::groups::Secret;
use pollux_model::auth::Auth;
use pollux_net::google::GoogleCredentials;

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
    pub(crate) fn of_provider(id: String, note: Option<String>, model: String, key: Option<Secret>) -> Self {
        Self {
            model,
            auth_type: Some(id.clone()),
            provider: id,
            auth: None,
            google: None,
            api_key: key.is_some(),
            vertex: false,
            secrets: key.into_iter().collect(),
            of_project: false,
            notes: note.into_iter().collect(),
        }
    }
}
