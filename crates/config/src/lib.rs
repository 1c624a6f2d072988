//! Where things are and what the user set.
//!
//! Owns: the environment as a value, the layout of `~/.gemini` and of a project's state, settings files
//! (layers, merge, validation, migration, edits that keep comments), `.env` files, folder trust, and the
//! safe ways to write a file. Does not own: what a setting does.
//! Start at [`settings::load`] and [`paths::Home`].

pub mod env;
pub mod groups;
pub mod paths;
