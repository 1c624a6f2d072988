//! The first number of each message from a holder.

/// The answer to a setup, before its text or numbers.
pub(super) const READY: u32 = 1;
pub(super) const FAILED: u32 = 2;

/// The answer to a request: the process runs, or why it does not.
pub(super) const STARTED: u32 = 1;
pub(super) const REFUSED: u32 = 2;
/// Sent first by the child itself: the kernel tells the program the sender's process ID, which the holder sees as a
/// different one.
pub(super) const HELLO: u32 = 3;
