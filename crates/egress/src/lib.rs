//! Egress proxy of the sandbox.

pub mod host;
pub mod pattern;
pub mod rules;
