//! Agents that this one asks for help, as far as a session knows of them. `invoke_agent.rs` asks one.

pub(crate) mod goal;
pub(crate) mod own_servers;
pub(crate) mod port;
pub(crate) mod run;
pub(crate) mod terminate_mode;
