//! Settings, trust and folders of a run, read in the safe order.
//!
//! Everything else takes a [`Loaded`]. It holds no credentials and opens nothing.

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
use serde_json::Value;

use crate::found_extensions::Extensions;
use crate::kept_servers::Kept;
use crate::request::{Request, Reserved};
use crate::start_up::start;
use crate::{settings, trust};

/// Settings as they hold for this run, and what was found on the way to them.
pub struct Loaded {
    pub groups: Groups,
    /// Everything, for what no group holds.
    pub settings: Settings,
    /// The environment with what `.env` files added.
    pub env: Env,
    /// Which files did so, and with what.
    pub dotenv: DotenvReport,
    pub home: Home,
    pub project: Project,
    pub trust: FolderTrust,
    pub trust_reason: TrustReason,
    /// How the folder compares with what was agreed to.
    pub binding: Binding,
    /// Lines for stderr.
    pub notes: Vec<String>,
    pub installation: Option<String>,
    pub(crate) reserved: Reserved,
    /// `--extensions`
    pub(crate) only_extensions: Vec<String>,
    /// Read at the first question; see [`extensions::of`].
    pub(crate) extensions: OnceLock<Extensions>,
    /// Newer versions of extensions are looked for once.
    pub(crate) updates: OnceLock<()>,
    /// Servers that outlive a conversation which is cleared.
    pub(crate) servers: Kept,
    /// Read at the first question; see [`agents::of`].
    pub(crate) agents: OnceLock<Arc<pollux_extend::agents::Registry>>,
}

impl Loaded {
    /// The texts in a list that is a setting.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let Some(Value::Array(items)) = self.settings.get(key).map(|(value, _)| value) else {
            return Vec::new();
        };
        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }
}

/// Settings files, variables and flags (52).
pub fn load_settings(options: &Request, env: &Env) -> Result<Loaded, Failure> {
    let start = start(options, env)?;
    let mut notes = settings::notes(&start);
    notes.extend(trust::first_use(&start));
    // Made only when somebody is to read it.
    let installation = start.settings.groups.telemetry.enabled.then(|| state::installation_id(&start.home));
    Ok(Loaded {
        groups: start.settings.groups.clone(),
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
        reserved: options.reserved,
        only_extensions: options.extensions.clone(),
        extensions: OnceLock::new(),
        updates: OnceLock::new(),
        servers: Kept::default(),
        agents: OnceLock::new(),
    })
}

/// Whether the policy files that flags name are there (52). Without them a run would have fewer rules than
/// the person at the keyboard believes.
pub fn check_policy_files(options: &Request, loaded: &Loaded) -> Result<(), Failure> {
    let named = options.overrides.iter().filter(|(key, _)| key == "policyPaths" || key == "adminPolicyPaths");
    let mut paths = named.filter_map(|(_, value)| value.as_array()).flatten().filter_map(Value::as_str);
    match paths.find(|path| !loaded.env.cwd().join(path).exists()) {
        None => Ok(()),
        Some(path) => Err(Failure::new(ExitKind::Config, format!("there is no policy file `{path}`"))
            .hint("`--policy` and `--admin-policy` take files or folders")),
    }
}
