//! Between fork and exec, makes a child the leader of a new session that inherits only its streams.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Pid, Signal};

use crate::signal_actions::restore_defaults;

/// Lets the kernel end the child when the thread that starts it ends.
#[cfg(target_os = "linux")]
pub(crate) fn end_with_parent(command: &mut Command) {
    let prepare = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?);
    #[expect(unsafe_code, reason = "pre_exec is unsafe because of what the closure may do")]
    // SAFETY: the closure makes one system call that takes a number.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Makes the child the leader of a new session, lets the kernel kill it when this process dies, and lets it inherit
/// only its three streams.
pub fn lead_new_session(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before that took effect.
            let is_ours = |id: Pid| u32::try_from(id.as_raw_nonzero().get()) == Ok(parent);
            if !rustix::process::getppid().is_some_and(is_ours) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = parent;
        // A script that starts this program in the background lets it ignore signals; they must end the child.
        restore_defaults([libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM]);
        control_terminal();
        Ok(())
    };
    #[expect(unsafe_code, reason = "pre_exec is unsafe because of what the closure may do")]
    // SAFETY: the closure makes system calls that take numbers, and neither allocates nor locks.
    unsafe {
        command.pre_exec(prepare);
    }
    keep_standard_streams_only(command);
}

/// If standard input is a terminal, makes it the one that controls the new session, so that Ctrl+C and `/dev/tty` work.
/// The kernel hangs up when the leader exits; processes left in the background must survive that, as they do with pipes.
///
/// For use between fork and exec: allocates nothing.
#[expect(unsafe_code, reason = "the standard streams are known by their numbers")]
pub(crate) fn control_terminal() {
    // SAFETY: standard input is open, and both calls take numbers only and are safe after a fork.
    unsafe {
        if rustix::process::ioctl_tiocsctty(BorrowedFd::borrow_raw(0)).is_ok() {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
    }
}

/// Lets the child inherit nothing but its three streams, and no other open files of this program.
///
/// On kernels that cannot do this here, the flags set at program start must suffice.
pub fn keep_standard_streams_only(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        let mark = || {
            mark_all_descriptors();
            Ok(())
        };
        #[expect(unsafe_code, reason = "pre_exec is unsafe because of what the closure may do")]
        // SAFETY: the closure makes one async-signal-safe call and captures nothing.
        unsafe {
            command.pre_exec(mark);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Marks everything above the three streams with one system call; false if the kernel cannot.
///
/// For use between fork and exec too: allocates nothing.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library cannot mark a range of descriptors")]
pub fn mark_all_descriptors() -> bool {
    // SAFETY: a system call with three numbers. It closes nothing; it only marks descriptors to be closed at
    // exec.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 }
}
