//! Integration tests of the rewind crate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and write the files that the code under test must notice"
)]

#[path = "it/journal.rs"]
mod journal;
#[path = "it/limits.rs"]
mod limits;
#[path = "it/mutations.rs"]
mod mutations;
#[path = "it/restoring.rs"]
mod restoring;
#[path = "it/scripts.rs"]
mod scripts;
#[path = "it/shadow.rs"]
mod shadow;
#[path = "it/workspace.rs"]
mod workspace;
