//! The memory as a whole, with files and processes.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests fail where something is wrong"
)]

#[path = "it/compatible.rs"]
mod compatible;
#[path = "it/faults.rs"]
mod faults;
#[path = "it/forgetting.rs"]
mod forgetting;
#[path = "it/indexing.rs"]
mod indexing;
#[path = "it/kill.rs"]
mod kill;
#[path = "it/private.rs"]
mod private;
#[path = "it/processes.rs"]
mod processes;
#[path = "it/scratch.rs"]
mod scratch;
#[path = "it/searching.rs"]
mod searching;
#[path = "it/splitting.rs"]
mod splitting;
#[path = "it/workspaces.rs"]
mod workspaces;
