//! The terminal UI: composer, transcript, dialogs, themes and painting.
//!
//! Use it from a front end that passes events and keys to [`app::App`] and paints its frames; the crate `screen` does. The
//! state consists only of events and typed input, so tests need no terminal. It does not run commands, read settings or
//! decide approvals.
//! Start at `app.rs`; `screen.rs` is how a frame reaches the terminal.

pub mod app;
mod code;
pub mod composer;
pub mod dialog;
mod diff;
pub mod keys;
mod markdown;
pub mod screen;
pub mod terminal;
pub mod theme;
pub mod transcript;
mod wrap;
