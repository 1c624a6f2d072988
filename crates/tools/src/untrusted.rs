//! Marks text that others wrote.

pub(crate) use pollux_domain::untrusted::{wrapped, wrapped_in_place};
