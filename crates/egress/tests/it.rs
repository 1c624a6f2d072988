//! The proxy over real sockets: what programs see, and what attacks reach.
//!
//! Names resolve to public addresses that a dialer leads to servers on loopback, so no test leaves the machine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "a test says which programs are missing")]

#[path = "it/attacks.rs"]
mod attacks;
#[path = "it/limits.rs"]
mod limits;
#[path = "it/plain.rs"]
mod plain;
#[path = "it/programs.rs"]
mod programs;
#[path = "it/questions.rs"]
mod questions;
#[path = "it/tunnels.rs"]
mod tunnels;
#[path = "it/world.rs"]
mod world;
