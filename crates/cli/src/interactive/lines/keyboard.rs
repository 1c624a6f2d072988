//! Lines from the terminal, read on a thread of their own so that nothing waits for them.

use std::io::{self, BufRead, stdin};
use std::thread;

use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tokio::sync::mpsc;

/// Lines that may wait; whoever types faster is slowed down.
const WAITING: usize = 64;

/// What a person types.
pub(crate) struct Keyboard {
    lines: mpsc::Receiver<String>,
    /// A message that is not complete yet.
    begun: String,
    closed: bool,
}

impl Keyboard {
    /// Starts to read stdin.
    pub(crate) fn open() -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(WAITING);
        thread::Builder::new().name("keyboard".to_owned()).spawn(move || {
            let mut input = io::stdin().lock();
            let mut bytes = Vec::new();
            loop {
                bytes.clear();
                match input.read_until(b'\n', &mut bytes) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {
                        let text = String::from_utf8_lossy(&bytes);
                        let line = text.trim_end_matches(['\n', '\r']).to_owned();
                        if sender.blocking_send(line).is_err() {
                            return;
                        }
                    }
                }
            }
        })?;
        Ok(Self { lines, begun: String::new(), closed: false })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The next line; `None` when there are no more.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let line = self.lines.recv().await;
        self.closed |= line.is_none();
        line
    }

    /// The next message: lines that end with a backslash go on in the next one. Nothing typed is lost when
    /// this is dropped half-way.
    pub(super) async fn message(&mut self) -> Option<String> {
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

    /// What was typed before now.
    pub(super) fn typed_before(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.try_recv() {
            lines.push(line);
        }
        lines
    }
}

/// The terminal shows nothing of what is typed, as long as this lives.
pub(super) struct Unseen(Option<Termios>);

impl Unseen {
    pub(super) fn begin() -> Self {
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
