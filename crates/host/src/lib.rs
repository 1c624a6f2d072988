//! Assembles a conversation from settings, trust and credentials, and hosts it.
//!
//! A front end fills a [`Request`], loads the settings ([`load_settings`]), checks what is needed ([`prepare`]) and opens
//! a [`Conversation`]; events come out, operations go in. This is the only crate that joins the agent to its adapters.
//! It prints nothing, and knows neither command lines nor screens.

pub mod account;
mod agent_servers;
pub mod agents;
mod attached;
pub mod auth;
mod auth_method;
mod background_work;
pub mod browser;
mod budget;
mod built_in_prompts;
pub mod checker;
pub mod confinement;
mod container;
pub mod conversation;
mod credentials;
pub mod custom_commands;
pub mod editor;
pub mod extension_set;
mod extension_updates;
pub mod extensions;
pub mod external_editors;
mod found_extensions;
mod gguf;
mod github_workflows;
pub mod helpers;
pub mod hooks;
pub mod hub;
mod invocations;
mod kept_servers;
mod load;
mod loaded;
pub mod local_server;
mod machine;
pub mod mcp;
mod mcp_login;
pub mod memory;
pub mod mentions;
pub mod model_list;
pub mod models;
mod offers;
pub mod peer;
mod permission;
pub mod policy;
mod prepared;
pub mod preview;
pub mod progress;
pub mod project_model;
pub mod project_providers;
mod prompt;
pub mod prompter;
pub mod providers;
mod remote_agents;
mod replay;
pub mod request;
pub mod rewind;
mod sandbox;
mod sandbox_page;
mod saved_chat;
mod server_names;
mod services;
mod session_model;
pub mod sessions;
pub mod settings;
pub mod skills;
mod slash;
mod start_up;
mod system_prompt;
mod terminals;
mod titles;
mod tool_entries;
pub mod trust;
pub mod turn;
mod unused_memory;
pub mod whole_program;
mod workspace;

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

pub use attached::{SessionReport, stored_history};
pub use auth::check_credentials;
pub use built_in_prompts::begin_context_file;
pub use conversation::{Conversation, SessionLink, TurnFront, TurnRequest, Turned};
pub use credentials::Credentials;
pub use custom_commands::{CommandList, Invocation};
pub use extensions::{check_extensions, extension_themes};
pub use github_workflows::WorkflowSetup;
pub use load::{check_policy_files, load_settings};
pub use loaded::Loaded;
pub use mcp::Detail;
pub use mcp_login::{ServerLogin, begin_server_login};
pub use models::models;
pub use offers::Offers;
pub use permission::{Permission, check_trust, forbidden_mode};
/// Whether arguments match a tool's schema.
pub use pollux_agent::check_arguments;
pub use pollux_config::settings::provider_keys;
pub use pollux_exec::own_process::{OnlyThread, close_descriptors_on_exec, end_on_signals, hide_credentials};
pub use pollux_mcp::split_words;
pub use pollux_rewind::checkpoint;
pub use pollux_tools::{
    MAX_EXTRA_DIRECTORIES, SandboxSlot, Workspace, WorkspaceSetup, list_paths, path_list_key,
};
pub use prepared::{Prepared, prepare, prepare_headless, refuse_forbidden_yolo};
pub use replay::replay;
pub use request::Request;
pub use sandbox::{
    Sandbox, SandboxInForce, check_sandbox, open_rights, run_holder_if_asked, sandbox_request,
    unavailable as sandbox_unavailable,
};
pub use sandbox_page::sandbox_page;
pub use services::Services;
pub use sessions::{
    Chosen, Freshness, HistoryItem, RecordedCall, RecordedItem, StoredChat, StoredChats, choose_session,
    delete_session, list_sessions, stored_chats, tidy_up,
};
pub use slash::{FilePlan, Task, remember};
pub use start_up::start;
pub use turn::{HostedSession, open_conversation, open_hosted, run_attached_turn, run_turn};
/// A finished turn.
pub struct Done {
    pub end: TurnEnd,
    pub session_file: Option<PathBuf>,
}

/// Receives events; `Break` cancels the run because nobody is listening.
pub type Sink<'a> = dyn FnMut(&Event) -> ControlFlow<()> + 'a;

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that the program was built from, if its builder said so.
pub const COMMIT: Option<&str> = option_env!("POLLUX_GIT_COMMIT");

/// The error for an event loop that could not be started.
pub fn cannot_start(error: &io::Error) -> Failure {
    Failure::new(ExitKind::Failure, "could not start the event loop").because(error)
}
