//! What requests to the model are signed with.

use pollux_config::groups::Secret;
use pollux_model::auth::Auth;
use pollux_net::google::GoogleCredentials;

/// What the model is asked with.
pub struct Credentials {
    pub auth: Auth,
    /// What tokens for Vertex AI are made of.
    pub google: Option<GoogleCredentials>,
    pub auth_type: Option<String>,
    pub api_key: bool,
    pub vertex: bool,
    /// Values that telemetry must not contain.
    pub secrets: Vec<Secret>,
    /// Whether they are the project's, for want of the person's own.
    pub of_project: bool,
    /// Lines for stderr.
    pub notes: Vec<String>,
}
