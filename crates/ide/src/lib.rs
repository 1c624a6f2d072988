//! The companion extension of the editor in whose terminal the program runs.
//!
//! Owns: finding the companion ([`Companion::connect`]), the connection to it, the open files that it reports, and diffs
//! in the editor. Does not own: what the model is told (`agent`), whether a change is approved (`host`), the MCP
//! transports (`mcp`).
//! Everything a companion says is foreign input: bounded, and limited to files that the session may read.

mod companion;
mod context;
mod detect;
mod diffs;
mod discovery;
mod process;

pub use companion::{Companion, CompanionSetup, CompanionStatus};
pub use detect::{EditorName, detect};
pub use diffs::DiffAnswer;
pub use discovery::{EditorChoice, Surroundings, Unreachable};
