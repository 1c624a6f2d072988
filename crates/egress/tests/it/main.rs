//! The proxy over real sockets: what programs see, and what attacks reach.
//!
//! Names resolve to public addresses that a dialer leads to servers on loopback, so no test leaves the machine.

mod attacks;
mod limits;
mod plain;
mod questions;
mod tunnels;
mod world;
