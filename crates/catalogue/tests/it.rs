//! The index over real files: new, changed, deleted, damaged and in use.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of tests fail as tests do")]

#[path = "it/faults.rs"]
mod faults;
#[path = "it/listing.rs"]
mod listing;
#[path = "it/scratch.rs"]
mod scratch;
#[path = "it/searching.rs"]
mod searching;
