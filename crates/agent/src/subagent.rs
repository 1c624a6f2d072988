//! Sub-agent data of a session. `invoke_agent.rs` runs sub-agents.

pub(crate) mod goal;
pub(crate) mod own_servers;
pub(crate) mod port;
pub(crate) mod run;
pub(crate) mod terminate_mode;
