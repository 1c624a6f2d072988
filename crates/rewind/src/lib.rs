//! Restores the workspace to its state before the agent changed it.
//!
//! Owns: the journal of a session (which call changed which paths, from what to what), the store of file
//! contents behind it, the plan of a rewind and its execution; upstream's shadow repository with its checkpoint
//! files; and the reversal of edits recorded in a foreign session.
//! Does not own: the conversation (session), when a call runs (agent), what is displayed.
//! Start at [`Journal`]: call `before` and `after` around each tool call, `plan` and `apply` to rewind. All
//! functions block; async callers use `spawn_blocking`.
//!
//! Restored: content, mode bits (also setuid and sticky) and links of every file, empty folders, the absence of
//! new files; tracked, untracked and ignored files and `.git` alike.
//!
//! Not restored:
//! - files above [`Limits`] and files excluded by them; the journal reports which,
//! - folders that [`default_skips`] or a `CACHEDIR.TAG` mark as caches: neither restored nor deleted,
//! - other file systems mounted below the root, and a git directory outside the root (linked work trees),
//! - packs in `.git/objects` above the file limit are kept by a second hard link: safe from deletion, not from
//!   a program that writes into them,
//! - owners, extended attributes, ACLs, times (build tools must see that a file changed), sockets, pipes and
//!   devices,
//! - hard links: both names get their content back, but as two files.

mod apply;
mod aside;
mod beneath;
pub mod checkpoint;
mod coverage;
mod entry;
mod journal;
mod parallel;
mod path;
mod plan;
pub mod revert;
mod rights;
mod scan;
mod scope;
pub mod shadow;
mod snapshot;
mod store;

pub use apply::{Applied, Conflicts, KeptPath};
pub use coverage::{Coverage, Reason, Uncovered};
pub use journal::{
    ChangeScope, Journal, JournalSetup, LogError, OpenError, Point, PointSummary, PruneOutcome, RewindError,
    SnapshotError, Target, forget, has_journal,
};
pub use plan::{Action, Conflict, RewindPlan, RewindStep};
pub use scope::{Limits, default_skips};
