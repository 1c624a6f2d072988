//! Forwards the screen of a command to the user interface while it runs, batched like [`crate::live`].

use std::time::Duration;

use pollux_domain::terminal_screen::TerminalSize;
use pollux_domain::terminals::CommandTerminal;
use tokio::time::Instant;

use crate::capture::Captured;
use crate::emulator::Emulator;

/// At most twenty screens in a second.
const INTERVAL: Duration = Duration::from_millis(50);

/// The terminal of a command, and who looks at it.
pub(crate) struct ScreenFeed<'a> {
    pub(crate) terminal: &'a CommandTerminal,
    emulator: Emulator,
    /// Something changed since the last screen.
    changed: bool,
    next: Instant,
}

impl<'a> ScreenFeed<'a> {
    /// Shows the empty screen, so that a person can type before anything is printed.
    pub(crate) fn new(terminal: &'a CommandTerminal, size: TerminalSize) -> Self {
        let mut feed = Self { terminal, emulator: Emulator::new(size), changed: true, next: Instant::now() };
        feed.flush();
        feed
    }

    /// Returns the answer to what the command asked its terminal, if it did.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let answer = self.emulator.push(bytes);
        self.changed = true;
        if Instant::now() >= self.next {
            self.flush();
        }
        answer
    }

    /// Takes output that no screen shows any more.
    pub(crate) fn push_unseen(&mut self, bytes: &[u8]) {
        self.emulator.push(bytes);
    }

    pub(crate) fn resize(&mut self, size: TerminalSize) {
        self.emulator.resize(size);
        self.changed = true;
    }

    /// When the screen should be shown, if it changed.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.changed.then_some(self.next)
    }

    pub(crate) fn flush(&mut self) {
        // A screen that nobody took is shown later.
        self.changed = !self.terminal.show(self.emulator.screen());
        self.next = Instant::now() + INTERVAL;
    }

    /// Shows the last screen; the text of all of it.
    pub(crate) fn finish(self) -> Captured {
        if self.changed {
            self.terminal.show(self.emulator.screen());
        }
        self.emulator.into_text()
    }
}
