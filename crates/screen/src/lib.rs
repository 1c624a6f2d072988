//! The full-screen front end: drives the terminal UI of the crate `tui` for a conversation of the crate `front`.
//!
//! Pass [`Screens`] to `pollux_front::run`. The UI runs on its own thread (`stage.rs`), so that keys are handled whatever
//! the conversation does; `front_end.rs` is the conversation's end of it. What a frame looks like is up to `tui`, what a
//! command does is up to `front`.

mod appearance;
mod edit_call;
mod front_end;
mod keyboard;
mod list_keys;
mod mailbox;
mod message;
mod provider;
mod services;
mod shown_tips;
mod stage;
mod terminal_watch;
mod themes;

pub use provider::Screens;
