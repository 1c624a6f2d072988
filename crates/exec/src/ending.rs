//! How commands end.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Signalled(i32),
    /// The cancellation token fired.
    Cancelled,
    /// Nothing was printed for the allowed time.
    Inactive,
}

pub(crate) fn ending_of(status: io::Result<ExitStatus>) -> Ending {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Exited(code),
            (None, Some(signal)) => Ending::Signalled(signal),
            (None, None) => Ending::Exited(-1),
        },
        // Only if another process collected our child.
        Err(_) => Ending::Exited(-1),
    }
}
