//! The extensions that a run found.

use std::sync::{Arc, OnceLock};

use pollux_domain::failure::Failure;
use pollux_extend::extension::Installed;
use pollux_net::credentials::CredentialStore;

/// What was found, once for a run.
#[derive(Default)]
pub struct Extensions {
    pub all: Vec<Installed>,
    pub warnings: Vec<String>,
    pub(crate) failure: Option<Failure>,
    /// Opened when somebody needs a secret.
    pub(crate) store: OnceLock<Arc<CredentialStore>>,
}
