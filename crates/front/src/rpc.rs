//! JSON-RPC over lines, for front ends that are programs.
//!
//! Use it to serve a client: [`messages`] reads what it sends, [`Peer`] answers, notifies and asks it. What the methods
//! mean is not decided here.

mod error;
mod peer;
mod wire;

pub use error::RpcError;
pub use peer::{Answer, Peer, Request};
pub use wire::{Incoming, message, messages};
