//! Runs real commands.

#[path = "it/background.rs"]
mod background;
#[path = "it/shell.rs"]
mod shell;
