//! The subcommands: `pollux config`, `pollux mcp` and so on, a module for each noun.
//!
//! A module holds its arguments (derived for clap, doc comments are the help), what is done and what is printed.
//! [`TABLE`] lists the modules; the command line builds its tree of commands from it, and a conversation runs a line with
//! [`run_line`]. Knows nothing of conversations, screens and output formats.

pub mod agents;
pub mod auth;
pub mod bug;
pub mod columns;
pub mod command_line;
pub mod config;
mod context;
pub mod doctor;
pub mod extensions;
pub mod hooks;
pub mod import;
pub mod licenses;
mod line;
pub mod mcp;
pub mod memory;
pub mod models;
mod output_file;
pub mod policy;
pub mod prompt;
pub mod providers;
pub mod replay;
pub mod sandbox;
pub mod sessions;
pub mod skills;
mod table;
#[cfg(test)]
mod test_home;
pub mod trust;
mod usage;

pub use context::Context;
pub use line::{Captured, run_captured, run_line};
pub use table::{Command, Subcommand, TABLE, subcommand};
pub use usage::UsageError;
