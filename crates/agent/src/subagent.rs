//! Agents that this one asks for help.
//!
//! A sub-agent is a [`Session`](crate::session::Session) of its own: the same loop with another prompt, other tools,
//! another record and another end. `executor.rs` runs one, `session.rs` makes its session, `run.rs` is what makes a
//! session a sub-agent's, and `invoke_agent.rs` is the tool that the model calls.

mod complete_task;
mod executor;
mod goal;
pub(crate) mod host;
pub(crate) mod invoke_agent;
pub(crate) mod own_servers;
pub(crate) mod port;
mod remote;
pub(crate) mod run;
mod session;
pub(crate) mod terminate_mode;
mod toolset;
mod words;
