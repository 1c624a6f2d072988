//! Reads the sessions that other agents stored, where they stored them.
//!
//! Owns: the stores of Claude Code, Codex and OpenCode in every form that their releases wrote, and one
//! vocabulary for what is in them. Does not own: our own session files (`session`), the index over all of
//! them (`catalogue`), screens.
//! Nothing here writes, locks or deletes: a store is only read, links in it are not followed, and what is
//! unknown, torn or too large is skipped.
//! Start at [`ForeignStore::list`]; [`ForeignStore::conversation`] and [`to_messages`] lead to a session
//! that can be continued here.

mod arguments;
mod claude;
mod codex;
mod conversation;
mod entry;
mod folder;
mod json;
mod lines;
mod opencode;
mod session;
mod store;

pub use conversation::{ForeignBody, ForeignCall, ForeignMessage, to_messages};
pub use entry::{ForeignAgent, ForeignEntry, ReadError, Stamp};
pub use session::{ForeignSession, ForeignTextKind};
pub use store::{ForeignListing, ForeignStore, ForeignTextVisitor};
