//! The only file that names the adapters.

use std::ops::ControlFlow;
use std::path::PathBuf;

use pollux_config::env::Env;
use pollux_config::groups::{Groups, Secret};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::id::SessionId;
use tokio_util::sync::CancellationToken;

use crate::config_command::Settings;
use crate::launch::Options;
use crate::report::Failure;

/// Settings as they hold for this run.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) groups: Groups,
    /// Lines for stderr.
    pub(crate) notes: Vec<String>,
    pub(crate) installation: Option<String>,
}

/// The session of this run.
pub(crate) struct Chosen {
    pub(crate) id: SessionId,
    pub(crate) notes: Vec<String>,
}

/// What the model is asked with.
pub(crate) struct Credentials {
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
#[allow(dead_code, reason = "read by the agent once it is joined")]
pub(crate) struct Turn<'a> {
    pub(crate) options: &'a Options,
    pub(crate) loaded: &'a Loaded,
    pub(crate) env: &'a Env,
    pub(crate) session: Chosen,
    pub(crate) credentials: Credentials,
    pub(crate) sandbox: Sandbox,
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

fn unavailable<T>(what: &str) -> Result<T, Failure> {
    Err(Failure::new(ExitKind::Failure, format!("{what} is not available in this version")))
}

/// Settings files, variables and flags (52).
pub(crate) fn load_settings(_options: &Options, _env: &Env) -> Result<Loaded, Failure> {
    unavailable("the agent")
}

/// `--resume`, `--session-id`, `--session-file` (42).
pub(crate) fn choose_session(_options: &Options, _loaded: &Loaded, _env: &Env) -> Result<Chosen, Failure> {
    unavailable("the agent")
}

/// Whether the model can be asked (41).
pub(crate) fn check_credentials(
    _options: &Options,
    _loaded: &Loaded,
    _env: &Env,
) -> Result<Credentials, Failure> {
    unavailable("the agent")
}

/// Whether the wished sandbox works (44).
pub(crate) fn check_sandbox(_options: &Options, _loaded: &Loaded, _env: &Env) -> Result<Sandbox, Failure> {
    unavailable("the agent")
}

/// Whether the folder is trusted (55).
pub(crate) fn check_trust(_options: &Options, _loaded: &Loaded, _env: &Env) -> Result<Permission, Failure> {
    unavailable("the agent")
}

/// Assembles the agent and runs one prompt; every event goes to `sink`, in order.
pub(crate) async fn run_turn(
    _turn: Turn<'_>,
    _cancel: CancellationToken,
    _sink: &mut Sink<'_>,
) -> Result<Done, Failure> {
    unavailable("the agent")
}

/// The text of `--list-sessions`.
pub(crate) fn list_sessions(_options: &Options, _env: &Env) -> Result<String, Failure> {
    unavailable("--list-sessions")
}

/// The text of `--delete-session`.
pub(crate) fn delete_session(_which: &str, _options: &Options, _env: &Env) -> Result<String, Failure> {
    unavailable("--delete-session")
}

/// The settings for `pollux config`.
pub(crate) fn settings(_options: &Options, _env: &Env) -> Result<Box<dyn Settings>, Failure> {
    unavailable("`config`")
}
