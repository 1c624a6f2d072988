//! Settings, trust and folders of a run, read in the safe order.
//!
//! Everything else takes a [`Loaded`]. It holds no credentials and opens nothing.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pollux_config::dotenv::DotenvReport;
use pollux_config::env::Env;
use pollux_config::groups::Groups;
use pollux_config::paths::{Home, Project};
use pollux_config::settings::Settings;
use pollux_config::trust::{Binding, FolderTrust, TrustReason};
use pollux_domain::sandbox::Right;
use pollux_exec::environment::{sanitised, with_fixed_variables};
use pollux_hooks::Callbacks;
use pollux_mcp::{ClientLink, SharedServers};
use pollux_net::credentials::{CredentialStore, StoreOptions};
use serde_json::Value;

use crate::found_extensions::Extensions;
use crate::kept_servers::Kept;
use crate::machine;
use crate::project_model::ignored::ProjectModel;
use crate::request::{ClientFiles, ClientTerminals, Reserved};

/// The effective settings of this run, and notes collected while loading them.
pub struct Loaded {
    pub groups: Groups,
    /// All settings, for keys outside the groups.
    pub settings: Settings,
    /// The environment including `.env` files.
    pub env: Env,
    /// The `.env` files and what they added.
    pub dotenv: DotenvReport,
    pub home: Home,
    pub project: Project,
    pub trust: FolderTrust,
    pub trust_reason: TrustReason,
    /// How the folder compares with what was trusted.
    pub binding: Binding,
    /// A model that the project names and that is not used.
    pub project_model: Option<ProjectModel>,
    /// Lines for stderr.
    pub notes: Vec<String>,
    pub installation: Option<String>,
    /// `--api-key-env`
    pub(crate) api_key_env: Option<String>,
    /// `--sandbox-allow`
    pub(crate) sandbox_allow: Vec<Right>,
    /// `--sandbox-report`
    pub(crate) sandbox_report: Option<PathBuf>,
    pub(crate) hidden_places: Vec<PathBuf>,
    pub(crate) reserved: Reserved,
    /// `--extensions`
    pub(crate) only_extensions: Vec<String>,
    /// Read on first use; see [`extensions::of`].
    pub(crate) extensions: OnceLock<Extensions>,
    /// Extension updates are checked once per run.
    pub(crate) updates: OnceLock<()>,
    /// MCP servers of the session's client.
    pub(crate) client_servers: Vec<(String, Value)>,
    /// Those of them inside of the client.
    pub(crate) client_links: Vec<(String, ClientLink)>,
    /// Running servers that sessions of this process use together.
    pub(crate) shared_servers: Option<SharedServers>,
    /// No other servers are used.
    pub(crate) only_client_servers: bool,
    /// Files as the session's client has them.
    pub(crate) client_files: Option<ClientFiles>,
    /// Terminals of the session's client.
    pub(crate) client_terminals: Option<ClientTerminals>,
    /// Hooks of the session's client.
    pub(crate) client_hooks: Option<Callbacks>,
    /// Servers kept when a conversation is cleared.
    pub(crate) servers: Kept,
    /// Read on first use; see [`agents::of`].
    pub(crate) agents: OnceLock<Arc<pollux_extend::agents::Registry>>,
    /// Made on first use: every value is searched for secrets.
    pub(crate) sanitised_env: OnceLock<Vec<(String, String)>>,
}

impl Loaded {
    /// The environment for texts that a project or an extension wrote: without the credentials of model providers.
    pub(crate) fn lent_env(&self) -> Env {
        self.groups.tools.redaction.provider_keys.removed_from(&self.env)
    }

    /// Whether a variable comes from a `.env` file of the project.
    pub(crate) fn is_of_project(&self, variable: &str) -> bool {
        let own = [self.home.env_file(), self.home.user_home().join(".env")];
        let others = self.dotenv.loaded.iter().filter(|loaded| !own.contains(&loaded.file));
        others.flat_map(|loaded| &loaded.names).any(|given| given == variable)
    }

    /// The user's credential store; nothing is opened yet.
    pub fn credential_store(&self) -> Arc<CredentialStore> {
        let (host, user) = (machine::host_name(), machine::user_name(&self.env));
        let options = StoreOptions::from_env(&self.env, self.home.gemini_dir(), host, user);
        Arc::new(CredentialStore::new(options))
    }

    /// The environment without secrets, for hooks and all other children.
    pub fn sanitised_env(&self) -> Vec<(String, String)> {
        self.sanitised_env.get_or_init(|| sanitised(&self.env, &self.groups.tools.redaction)).clone()
    }

    /// The environment of commands.
    pub fn command_env(&self) -> Vec<(String, String)> {
        with_fixed_variables(self.sanitised_env(), &self.groups.tools.shell_pager)
    }

    /// The same in a sandbox; `own` replaces variables of the same name.
    pub fn sandboxed_env(&self, own: &[(String, String)]) -> Vec<(String, String)> {
        let mut environment = self.command_env();
        pollux_exec::environment::for_sandbox(&mut environment, own.to_vec());
        environment
    }

    /// The strings of a list setting.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let Some(Value::Array(items)) = self.settings.get(key).map(|(value, _)| value) else {
            return Vec::new();
        };
        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }
}
