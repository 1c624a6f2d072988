//! The terminal's screen: what a person sees and types.
//!
//! Owns: the terminal itself, the composer with its keys, the transcript as it is shown, dialogs, themes, Markdown.
//! Holds no truth: its state is what events told and what the person typed. Does not own: what a command does, what
//! may run, where anything is kept: that is the program that drives it.
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
