//! Pseudo-terminal functions that the standard library lacks.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// The two ends of a new terminal: the window's, and the program's.
#[expect(unsafe_code, reason = "the standard library knows no terminals")]
pub(super) fn open() -> io::Result<(File, File)> {
    let open = |path: &str| {
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC).open(path)
    };
    let window = open("/dev/ptmx")?;
    let mut name: [libc::c_char; 64] = [0; 64];
    // SAFETY: the descriptor is open, and the name fits in the buffer, whose length is passed.
    let named = unsafe {
        libc::grantpt(window.as_raw_fd()) == 0
            && libc::unlockpt(window.as_raw_fd()) == 0
            && libc::ptsname_r(window.as_raw_fd(), name.as_mut_ptr(), name.len()) == 0
    };
    if !named {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `ptsname_r` ended the name with a zero.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    let program = open(&name.to_string_lossy())?;
    Ok((window, program))
}

/// Which of two have something to say: bytes, or that nothing comes any more.
pub(super) struct Ready {
    pub(super) has_bytes: bool,
    pub(super) is_over: bool,
}

/// Waits until there is something to read, or `stop` is closed by its other end.
#[expect(unsafe_code, reason = "the standard library cannot wait for two files")]
pub(super) fn wait(from: &impl AsRawFd, stop: &impl AsRawFd) -> Ready {
    let watched = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut both = [watched(from.as_raw_fd()), watched(stop.as_raw_fd())];
    // SAFETY: both descriptors are open, and the array has two entries.
    let count = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
    let has_bytes = both[0].revents & libc::POLLIN != 0;
    let is_over = count < 0 || (!has_bytes && both.iter().any(|file| file.revents != 0));
    Ready { has_bytes, is_over }
}
