//! Credentials for model requests.

use pollux_config::groups::Secret;
use pollux_model::auth::Auth;
use pollux_net::google::GoogleCredentials;

/// The credentials of a run.
pub struct Credentials {
    pub auth: Auth,
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
