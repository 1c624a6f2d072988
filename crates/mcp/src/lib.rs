//! MCP servers: connections, and what they offer as tools, prompts and resources.
//!
//! Owns: starting and watching servers, discovery, cleaned schemas, results as content. Does not own: whether a
//! call may run (`policy`), stored tokens and OAuth (`net`), settings files, names of tools (a function that
//! comes in).
//! Start at [`Servers::start`]: one thread serves all connections, so that a server which floods or hangs delays
//! nobody. `server.rs` is one server as everybody else sees it, `connection.rs` its life, `transport.rs` the ways
//! to reach it. Everything a server says is bounded where it arrives and marked as foreign where it is passed on.

mod access;
mod cache;
mod client_link;
mod config;
mod connection;
mod elicitation;
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod listener;
mod log;
mod offer;
mod problem;
mod prompt;
mod request;
mod resource;
mod result;
mod rights;
mod schema;
mod server;
mod servers;
mod setup;
mod shared;
mod tool;
mod transport;
mod users;
mod words;

pub use access::{Access, AccessError, SignIn, oauth_server};
pub use client_link::ClientLink;
pub use config::{Auth, ConfigError, Link, ServerConfig, UnsetHeader, child_environment};
pub use listener::NotificationListener;
pub use offer::PromptSpec;
pub use prompt::{PromptCommand, PromptError};
pub use request::RequestError;
pub use rights::Rights;
pub use server::{Report, Status, ToolReport};
pub use servers::Servers;
pub use setup::{Owners, ServerEntry, Setup};
pub use shared::SharedServers;
pub use words::split as split_words;
