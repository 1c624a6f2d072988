//! The end of a child process whose sockets were closed.

use std::process::Child;
use std::time::{Duration, Instant};

/// Waits for a process that is about to end by itself, and kills it at the deadline.
pub(crate) fn wait_or_kill(process: &mut Child, deadline: Instant) {
    while process.try_wait().is_ok_and(|status| status.is_none()) {
        if Instant::now() > deadline {
            let _ = process.kill();
            let _ = process.wait();
            return;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}
