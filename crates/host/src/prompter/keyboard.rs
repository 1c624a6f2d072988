//! Reads lines from the terminal on a separate thread, so that nothing blocks on input.

use std::collections::VecDeque;
use std::io::{self, stdin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use pollux_domain::sync::Locked as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tokio::sync::Notify;

/// Capacity of the line buffer.
const WAITING: usize = 64;
/// How long the reader waits when the buffer is full.
const PAUSE: Duration = Duration::from_millis(20);

/// Lines typed at the terminal.
pub struct Keyboard {
    shared: Arc<Shared>,
    /// An incomplete message.
    begun: String,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    read: Mutex<Read>,
    bell: Notify,
}

/// The lines read so far.
#[derive(Default)]
struct Read {
    lines: VecDeque<String>,
    /// The unterminated line.
    rest: Vec<u8>,
    closed: bool,
}

impl Shared {
    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.locked()
    }
}

impl Read {
    /// Takes the available input without waiting.
    fn pump(&mut self) {
        let mut bytes = [0; 4096];
        while !self.closed && self.lines.len() < WAITING && is_readable(Duration::ZERO) {
            match rustix::io::read(stdin(), &mut bytes) {
                Ok(0) => self.end(),
                Ok(count) => bytes.iter().take(count).for_each(|byte| self.take(*byte)),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return,
                Err(_) => self.end(),
            }
        }
    }

    fn take(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                let bytes = std::mem::take(&mut self.rest);
                let text = String::from_utf8_lossy(&bytes);
                self.lines.push_back(text.trim_end_matches('\r').to_owned());
            }
            byte => self.rest.push(byte),
        }
    }

    fn end(&mut self) {
        if !self.rest.is_empty() {
            self.take(b'\n');
        }
        self.closed = true;
    }
}

/// Whether input, or its end, is available within this time.
fn is_readable(within: Duration) -> bool {
    let stdin = stdin();
    let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec::try_from(within).ok();
    poll(&mut asked, time.as_ref()).is_ok_and(|ready| ready > 0)
}

impl Keyboard {
    /// Starts to read stdin.
    pub fn open() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let reader = Arc::downgrade(&shared);
        thread::Builder::new().name("keyboard".to_owned()).spawn(move || {
            // Until the receiver is gone.
            while reader.strong_count() > 0 {
                let ready = is_readable(Duration::from_secs(1));
                let Some(shared) = reader.upgrade() else { return };
                let mut read = shared.read();
                if ready {
                    read.pump();
                }
                let (closed, ahead) = (read.closed, read.lines.len() >= WAITING);
                drop(read);
                shared.bell.notify_one();
                if closed {
                    return;
                }
                if ahead {
                    thread::sleep(PAUSE);
                }
            }
        })?;
        Ok(Self { shared, begun: String::new(), closed: false })
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The next line; `None` at end of input. Cancel-safe.
    pub async fn line(&mut self) -> Option<String> {
        loop {
            // Registered before checking, so that no line is missed.
            let rings = self.shared.bell.notified();
            {
                let mut read = self.shared.read();
                if let Some(line) = read.lines.pop_front() {
                    return Some(line);
                }
                if read.closed {
                    self.closed = true;
                    return None;
                }
            }
            rings.await;
        }
    }

    /// The next message: a trailing backslash continues it on the next line. Cancel-safe.
    pub async fn message(&mut self) -> Option<String> {
        loop {
            let line = self.line().await?;
            match line.strip_suffix('\\') {
                Some(part) => {
                    self.begun.push_str(part);
                    self.begun.push('\n');
                }
                None => {
                    let mut message = std::mem::take(&mut self.begun);
                    message.push_str(&line);
                    return Some(message);
                }
            }
        }
    }

    /// The complete lines typed so far. An unterminated line becomes the beginning of the next message, so
    /// that its end cannot answer a question.
    pub fn typed_before(&mut self) -> Vec<String> {
        hand_over();
        let mut read = self.shared.read();
        read.pump();
        let rest = std::mem::take(&mut read.rest);
        self.begun.push_str(&String::from_utf8_lossy(&rest));
        read.lines.drain(..).collect()
    }

    /// Discards an incomplete message.
    pub fn discard(&mut self) {
        self.begun.clear();
        self.shared.read().rest.clear();
    }

    /// The last line of an incomplete message.
    pub fn begun(&self) -> &str {
        self.begun.rsplit('\n').next().unwrap_or_default()
    }
}

/// Makes the terminal hand over an unterminated line by leaving and re-entering line mode.
fn hand_over() {
    let stdin = stdin();
    // A background process would be stopped for changing the terminal.
    if termios::tcgetpgrp(&stdin).ok() != Some(getpgrp()) {
        return;
    }
    let Ok(before) = termios::tcgetattr(&stdin) else { return };
    if !before.local_modes.contains(LocalModes::ICANON) {
        return;
    }
    let mut raw = before.clone();
    raw.local_modes -= LocalModes::ICANON;
    let _ = termios::tcsetattr(&stdin, OptionalActions::Now, &raw);
    let _ = termios::tcsetattr(&stdin, OptionalActions::Now, &before);
}

/// Disables echo while it exists.
pub struct Unseen(Option<Termios>);

impl Unseen {
    pub fn begin() -> Self {
        let before = termios::tcgetattr(stdin()).ok();
        if let Some(before) = &before {
            let mut quiet = before.clone();
            quiet.local_modes -= LocalModes::ECHO;
            let _ = termios::tcsetattr(stdin(), OptionalActions::Now, &quiet);
        }
        Self(before)
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = termios::tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}
