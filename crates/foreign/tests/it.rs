//! Stores of other agents, in the formats that their releases wrote.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "it/claude.rs"]
mod claude;
#[path = "it/codex.rs"]
mod codex;
#[path = "it/continuing.rs"]
mod continuing;
#[path = "it/opencode.rs"]
mod opencode;
#[path = "it/scratch.rs"]
mod scratch;
#[path = "it/untouched.rs"]
mod untouched;
