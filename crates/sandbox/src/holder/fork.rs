//! Copies of the holder's process.

use std::io;

use rustix::process::Pid;

/// The child's process ID in the parent, `None` in the child.
#[expect(unsafe_code, reason = "the standard library has no fork")]
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this process has one thread, so the child's copy of memory is consistent.
    let id = unsafe { libc::fork() };
    match id {
        -1 => Err(io::Error::last_os_error()),
        id => Ok(Pid::from_raw(id)),
    }
}
