//! Gives memory back that turns have used, so that a process that lives for days does not grow.

use std::sync::atomic::{AtomicU32, Ordering};

use pollux_exec::own_process::return_unused_memory;

/// Turns of this process after which it is worth the work. Short runs never do it.
const TURNS: u32 = 16;

/// Notes that a turn has ended. Needs a runtime.
pub(crate) fn note_turn_end() {
    static ENDED: AtomicU32 = AtomicU32::new(0);
    if ENDED.fetch_add(1, Ordering::Relaxed) % TURNS == TURNS - 1 {
        // Nothing waits for it.
        drop(tokio::task::spawn_blocking(return_unused_memory));
    }
}
