//! What the screen takes from the machine, and what the host gives a conversation.

mod clipboard;
mod desk;

pub(crate) use clipboard::copy_here;
pub(crate) use desk::{Machine, desk, editors};
pub(crate) use pollux_admin::hooks::hook_set;
pub(crate) use pollux_admin::policy::rules;
pub(crate) use pollux_host::agents::agent_set;
pub(crate) use pollux_host::auth::sign_ins;
pub(crate) use pollux_host::settings::settings;
pub(crate) use pollux_host::trust::folder;
pub(crate) use pollux_host::*;
