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
use pollux_config::state;
use pollux_config::trust::{Binding, FolderTrust, TrustReason};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::sandbox::Right;
use pollux_exec::environment::{sanitised, with_fixed_variables};
use pollux_hooks::Callbacks;
use pollux_mcp::ClientLink;
use serde_json::Value;

use crate::found_extensions::Extensions;
use crate::kept_servers::Kept;
use crate::project_model::{self, ProjectModel};
use crate::request::{ClientFiles, Request, Reserved};
use crate::start_up::start;
use crate::{sandbox, settings, trust};

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
    /// No other servers are used.
    pub(crate) only_client_servers: bool,
    /// Files as the session's client has them.
    pub(crate) client_files: Option<ClientFiles>,
    /// Hooks of the session's client.
    pub(crate) client_hooks: Option<Callbacks>,
    /// Servers kept when a conversation is cleared.
    pub(crate) servers: Kept,
    /// Read on first use; see [`agents::of`].
    pub(crate) agents: OnceLock<Arc<pollux_extend::agents::Registry>>,
    /// Made on first use: every value is searched for secrets.
    sanitised_env: OnceLock<Vec<(String, String)>>,
}

impl Loaded {
    /// The environment for texts that a project or an extension wrote: without the credentials of model providers.
    pub(crate) fn lent_env(&self) -> Env {
        self.groups.tools.redaction.provider_keys.removed_from(&self.env)
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

/// Loads settings files, variables and flags (exit code 52).
pub fn load_settings(options: &Request, env: &Env) -> Result<Loaded, Failure> {
    let start = start(options, env)?;
    let mut notes = settings::notes(&start);
    notes.extend(trust::first_use(&start));
    // Built lazily.
    let installation = start.settings.groups.telemetry.enabled.then(|| state::installation_id(&start.home));
    let mut groups = start.settings.groups.clone();
    // Whatever its name, a variable that holds a provider's key is not for tools, hooks and servers.
    options.api_key_env.iter().for_each(|name| groups.tools.redaction.provider_keys.add(name));
    if options.without_questions {
        groups.tools.exclude.push("ask_user".to_owned());
    }
    groups.tools.exclude.extend(options.excluded_tools.iter().cloned());
    let sandbox_allow = sandbox::flags(&options.sandbox_allow)?;
    let mut loaded = Loaded {
        groups,
        settings: start.settings,
        env: start.env,
        dotenv: start.dotenv,
        home: start.home,
        project: start.project,
        trust: start.trust,
        trust_reason: start.trust_reason,
        binding: start.binding,
        notes,
        installation,
        api_key_env: options.api_key_env.clone(),
        sandbox_allow,
        sandbox_report: options.sandbox_report.clone(),
        reserved: options.reserved,
        only_extensions: options.extensions.clone(),
        extensions: OnceLock::new(),
        updates: OnceLock::new(),
        client_servers: options.client_servers.clone(),
        client_links: options.client_links.clone(),
        only_client_servers: options.only_client_servers,
        client_hooks: options.client_hooks.clone(),
        client_files: options.client_files.clone(),
        servers: Kept::default(),
        agents: OnceLock::new(),
        sanitised_env: OnceLock::new(),
        project_model: None,
    };
    project_model::settle(&mut loaded);
    Ok(loaded)
}

/// Checks that policy files given as flags exist (exit code 52). Without them a run would have fewer rules than
/// the user believes.
pub fn check_policy_files(options: &Request, loaded: &Loaded) -> Result<(), Failure> {
    let named = options.overrides.iter().filter(|(key, _)| key == "policyPaths" || key == "adminPolicyPaths");
    let mut paths = named.filter_map(|(_, value)| value.as_array()).flatten().filter_map(Value::as_str);
    match paths.find(|path| !loaded.env.cwd().join(path).exists()) {
        None => Ok(()),
        Some(path) => Err(Failure::new(ExitKind::Config, format!("policy file `{path}` not found"))
            .hint("check the paths given with `--policy` and `--admin-policy`")),
    }
}
