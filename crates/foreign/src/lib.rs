//! Reads the sessions of other agents from their own stores.
//!
//! Owns: the stores of Claude Code, Codex and OpenCode in every format that their releases wrote, and one
//! vocabulary for their content.
//! Does not own: our own session files (`session`), the index over all of them (`catalogue`), display.
//! Nothing here writes, locks or deletes: stores are only read, links in them are not followed, and unknown,
//! truncated or oversized content is skipped.
//! Start at [`ForeignStore::list`]; [`ForeignStore::conversation`] and [`to_messages`] produce a session that
//! can be continued here.

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
