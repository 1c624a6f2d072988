//! What the subcommands and the screen take from the libraries of their noun.

mod clipboard;
mod desk;
mod hooks;
mod mcp_command;
mod memory;
mod policy_command;
mod sessions;
mod skills_command;

pub(crate) use clipboard::copy_here;
pub(crate) use desk::{Machine, desk, editors};
pub(crate) use hooks::hook_set;
pub(crate) use mcp_command::server_set;
pub(crate) use memory::notebook;
pub(crate) use policy_command::rules;
pub(crate) use pollux_host::agents::agent_set;
pub(crate) use pollux_host::auth::sign_ins;
pub(crate) use pollux_host::extension_set::extension_set;
pub(crate) use pollux_host::settings::settings;
pub(crate) use pollux_host::trust::folder;
pub(crate) use pollux_host::*;
pub(crate) use sessions::archive;
pub(crate) use skills_command::skill_set;
