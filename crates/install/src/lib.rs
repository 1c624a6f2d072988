//! Installs skills and extensions.
//!
//! Owns: install sources (a folder, a git repository, a release, an archive), fetching and unpacking them
//! safely, the consent text, atomic installation, updating and removing, and integrity checks.
//! Does not own: loading what is installed (`extend`), and prompting the user (front ends).

pub mod extension;
pub mod fetch;
pub mod integrity;
pub mod place;
pub mod skill;
pub mod source;

pub use pollux_archive::Limits;
