//! The program as scripts and other programs meet it: the real binary, driven over pipes with `stream-json`.
//!
//! `stream/host.rs` is the program that drives it. Every line that it receives is checked against the schema that
//! `pollux schema stream-json` prints.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

#[path = "stream/examples.rs"]
mod examples;
#[path = "stream/faults.rs"]
mod faults;
#[path = "stream/host.rs"]
mod host;
#[path = "peers/script.rs"]
mod script;
#[path = "stream/turns.rs"]
mod turns;
