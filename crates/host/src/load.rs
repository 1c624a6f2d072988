//! Loads what every command needs, in the safe order: settings, trust, variables, flags.

use std::sync::OnceLock;

use pollux_config::env::Env;
use pollux_config::state;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use serde_json::Value;

use crate::kept_servers::Kept;
use crate::loaded::Loaded;
use crate::request::Request;
use crate::start_up::start;
use crate::{project_model, sandbox, sessions, settings, trust, workspace};

/// Loads settings files, variables and flags (exit code 52).
pub fn load_settings(options: &Request, env: &Env) -> Result<Loaded, Failure> {
    let start = start(options, env)?;
    workspace::check_directories(&options.include_directories)?;
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
        hidden_places: options.hidden_places.clone(),
        reserved: options.reserved,
        only_extensions: options.extensions.clone(),
        extensions: OnceLock::new(),
        updates: OnceLock::new(),
        client_servers: options.client_servers.clone(),
        client_links: options.client_links.clone(),
        shared_servers: options.shared_servers.clone(),
        only_client_servers: options.only_client_servers,
        client_hooks: options.client_hooks.clone(),
        client_files: options.client_files.clone(),
        client_terminals: options.client_terminals.clone(),
        servers: Kept::default(),
        agents: OnceLock::new(),
        sanitised_env: OnceLock::new(),
        project_model: None,
    };
    let lent: Vec<_> = sandbox::lent_folders(&loaded).collect();
    loaded.env = loaded.env.with_lent(lent);
    loaded.notes.extend(sessions::retention_problem(&loaded));
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
