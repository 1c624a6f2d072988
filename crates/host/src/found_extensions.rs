//! The discovered extensions of a run.

use std::sync::{Arc, OnceLock};

use pollux_domain::failure::Failure;
use pollux_extend::extension::Installed;
use pollux_net::credentials::CredentialStore;

/// Discovered once per run.
#[derive(Default)]
pub struct Extensions {
    pub all: Vec<Installed>,
    pub warnings: Vec<String>,
    pub(crate) failure: Option<Failure>,
    /// Opened when a secret is needed.
    pub(crate) store: OnceLock<Arc<CredentialStore>>,
}
