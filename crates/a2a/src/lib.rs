//! Remote agents, reached over the A2A protocol.
//!
//! Owns: the agent card, the protocol messages (0.3 and 1.0, shared with the server), the transports (JSON-RPC and
//! HTTP+JSON), and the credentials of a call. Does not own: which agents exist, and whether one may be called.
//! Start at [`remote_agent`]. Everything a server sends is bounded in size and time, and terminal control
//! characters are removed.

mod access;
mod agent;
mod answer;
mod card;
#[doc(hidden)]
pub mod fuzzing;
mod link;
pub mod protocol;

pub use access::RunCommand;
pub use agent::{Setup, remote_agent};
