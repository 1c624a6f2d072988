//! Lines from the terminal, read on a thread of their own so that nothing waits for them.

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

/// Lines that may wait; whoever types faster is slowed down.
const WAITING: usize = 64;
/// How long a reader that is ahead waits before it looks again.
const PAUSE: Duration = Duration::from_millis(20);

/// What a person types.
pub struct Keyboard {
    shared: Arc<Shared>,
    /// A message that is not complete yet.
    begun: String,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    read: Mutex<Read>,
    bell: Notify,
}

/// What was read so far.
#[derive(Default)]
struct Read {
    lines: VecDeque<String>,
    /// The line that is not ended yet.
    rest: Vec<u8>,
    closed: bool,
}

impl Shared {
    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.locked()
    }
}

impl Read {
    /// Takes what can be had without waiting.
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

/// Whether something can be read within this time, the end of the input included.
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
            // Until nobody listens any more.
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

    /// The next line; `None` when there are no more. Nothing is lost when this is dropped half-way.
    pub async fn line(&mut self) -> Option<String> {
        loop {
            // Registered before looking, so that no line slips through.
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

    /// The next message: lines that end with a backslash go on in the next one. Nothing typed is lost when
    /// this is dropped half-way.
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

    /// What was typed before now: whole lines. A line that is not ended yet becomes the beginning of the next message, so
    /// that its end cannot be the answer to a question.
    pub fn typed_before(&mut self) -> Vec<String> {
        hand_over();
        let mut read = self.shared.read();
        read.pump();
        let rest = std::mem::take(&mut read.rest);
        self.begun.push_str(&String::from_utf8_lossy(&rest));
        read.lines.drain(..).collect()
    }

    /// The last line of a message that is not complete yet.
    pub fn begun(&self) -> &str {
        self.begun.rsplit('\n').next().unwrap_or_default()
    }
}

/// Lets the terminal give out a line that is not ended yet: it does so when it stops and begins to edit lines.
fn hand_over() {
    let stdin = stdin();
    // A program in the background would be stopped for touching the terminal.
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

/// The terminal shows nothing of what is typed, as long as this lives.
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
