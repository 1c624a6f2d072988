//! Bringing skills and extensions onto this machine.
//!
//! Owns: where something is installed from (a folder, a git repository, a release, an archive), fetching and
//! unpacking it safely, what a person is asked to agree to, putting it in place as a whole, updating and removing
//! it, and the proof that nobody changed it. Does not own: reading what is installed; that is `extend`. Asking;
//! that is the front end's.

pub mod archive;
mod confined;
pub mod extension;
pub mod fetch;
pub mod integrity;
pub mod place;
pub mod skill;
pub mod source;
mod tree;
