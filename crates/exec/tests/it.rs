//! Runs real commands.

#![expect(clippy::unwrap_used, reason = "what a test helper needs must be there")]

#[path = "it/background.rs"]
mod background;
#[path = "it/shell.rs"]
mod shell;
