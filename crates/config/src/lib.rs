//! Paths and settings.
//!
//! Owns: the environment as a value, the layout of `~/.gemini` and of a project's state, settings files
//! (layers, merge, validation, migration, edits that keep comments), `.env` files, folder trust, and the
//! safe ways to write a file, with what tells the owners of locks apart. Does not own: what a setting does.
//! Start at [`startup::start`], which does all of it in the right order; then [`settings::load`],
//! [`paths::Home`] and [`files::replace`].

pub mod agent_name;
pub mod budget;
pub mod credential_variables;
pub mod dotenv;
pub mod edit_file;
pub mod env;
pub mod files;
pub mod groups;
mod jsonc;
pub mod open_places;
pub mod ownership;
mod patch;
pub mod paths;
pub mod process;
mod project_trust;
#[cfg(test)]
mod scratch;
pub mod search_path;
pub mod server_name;
pub mod settings;
pub mod startup;
pub mod state;
pub mod trust;
