//! The program as other agents meet it: the real binary, driven over HTTP with the A2A protocol.
//!
//! `a2a/server.rs` starts it with a scripted model and calls it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

#[path = "a2a/access.rs"]
mod access;
#[path = "a2a/approvals.rs"]
mod approvals;
#[path = "a2a/exposed.rs"]
mod exposed;
#[path = "a2a/faults.rs"]
mod faults;
#[path = "a2a/http.rs"]
mod http;
#[path = "peers/installed.rs"]
mod installed;
#[path = "a2a/methods.rs"]
mod methods;
#[path = "a2a/peers.rs"]
mod peers;
#[path = "a2a/replicas.rs"]
mod replicas;
#[path = "a2a/sandboxed.rs"]
mod sandboxed;
#[path = "a2a/server.rs"]
mod server;
#[path = "a2a/streams.rs"]
mod streams;
#[path = "a2a/versions.rs"]
mod versions;
