//! The A2A server: other agents give Pollux tasks over HTTP.
//!
//! Use [`run`] for `pollux a2a serve`. Owns: the protocol's methods on both transports and in both versions, tasks with
//! their leases and rest points, callers and their limits. Does not own: sessions (`host`), the messages of the protocol
//! (`a2a`), object stores (`blobs`), HTTP (`serve`).
//!
//! Start at `site.rs` (which address leads where), then `operations.rs` (the methods), `service.rs` (tasks) and
//! `session.rs` (the agent behind a task).

mod access;
mod arrivals;
mod audit;
mod card;
mod command;
mod error;
mod fingerprint;
mod guard;
mod incoming;
mod manner;
mod metrics;
mod narrator;
mod open_streams;
mod operations;
mod options;
mod push;
mod rpc;
mod secret_file;
mod server;
mod service;
mod session;
mod settings;
mod site;
mod store;
mod streams;
mod task;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "scratch files need no care")]
mod testing;
mod upstream;
mod webhooks;
mod workspace;

pub use options::ServeOptions;
pub use server::run;
