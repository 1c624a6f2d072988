//! The signals that a run handles.

use std::io;

use pollux_domain::exit::Received;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The handled signals.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Never read: exceeding a file size limit is a write error, not the end of the process.
    _file_too_large: Signal,
}

impl Signals {
    /// Starts listening; the signals no longer kill the process.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            _file_too_large: signal(SignalKind::from_raw(libc::SIGXFSZ))?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.interrupt.recv() => Received::Interrupt,
            _ = self.terminate.recv() => Received::Terminate,
            _ = self.hang_up.recv() => Received::HangUp,
        }
    }
}
