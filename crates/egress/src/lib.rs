//! Egress proxy of the sandbox.

pub mod hello;
pub mod host;
pub mod http;
pub mod journal;
pub mod pattern;
pub mod proxy;
pub mod question;
pub mod resolve;
pub mod rules;
pub mod server;
pub mod socks;
pub mod upstream;
