//! Returns unused memory to the system, so that a long-running process does not grow.
//!
//! glibc's allocator keeps freed memory in per-thread arenas. With other allocators, this module does nothing.

use std::sync::atomic::{AtomicU32, Ordering};

/// Turns of this process after which it is worth the work. Short runs never do it.
const TURNS: u32 = 16;

/// Notes that a turn has ended. Needs a runtime.
pub(crate) fn note_turn_end() {
    static ENDED: AtomicU32 = AtomicU32::new(0);
    if ENDED.fetch_add(1, Ordering::Relaxed) % TURNS == TURNS - 1 {
        return_soon();
    }
}

/// Returns unused memory on another thread, without waiting. Needs a runtime.
pub(crate) fn return_soon() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    drop(tokio::task::spawn_blocking(return_now));
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a call of the C library")]
fn return_now() {
    // SAFETY: takes a number only, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
