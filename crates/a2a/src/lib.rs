//! Agents elsewhere, reached over the A2A protocol.
//!
//! Owns: the agent card, the messages of the protocol (0.3; what 1.0 writes is read too), their transports (JSON-RPC and
//! HTTP+JSON), and the credentials of a call. Does not own: which agents there are, whether one may be called.
//! Start at [`remote_agent`]. Whatever a server sends is bounded in size and time and loses what controls a terminal.

mod access;
mod agent;
mod answer;
mod card;
mod link;
mod reply;

pub use access::RunCommand;
pub use agent::{Setup, remote_agent};
