//! Integration tests of every tool on real files.

#![expect(clippy::unwrap_used, reason = "what a test helper needs must be there")]

#[path = "it/bench.rs"]
mod bench;
#[path = "it/containment.rs"]
mod containment;
#[path = "it/declarations.rs"]
mod declarations;
#[path = "it/discovery.rs"]
mod discovery;
#[path = "it/editing.rs"]
mod editing;
#[path = "it/escapes.rs"]
mod escapes;
#[path = "it/notes.rs"]
mod notes;
#[path = "it/reading.rs"]
mod reading;
#[path = "it/searching.rs"]
mod searching;
#[path = "it/shell.rs"]
mod shell;
#[path = "it/web.rs"]
mod web;
