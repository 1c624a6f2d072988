//! Decides whether a tool call may run.
//!
//! Owns: policy files and their tiers, rule matching, the analysis of shell commands, safety checkers, and the
//! explanation of a decision. Does not prompt the user, run anything or read settings.
//! Start at [`engine::Engine::decide`] and [`shell::analyse`]. After loading, the disk is accessed only through
//! [`disk::Disk`], to find out which files a command would read.

pub mod always;
pub mod checker;
pub mod disk;
pub mod engine;
pub mod explain;
mod file;
mod git_index;
pub mod inventory;
pub mod load;
mod pattern;
pub mod plan_file;
pub mod request;
mod rule;
mod secrets;
pub mod settings_rules;
pub mod shell;
mod tier;
mod tool_name;
mod wildcard;

pub use file::{Problem, Severity};
pub use tier::Tier;
pub use tool_name::{BUILT_IN, canonical as canonical_tool_name, qualified as qualified_tool_name};
