//! How the rights of a session begin.

use std::path::PathBuf;

use pollux_config::env::Env;
use pollux_domain::sandbox::Right;
use pollux_egress::stored::ProjectKey;
use pollux_sandbox::{SandboxRequest, Trial};

use crate::mode::{NetworkMode, Profile};

/// What a session is opened with.
pub struct RightsOptions {
    /// Paths and level. The network and the grants are filled in here.
    pub request: SandboxRequest,
    pub profile: Profile,
    pub network: NetworkMode,
    /// Whether the network mode is a default, which a level that cannot proxy may open.
    pub network_is_default: bool,
    /// Package managers may download without a question.
    pub package_downloads: bool,
    /// Rights of flags, as typed and checked.
    pub allow: Vec<Right>,
    pub directory: PathBuf,
    /// The user's `sandbox.toml`.
    pub stored: PathBuf,
    /// The project's `sandbox.toml`, which can only deny.
    pub project_rules: Option<PathBuf>,
    /// Without a trusted project, grants last for the session.
    pub project: Option<ProjectKey>,
    /// The user's own environment, without a project's.
    pub env: Env,
    /// Where connections are logged.
    pub log: Option<PathBuf>,
    /// Where denials are written as JSON after each command.
    pub report: Option<PathBuf>,
    /// Where copies of the user's settings without secrets are kept.
    pub copies: PathBuf,
    /// How much of the opening is left to the first command.
    pub trial: Trial,
}
