//! The only place that names the agent's adapters: settings, sessions, credentials, tools, model.
//!
//! Each function is one step of a start; the order in which they are called is `run.rs`'s business.

mod agent_servers;
mod agents;
mod auth;
mod built_in_prompts;
mod checker;
mod clipboard;
mod custom_commands;
mod desk;
mod extension_updates;
mod extensions;
mod extensions_command;
mod helpers;
mod hooks;
mod machine;
mod mcp;
mod mcp_command;
mod mcp_login;
mod memory;
mod models;
mod policy;
mod policy_command;
mod prompt;
mod remote_agents;
mod rewind;
mod sandbox;
mod saved_chat;
mod sessions;
mod settings;
mod skills;
mod skills_command;
mod slash;
mod system_prompt;
mod titles;
mod trust;
mod turn;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::OnceLock;

use pollux_config::dotenv::DotenvReport;
use pollux_config::env::Env;
use pollux_config::groups::{Groups, Secret};
use pollux_config::paths::{Home, Project};
use pollux_config::settings::Settings;
use pollux_config::startup::{self, Start, StartError, StartRequest};
use pollux_config::state;
use pollux_config::trust::{Binding, FolderTrust, TrustReason};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock};
use pollux_model::auth::Auth;
use pollux_net::google::GoogleCredentials;
use serde_json::{Value, json};

use crate::launch::Options;

pub use pollux_exec::own_process::OnlyThread;
pub(crate) use pollux_exec::own_process::{close_descriptors_on_exec, hide_credentials};

pub(crate) use agents::agent_set;
pub(crate) use auth::{check_credentials, sign_ins};
pub(crate) use built_in_prompts::begin_context_file;
pub(crate) use clipboard::copy_here;
pub(crate) use custom_commands::{CommandList, Invocation};
pub(crate) use desk::{Machine, desk, editors};
pub(crate) use extensions::{check_extensions, extension_themes};
pub(crate) use extensions_command::extension_set;
pub(crate) use hooks::hook_set;
pub(crate) use mcp::Detail;
pub(crate) use mcp_command::server_set;
pub(crate) use mcp_login::{ServerLogin, begin_server_login};
pub(crate) use memory::notebook;
pub(crate) use models::models;
pub(crate) use policy_command::rules;
pub(crate) use pollux_tools::MAX_EXTRA_DIRECTORIES;
pub(crate) use sandbox::{Sandbox, SandboxInForce, check_sandbox};
pub(crate) use sessions::{
    Chosen, Freshness, Said, StoredChat, StoredChats, archive, choose_session, delete_session, list_sessions,
    stored_chats, tidy_up,
};
pub(crate) use settings::settings;
pub(crate) use skills_command::skill_set;
pub(crate) use slash::{FilePlan, remember};
pub(crate) use trust::{check_trust, folder};
pub(crate) use turn::{Conversation, open_conversation, run_turn};

/// Settings as they hold for this run, and what was found on the way to them.
pub(crate) struct Loaded {
    pub(crate) groups: Groups,
    /// Everything, for what no group holds.
    pub(crate) settings: Settings,
    /// The environment with what `.env` files added.
    pub(crate) env: Env,
    /// Which files did so, and with what.
    pub(crate) dotenv: DotenvReport,
    pub(crate) home: Home,
    pub(crate) project: Project,
    pub(crate) trust: FolderTrust,
    pub(crate) trust_reason: TrustReason,
    /// How the folder compares with what was agreed to.
    pub(crate) binding: Binding,
    /// Lines for stderr.
    pub(crate) notes: Vec<String>,
    pub(crate) installation: Option<String>,
    /// `--extensions`
    only_extensions: Vec<String>,
    /// Read at the first question; see [`extensions::of`].
    extensions: OnceLock<extensions::Extensions>,
    /// Newer versions of extensions are looked for once.
    updates: OnceLock<()>,
    /// Servers that outlive a conversation which is cleared.
    servers: mcp::Kept,
    /// Read at the first question; see [`agents::of`].
    agents: OnceLock<std::sync::Arc<pollux_extend::agents::Registry>>,
}

/// What the model is asked with.
pub(crate) struct Credentials {
    pub(crate) auth: Auth,
    /// What tokens for Vertex AI are made of.
    pub(crate) google: Option<GoogleCredentials>,
    pub(crate) auth_type: Option<String>,
    pub(crate) api_key: bool,
    pub(crate) vertex: bool,
    /// Values that telemetry must not contain.
    pub(crate) secrets: Vec<Secret>,
    /// Whether they are the project's, for want of the person's own.
    pub(crate) of_project: bool,
    /// Lines for stderr.
    pub(crate) notes: Vec<String>,
}

/// What trust in the folder leaves of the wished approval mode.
pub(crate) struct Permission {
    pub(crate) approval: ApprovalMode,
    pub(crate) notes: Vec<String>,
}

/// What a run needs, checked.
pub(crate) struct Turn<'a> {
    pub(crate) options: &'a Options,
    pub(crate) loaded: &'a Loaded,
    pub(crate) session: Chosen,
    pub(crate) credentials: Credentials,
    pub(crate) permission: Permission,
    pub(crate) sandbox: Sandbox,
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
        only_extensions: options.extensions.clone(),
        extensions: OnceLock::new(),
        updates: OnceLock::new(),
        servers: mcp::Kept::default(),
        agents: OnceLock::new(),
    })
}

/// Home, trust, `.env` and settings, in the safe order.
fn start(options: &Options, env: &Env) -> Result<Start, Failure> {
    let request = StartRequest {
        env: env.clone(),
        root: env.cwd().to_path_buf(),
        skip_trust: options.skip_trust,
        ignore_env: options.ignore_env,
        now: Some(SystemClock.now()),
        args: pollux_config::settings::ArgOverrides(overrides(options)),
        ..StartRequest::default()
    };
    startup::start(request).map_err(|error| {
        let hint = match &error {
            StartError::Home(error) => error.hint(),
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
