//! What signals do to a process.

/// Gives signals their default action again, which ends the process for most of them, also where they were ignored.
///
/// For use between fork and exec too: allocates nothing.
#[expect(unsafe_code, reason = "the standard library has no signals")]
pub fn restore_defaults(signals: impl IntoIterator<Item = i32>) {
    for signal in signals {
        // SAFETY: takes numbers only and is safe after a fork; the kernel refuses signals whose action is fixed.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(unsafe_code, reason = "the standard library has no signals")]
    fn action(signal: i32) -> libc::sighandler_t {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: a call that only reads, and fills the value before it is read.
        unsafe {
            assert_eq!(libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()), 0);
            action.assume_init().sa_sigaction
        }
    }

    #[test]
    fn ignored_signals_act_again() {
        // No other test uses it.
        let signal = libc::SIGUSR2;
        #[expect(unsafe_code, reason = "the standard library has no signals")]
        // SAFETY: takes numbers only.
        unsafe {
            libc::signal(signal, libc::SIG_IGN)
        };
        assert_eq!(action(signal), libc::SIG_IGN);
        restore_defaults([signal]);
        assert_eq!(action(signal), libc::SIG_DFL);
    }
}
