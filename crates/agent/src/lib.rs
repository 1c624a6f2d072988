//! The agent: session, turn, step, call.
//!
//! Owns: the running conversation, the loop that processes a prompt, the scheduling of calls, approval by
//! mode, hook effects, loop detection, compression, sub-agents, and the system prompt. It never prints,
//! parses no file format, and knows no provider: the model and the tools come in through ports, and everything
//! is reported as one stream of events.
//!
//! The state is in `session.rs`: approval (`authority.rs`), conversation (`conversation.rs`), ports
//! (`services.rs`) and events (`emitter.rs`). The logic is in functions over these parts: start at [`open()`],
//! then `turn.rs` (a prompt), `step.rs` (a request) and `calls.rs` (a batch of calls).

mod approval;
mod authority;
mod call;
mod calls;
mod changes;
mod compress;
mod consoles;
mod control;
mod conversation;
mod denial;
mod editor_context;
mod effort;
mod emitter;
pub mod environment;
mod epoch;
mod explain;
mod fallback;
mod history;
mod hooked;
mod invoke_agent;
mod loop_guard;
mod mask;
mod open;
mod pending_questions;
mod permission;
pub mod prompt;
mod reply;
mod room;
mod schema;
mod services;
mod session;
mod shell_ran;
mod spending;
mod steering;
mod step;
mod step_end;
mod stopwatch;
mod subagent;
mod subagent_host;
mod tokens;
mod toolbox;
mod truncate;
mod turn;

pub use authority::GrantReach;
pub use hooked::HookPort;
pub use open::operations::{Operations, SessionOver};
pub use open::{Handle, Planning, Ports, Preview, SessionSpec, open, preview};
pub use schema::check as check_arguments;
pub use subagent::own_servers::{OwnServers, StartedServers};
pub use subagent::port::AgentPort;
pub use subagent::terminate_mode::TerminateMode;
