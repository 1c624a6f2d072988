//! Calls to small agents: our own, well-behaved and hostile, and one built with the public server library.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "it/access.rs"]
mod access;
#[path = "it/calls.rs"]
mod calls;
#[path = "it/hostile.rs"]
mod hostile;
#[path = "it/real.rs"]
mod real;
#[path = "it/scene.rs"]
mod scene;
