//! The only place that names the agent's adapters: settings, sessions, credentials, tools, model.
//!
//! Each function is one step of a start; the order in which they are called is `run.rs`'s business.

mod machine;
mod policy;
mod policy_command;
mod prompt;
mod sessions;
mod settings;
mod turn;

use std::ops::ControlFlow;
use std::path::PathBuf;

use pollux_config::env::{Env, name};
use pollux_config::groups::{Groups, Secret};
use pollux_config::paths::{Home, Project};
use pollux_config::settings::Settings;
use pollux_config::startup::{self, Start, StartError, StartRequest};
use pollux_config::state;
use pollux_config::trust::{FolderTrust, TrustReason};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_model::auth::{self, Auth, AuthKind};
use pollux_net::credentials::stored_api_key;
use serde_json::{Value, json};

use crate::launch::Options;
use crate::report::Failure;

pub(crate) use policy_command::rules;
pub(crate) use sessions::{Chosen, choose_session, delete_session, list_sessions};
pub(crate) use settings::settings;
pub(crate) use turn::run_turn;

/// Settings as they hold for this run, and what was found on the way to them.
pub(crate) struct Loaded {
    pub(crate) groups: Groups,
    /// Everything, for what no group holds.
    pub(crate) settings: Settings,
    /// The environment with what `.env` files added.
    pub(crate) env: Env,
    pub(crate) home: Home,
    pub(crate) project: Project,
    pub(crate) trust: FolderTrust,
    pub(crate) trust_reason: TrustReason,
    /// Lines for stderr.
    pub(crate) notes: Vec<String>,
    pub(crate) installation: Option<String>,
}

/// What the model is asked with.
pub(crate) struct Credentials {
    pub(crate) auth: Auth,
    pub(crate) auth_type: Option<String>,
    pub(crate) api_key: bool,
    pub(crate) vertex: bool,
    /// Values that telemetry must not contain.
    pub(crate) secrets: Vec<Secret>,
}

/// Where tools run.
pub(crate) struct Sandbox {
    pub(crate) notes: Vec<String>,
}

/// What trust in the folder leaves of the wished approval mode.
pub(crate) struct Permission {
    pub(crate) approval: ApprovalMode,
    pub(crate) notes: Vec<String>,
}

/// A turn that is ready to run.
pub(crate) struct Turn<'a> {
    pub(crate) options: &'a Options,
    pub(crate) loaded: &'a Loaded,
    pub(crate) session: Chosen,
    pub(crate) credentials: Credentials,
    pub(crate) permission: Permission,
    pub(crate) prompt: String,
}

/// A turn that ran.
pub(crate) struct Done {
    pub(crate) end: TurnEnd,
    pub(crate) session_file: Option<PathBuf>,
}

/// Where events go; `Break` means that nobody listens and the run should be cancelled.
pub(crate) type Sink<'a> = dyn FnMut(&Event) -> ControlFlow<()> + 'a;

/// Settings files, variables and flags (52).
pub(crate) fn load_settings(options: &Options, env: &Env) -> Result<Loaded, Failure> {
    let start = start(options, env)?;
    let notes = settings::notes(&start);
    // Made only when somebody is to read it.
    let installation = start.settings.groups.telemetry.enabled.then(|| state::installation_id(&start.home));
    Ok(Loaded {
        groups: start.settings.groups.clone(),
        settings: start.settings,
        env: start.env,
        home: start.home,
        project: start.project,
        trust: start.trust,
        trust_reason: start.trust_reason,
        notes,
        installation,
    })
}

/// Home, trust, `.env` and settings, in the safe order.
fn start(options: &Options, env: &Env) -> Result<Start, Failure> {
    let request = StartRequest {
        env: env.clone(),
        root: env.cwd().to_path_buf(),
        skip_trust: options.skip_trust,
        ignore_env: options.ignore_env,
        args: pollux_config::settings::ArgOverrides(overrides(options)),
        ..StartRequest::default()
    };
    startup::start(request).map_err(|error| {
        let hint = match &error {
            StartError::Settings(_) => "correct the file; nothing in it was changed",
            StartError::Trust(_) => "correct or remove the file that lists trusted folders",
        };
        Failure::from_error(ExitKind::Config, &error).hint(hint)
    })
}

/// Every flag that is a setting.
fn overrides(options: &Options) -> Vec<(String, Value)> {
    let mut given = options.overrides.clone();
    if !options.allowed_tools.is_empty() {
        given.push(("tools.allowed".to_owned(), json!(options.allowed_tools)));
    }
    if !options.include_directories.is_empty() {
        given.push(("context.includeDirectories".to_owned(), json!(options.include_directories)));
    }
    if let Some(sandbox) = options.sandbox {
        given.push(("tools.sandbox".to_owned(), json!(sandbox)));
    }
    given
}

/// Whether the model can be asked (41).
pub(crate) fn check_credentials(loaded: &Loaded) -> Result<Credentials, Failure> {
    let stored = || {
        let (host, user) = (machine::host_name(), machine::user_name(&loaded.env));
        stored_api_key(loaded.home.gemini_dir(), &host, &user)
    };
    let security = &loaded.groups.security;
    let auth = auth::choose(&loaded.env, security, stored, &loaded.home.settings_file())
        .map_err(|error| Failure::from_error(ExitKind::Auth, &error))?;
    Ok(Credentials {
        auth_type: Some(auth.kind.as_str().to_owned()),
        api_key: auth.kind == AuthKind::ApiKey,
        vertex: false,
        secrets: vec![auth.key.clone()],
        auth,
    })
}

/// Whether the policy files that flags name are there (52). Without them a run would have fewer rules than
/// the person at the keyboard believes.
pub(crate) fn check_policy_files(options: &Options, loaded: &Loaded) -> Result<(), Failure> {
    let named = options.overrides.iter().filter(|(key, _)| key == "policyPaths" || key == "adminPolicyPaths");
    let mut paths = named.filter_map(|(_, value)| value.as_array()).flatten().filter_map(Value::as_str);
    match paths.find(|path| !loaded.env.cwd().join(path).exists()) {
        None => Ok(()),
        Some(path) => Err(Failure::new(ExitKind::Config, format!("there is no policy file `{path}`"))
            .hint("`--policy` and `--admin-policy` take files or folders")),
    }
}

/// Whether the wished sandbox works (44).
pub(crate) fn check_sandbox(loaded: &Loaded, approval: ApprovalMode) -> Result<Sandbox, Failure> {
    let wish = &loaded.groups.tools.sandbox;
    // Set inside a container that was started for this program.
    if loaded.env.non_empty("SANDBOX").is_some() || wish.enabled == Some(false) {
        return Ok(Sandbox { notes: Vec::new() });
    }
    if wish.enabled == Some(true) || wish.command.is_some() {
        return Err(Failure::new(ExitKind::Sandbox, "a sandbox was asked for, and this version has none")
            .hint("run it inside a container of your own, or without `--sandbox`, `GEMINI_SANDBOX` and `tools.sandbox`"));
    }
    let notes = match approval {
        ApprovalMode::Yolo => vec!["No sandbox: commands run directly on this machine.".to_owned()],
        ApprovalMode::Default | ApprovalMode::AutoEdit | ApprovalMode::Plan => Vec::new(),
    };
    Ok(Sandbox { notes })
}

/// Whether the folder is trusted (55), and what that leaves of the wished approval mode.
pub(crate) fn check_trust(options: &Options, loaded: &Loaded) -> Result<Permission, Failure> {
    let wished = options.approval.unwrap_or(loaded.groups.general.approval_mode);
    if loaded.trust == FolderTrust::Trusted {
        return Ok(Permission { approval: wished, notes: Vec::new() });
    }
    let ways = match loaded.trust_reason {
        TrustReason::Restricted => "unset `GEMINI_RESTRICTED_MODE`".to_owned(),
        TrustReason::Environment => format!("unset `{}` or set it to `true`", name::TRUST_WORKSPACE),
        TrustReason::SkipFlag | TrustReason::FeatureOff | TrustReason::Rule(_) | TrustReason::NoRule => {
            format!("use `--skip-trust` or set `{}=true`", name::TRUST_WORKSPACE)
        }
    };
    if loaded.groups.security.refuse_untrusted_headless {
        let text = format!("Pollux is not running in a trusted directory. To proceed, {ways}.");
        return Err(Failure::new(ExitKind::Untrusted, text));
    }
    let mut notes = vec![format!(
        "This folder is not trusted: its settings and context files are not used, and of its .env only the model's credentials. To trust it, {ways}."
    )];
    if wished != ApprovalMode::Default && wished != ApprovalMode::Plan {
        notes.push(
            "Approval mode overridden to \"default\" because the current folder is not trusted.".to_owned(),
        );
    }
    let approval = if wished == ApprovalMode::Plan { wished } else { ApprovalMode::Default };
    Ok(Permission { approval, notes })
}
