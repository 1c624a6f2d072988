//! Integration tests that run real commands.

#![expect(clippy::unwrap_used, reason = "what a test helper needs must be there")]

#[path = "it/background.rs"]
mod background;
#[cfg(target_os = "linux")]
#[path = "it/sandbox.rs"]
mod sandbox;
#[path = "it/shell.rs"]
mod shell;
