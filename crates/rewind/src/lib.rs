//! Takes the workspace back to what it was before the agent changed it.
//!
//! Owns: the journal of a session (which call changed which paths, from what to what), the store of file
//! contents behind it, the plan of a rewind and its execution; upstream's shadow repository with its
//! checkpoint files; and the reversal of edits that a foreign session recorded.
//! Does not own: the conversation (session), when a call runs (agent), what is shown.
//! Start at [`Journal`]: `before` and `after` surround a call, `plan` and `apply` go back. All of it blocks;
//! an async caller uses `spawn_blocking`.
//!
//! What is restored: content, mode bits (also setuid and sticky) and links of every file, empty folders, the
//! absence of what was new; tracked, untracked and ignored files and `.git` alike.
//!
//! What is not:
//! - files above [`Limits`], and what [`Limits`] leave out; the journal says which,
//! - folders that [`default_skips`] or a `CACHEDIR.TAG` name as caches: neither restored nor deleted,
//! - other file systems mounted below the root, and a git directory outside the root (linked work trees),
//! - packs in `.git/objects` above the file limit are held by a second link: safe from deletion, not from a
//!   program that writes into them,
//! - owners, extended attributes, ACLs, times (build tools must see that a file changed), sockets, pipes and
//!   devices,
//! - that two names are hard links of one file: both get their content back, as two files.

mod apply;
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

pub use apply::{Applied, Conflicts, Kept};
pub use coverage::{Coverage, Reason, Uncovered};
pub use journal::{
    Forgotten, Journal, JournalSetup, LogError, OpenError, Point, PointSummary, Reach, RewindError,
    SnapshotError, Target, forget,
};
pub use plan::{Action, Conflict, Plan, Step};
pub use scope::{Limits, default_skips};
