//! Assembles and keeps sessions, and lets any number of front ends attach to them.

pub mod hub;
