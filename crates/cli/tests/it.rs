//! The program as others meet it: the real binary, its streams and its exit codes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "it/start.rs"]
mod start;
