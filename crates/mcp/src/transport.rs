//! Transports to servers.

pub(crate) mod erased;
pub(crate) mod events;
pub(crate) mod http;
pub(crate) mod sse;
pub(crate) mod stdio;

/// Bytes of one message; a longer one is not taken.
pub(crate) const MAX_MESSAGE: usize = 16 << 20;
