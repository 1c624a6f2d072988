//! Signals of a holder: blocked, so that none ends it, with the end of a child as a readable descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};

use crate::signal_actions::restore_defaults;

/// One more than the highest signal.
const SIGNALS: i32 = 65;

/// Readable when a child has ended.
#[derive(Debug)]
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// Permanently blocks all signals.
    #[expect(unsafe_code, reason = "the standard library has no signal sets")]
    pub(crate) fn hold_back() -> io::Result<Self> {
        let (mut all, mut children) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the sets are filled before they are read, and both live through the calls; the descriptor is new.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigemptyset(children.as_mut_ptr());
            libc::sigaddset(children.as_mut_ptr(), libc::SIGCHLD);
            libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
            match libc::signalfd(-1, children.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                descriptor => Ok(Self(OwnedFd::from_raw_fd(descriptor))),
            }
        }
    }

    pub(super) fn drain(&self) {
        let mut buffer = [0; 4096];
        while rustix::io::read(&self.0, &mut buffer).is_ok_and(|count| count > 0) {}
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Resets all signal handlers and unblocks all signals. For use between fork and exec: allocates nothing.
#[expect(unsafe_code, reason = "the standard library has no signal sets")]
pub(super) fn reset() {
    restore_defaults(1..SIGNALS);
    let mut none = MaybeUninit::uninit();
    // SAFETY: the set is filled before it is read.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}
