//! The resident core: one process that keeps sessions running while front ends come and go.
//!
//! `pollux core run` is [`run_core`]. Front ends reach it through a Unix socket ([`CorePlace`]) with newline JSON-RPC
//! ([`wire`]): commands use [`Client`], conversations use [`open_remote`]. Inside the core, [`Sessions`] is the registry
//! that every server of the process shares. Sessions are assembled and hosted by `host`; this crate decides who may
//! connect, what goes over the wire, and how long sessions stay loaded.
//!
//! Start at `server.rs` (which method does what), then `sessions.rs` (the life of a session).

mod client;
pub mod commands;
mod connection;
mod daemon;
mod environment;
mod keeper;
mod lines;
mod log;
mod open;
mod pages;
mod place;
mod remote;
mod run;
mod server;
mod sessions;
mod snapshot;
pub mod wire;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use daemon::{connect, connect_or_start};
pub use environment::session_environment;
pub use open::open_params;
pub use pages::{PageLink, Pages};
pub use place::CorePlace;
pub use remote::{attach, open as open_remote};
pub use run::run_core;
pub use sessions::{Attachment, Sessions};
