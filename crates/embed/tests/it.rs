//! The crate from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop where they fail")]

#[path = "it/choice.rs"]
mod choice;
#[path = "it/install.rs"]
mod install;
#[path = "it/local.rs"]
mod local;
#[path = "it/remote.rs"]
mod remote;
#[path = "it/server.rs"]
mod server;
