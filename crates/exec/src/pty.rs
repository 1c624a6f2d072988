//! A pseudo terminal: the command has its far end as input, output and errors.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use pollux_domain::terminal_screen::TerminalSize;
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};
use tokio::io::unix::AsyncFd;

/// Input that may wait for a command that does not read; more is dropped.
const MAX_PENDING_BYTES: usize = 64 << 10;

/// Our end of a pseudo terminal. The command sees a hang-up when it is dropped.
#[derive(Debug)]
pub(crate) struct Pty {
    near: AsyncFd<OwnedFd>,
    /// Typed, and not read by the command yet.
    pending: Vec<u8>,
}

/// What happened at our end.
pub(crate) enum PtyStep {
    Output(usize),
    /// All writers are gone.
    Ended,
    /// Some of the input was taken.
    Written,
}

impl Pty {
    /// Opens one, with the three streams of the command.
    pub(crate) fn open(size: TerminalSize) -> io::Result<(Self, [OwnedFd; 3])> {
        let near = open_near()?;
        rustix::pty::grantpt(&near)?;
        rustix::pty::unlockpt(&near)?;
        let far = open_far(&near)?;
        set_size(&near, size)?;
        if let Ok(mut modes) = rustix::termios::tcgetattr(&far) {
            // So that a backspace removes a whole character.
            modes.input_modes |= InputModes::IUTF8;
            let _ = rustix::termios::tcsetattr(&far, OptionalActions::Now, &modes);
        }
        let flags = rustix::fs::fcntl_getfl(&near)?;
        rustix::fs::fcntl_setfl(&near, flags | rustix::fs::OFlags::NONBLOCK)?;
        let streams = [far.try_clone()?, far.try_clone()?, far];
        Ok((Self { near: watched(near)?, pending: Vec::new() }, streams))
    }

    /// Changes the size; the command gets SIGWINCH.
    pub(crate) fn resize(&self, size: TerminalSize) {
        // A terminal whose command is gone has no use for a size.
        let _ = set_size(self.near.get_ref(), size);
    }

    /// Types into the command.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let room = MAX_PENDING_BYTES.saturating_sub(self.pending.len());
        self.pending.extend(bytes.iter().take(room));
    }

    /// Output that has arrived; `None` if there is none at the moment.
    pub(crate) fn read_waiting(&self, buffer: &mut [u8]) -> Option<PtyStep> {
        match rustix::io::read(self.near.get_ref(), buffer) {
            Ok(count) if count > 0 => Some(PtyStep::Output(count)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => None,
            Ok(_) | Err(_) => Some(PtyStep::Ended),
        }
    }

    /// Waits for output, or until input was taken. Can be dropped and called again.
    pub(crate) async fn step(&mut self, buffer: &mut [u8]) -> PtyStep {
        let Self { near, pending } = self;
        tokio::select! {
            read = near.async_io(tokio::io::Interest::READABLE, |near| Ok(rustix::io::read(near, &mut *buffer)?)) => {
                match read {
                    Ok(count) if count > 0 => PtyStep::Output(count),
                    // EIO: the last descriptor of the other end is closed.
                    Ok(_) | Err(_) => PtyStep::Ended,
                }
            }
            written = near.async_io(tokio::io::Interest::WRITABLE, |near| Ok(rustix::io::write(near, pending)?)),
                if !pending.is_empty() =>
            {
                match written {
                    Ok(count) => drop(pending.drain(..count.min(pending.len()))),
                    Err(_) => pending.clear(),
                }
                PtyStep::Written
            }
        }
    }
}

#[expect(unsafe_code, reason = "the runtime watches the descriptor by its number")]
fn watched(near: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open, under the same number, until it is dropped.
    Ok(unsafe { AsyncFd::register(near) }?)
}

fn set_size(near: &OwnedFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize { ws_col: size.columns, ws_row: size.rows, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(near.as_fd(), size)?)
}

#[cfg(target_os = "linux")]
fn open_near() -> io::Result<OwnedFd> {
    Ok(rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?)
}

#[cfg(not(target_os = "linux"))]
fn open_near() -> io::Result<OwnedFd> {
    let near = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&near, rustix::io::FdFlags::CLOEXEC)?;
    Ok(near)
}

/// By its other end and not by its name, which may mean another terminal in a container.
#[cfg(target_os = "linux")]
fn open_far(near: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    Ok(rustix::pty::ioctl_tiocgptpeer(near, flags)?)
}

#[cfg(not(target_os = "linux"))]
fn open_far(near: &OwnedFd) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let name = rustix::pty::ptsname(near, Vec::new())?;
    Ok(rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}
