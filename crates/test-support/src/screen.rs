//! Runs the program in a terminal emulator and reads what a user would see.

mod pty;

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::termios::{Winsize, tcsetwinsize};

/// How long something may take to appear; generous, because a test machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);
/// No user presses Enter in the same moment as the key before it.
const BREATH: Duration = Duration::from_millis(35);
/// The text of a prompt while it accepts no key.
const PAUSE: &str = "pause to answer";
/// Lines that the emulator keeps above its window.
const KEPT: usize = 5_000;

/// Between these a terminal that knows them shows nothing.
const FRAME_BEGINS: &[u8] = b"\x1b[?2026h";
const FRAME_ENDS: &[u8] = b"\x1b[?2026l";

/// A program on its own terminal. Killed when dropped.
pub struct Screen {
    child: Child,
    terminal: Option<Arc<File>>,
    reader: Option<JoinHandle<()>>,
    /// Closing it wakes the reader.
    wake: Option<PipeWriter>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    more: Condvar,
}

#[derive(Default)]
struct Seen {
    emulator: vt100::Parser,
    raw: Vec<u8>,
    /// How much of `raw` the window shows; the rest is a frame that is not complete.
    shown: usize,
    /// Where that frame begins.
    frame: Option<usize>,
}

impl Screen {
    /// Starts a prepared command as the session leader of a terminal. Only its explicitly set variables are
    /// passed.
    pub fn start(program: &Command, columns: u16, rows: u16) -> Self {
        // `setsid` gives the program the terminal without a line of unsafe code here, and becomes the program.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args()).env_clear();
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = program.get_current_dir() {
            command.current_dir(directory);
        }
        let (terminal, other) = pty::open().expect("a terminal");
        let terminal = Arc::new(terminal);
        tcsetwinsize(&terminal, size(columns, rows)).expect("set the size");
        let shared = Arc::new(Shared::default());
        shared.lock().emulator = vt100::Parser::new(rows, columns, KEPT);
        let copy = || other.try_clone().expect("the terminal's other end");
        let child = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("start `setsid`");
        let (asleep, wake) = std::io::pipe().expect("a pipe");
        let (from, to) = (Arc::clone(&terminal), Arc::clone(&shared));
        let reader = std::thread::spawn(move || follow(&from, &asleep, &to));
        Self { child, terminal: Some(terminal), reader: Some(reader), wake: Some(wake), shared }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The window's text.
    pub fn text(&self) -> String {
        self.shared.lock().emulator.screen().contents()
    }

    /// The text of the window and of everything that was scrolled out of it.
    pub fn whole_text(&self) -> String {
        self.shared.lock().whole_text()
    }

    /// Every byte that the program wrote.
    pub fn raw(&self) -> Vec<u8> {
        self.shared.lock().raw.clone()
    }

    /// The program's output without escape sequences, as a script without a terminal reads it.
    pub fn stripped(&self) -> String {
        stripped(&self.raw())
    }

    /// Forgets the bytes that were shown, for programs that run for long. The window stays as it is.
    pub fn forget(&self) {
        let mut seen = self.shared.lock();
        let shown = std::mem::take(&mut seen.shown);
        seen.raw.drain(..shown);
        seen.frame = seen.frame.map(|at| at - shown);
    }

    /// Gives access to the emulated window with its colours.
    pub fn look<T>(&self, with: impl FnOnce(&vt100::Screen) -> T) -> T {
        with(self.shared.lock().emulator.screen())
    }

    /// Waits until the window shows this; panics with the window if it does not.
    pub fn expect(&self, text: &str) -> &Self {
        self.wait(&format!("`{text}` in the window"), |seen| seen.emulator.screen().contents().contains(text))
    }

    /// Waits until the window no longer shows this.
    pub fn expect_gone(&self, text: &str) -> &Self {
        self.wait(&format!("no `{text}` in the window"), |seen| {
            !seen.emulator.screen().contents().contains(text)
        })
    }

    /// Waits until the window, or its scrollback, contains this text.
    pub fn expect_anywhere(&self, text: &str) -> &Self {
        self.wait(&format!("`{text}` anywhere"), |seen| seen.whole_text().contains(text))
    }

    /// Waits until the program has written this, escape sequences left out.
    pub fn expect_raw(&self, text: &str) -> &Self {
        self.wait(&format!("`{text}` in what was written"), |seen| stripped(&seen.raw).contains(text))
    }

    /// Waits until the program has written exactly these bytes somewhere.
    pub fn expect_bytes(&self, bytes: &[u8]) -> &Self {
        let what = format!("the bytes {:?}", String::from_utf8_lossy(bytes));
        self.wait(&what, |seen| seen.raw.windows(bytes.len()).any(|window| window == bytes))
    }

    fn wait(&self, what: &str, holds: impl Fn(&mut Seen) -> bool) -> &Self {
        let started = Instant::now();
        let mut seen = self.shared.lock();
        while !holds(&mut seen) {
            let window = seen.emulator.screen().contents();
            assert!(started.elapsed() < LIMIT, "waited in vain for {what}; the window:\n{window}");
            let waited = self.shared.more.wait_timeout(seen, Duration::from_millis(200));
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(seen);
        self
    }

    /// Types, all at once.
    pub fn type_text(&self, text: &str) -> &Self {
        self.send(text.as_bytes())
    }

    /// Types a text, waits until it is shown, and presses Enter.
    pub fn say(&self, text: &str) -> &Self {
        self.type_text(text).expect(text).key("Enter")
    }

    /// Waits until a prompt accepts keys, as a user would.
    fn heed_question(&self) {
        if self.text().contains(PAUSE) {
            self.expect_gone(PAUSE);
        }
    }

    /// Presses a key: a letter, `Enter`, `Esc`, `Tab`, `Up`, or one of them with `Ctrl+`, `Alt+` or `Shift+`.
    pub fn key(&self, name: &str) -> &Self {
        if name == "Enter" {
            std::thread::sleep(BREATH);
        }
        self.heed_question();
        self.send(&bytes_of(name))
    }

    /// Pastes as terminals do that mark it.
    pub fn paste(&self, text: &str) -> &Self {
        self.send(format!("\x1b[200~{text}\x1b[201~").as_bytes())
    }

    fn send(&self, bytes: &[u8]) -> &Self {
        let mut terminal = self.terminal.as_deref().expect("the terminal is open");
        terminal.write_all(bytes).expect("type");
        self
    }

    /// Makes the window another size.
    pub fn resize(&self, columns: u16, rows: u16) -> &Self {
        // The emulator first: it must be ready for output in the new size.
        self.shared.lock().emulator.screen_mut().set_size(rows, columns);
        let terminal = self.terminal.as_ref().expect("the terminal is open");
        tcsetwinsize(terminal, size(columns, rows)).expect("set the size");
        self
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        rustix::process::kill_process(pid, signal).expect("send a signal");
    }

    /// Closes the window: processes that still use the terminal are cut off.
    pub fn close_master(&mut self) {
        drop(self.wake.take());
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        drop(self.terminal.take());
    }

    /// Waits for the program's end; panics with the window if it does not come.
    pub fn wait_exit(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("wait for the program") {
                // Its last output is read as well.
                drop(self.wake.take());
                if let Some(reader) = self.reader.take() {
                    let _ = reader.join();
                }
                return status;
            }
            assert!(started.elapsed() < LIMIT, "the program does not end; the window:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.close_master();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Processes output; a frame is shown when it is complete, as in terminals that support synchronised
    /// output.
    fn take(&mut self, bytes: &[u8]) {
        let from = self.raw.len().saturating_sub(FRAME_BEGINS.len() - 1);
        self.raw.extend_from_slice(bytes);
        for (at, window) in self.raw[from..].windows(FRAME_BEGINS.len()).enumerate() {
            match window {
                FRAME_BEGINS => self.frame = Some(from + at),
                FRAME_ENDS => self.frame = None,
                _ => {}
            }
        }
        let half = |count: &usize| self.raw.ends_with(&FRAME_BEGINS[..*count]);
        let begun = (1..FRAME_BEGINS.len()).rev().find(half).unwrap_or(0);
        self.show(self.frame.unwrap_or(self.raw.len() - begun));
    }

    /// Shows everything up to here.
    fn show(&mut self, to: usize) {
        if let Some(new) = self.raw.get(self.shown..to) {
            self.emulator.process(new);
            self.shown = to;
        }
    }

    fn show_all(&mut self) {
        self.show(self.raw.len());
    }

    fn whole_text(&mut self) -> String {
        let screen = self.emulator.screen_mut();
        let rows = usize::from(screen.size().0);
        let mut lines: Vec<String> = Vec::new();
        screen.set_scrollback(usize::MAX);
        let mut above = screen.scrollback();
        while above > 0 {
            screen.set_scrollback(above);
            let columns = screen.size().1;
            lines.extend(screen.rows(0, columns).take(above.min(rows)));
            above = above.saturating_sub(rows);
        }
        screen.set_scrollback(0);
        lines.push(screen.contents());
        lines.join("\n")
    }
}

/// Reads the program's output until the terminal is closed or the reader is stopped.
fn follow(from: &File, asleep: &PipeReader, to: &Shared) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let ready = pty::wait(from, asleep);
        if ready.has_bytes {
            let mut reading: &File = from;
            let count = reading.read(&mut buffer).unwrap_or(0);
            let bytes = &buffer[..count];
            if bytes.is_empty() {
                to.lock().show_all();
                return;
            }
            to.lock().take(bytes);
            to.more.notify_all();
        } else if ready.is_over {
            to.lock().show_all();
            return;
        }
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn bytes_of(name: &str) -> Vec<u8> {
    let plain: &[u8] = match name {
        "Enter" => b"\r",
        "Esc" => b"\x1b",
        "Tab" => b"\t",
        "Shift+Tab" => b"\x1b[Z",
        "Backspace" => b"\x7f",
        "Delete" => b"\x1b[3~",
        "Up" => b"\x1b[A",
        "Down" => b"\x1b[B",
        "Right" => b"\x1b[C",
        "Left" => b"\x1b[D",
        "Home" => b"\x1b[H",
        "End" => b"\x1b[F",
        "PageUp" => b"\x1b[5~",
        "PageDown" => b"\x1b[6~",
        "Space" => b" ",
        _ => b"",
    };
    if !plain.is_empty() {
        return plain.to_vec();
    }
    if let Some(rest) = name.strip_prefix("Alt+") {
        return [b"\x1b".to_vec(), bytes_of(rest)].concat();
    }
    if let Some(letter) = name.strip_prefix("Ctrl+").and_then(|rest| rest.bytes().next()) {
        return vec![letter.to_ascii_uppercase() & 0x1f];
    }
    name.as_bytes().to_vec()
}

/// A text without its escape sequences: CSI and OSC with their parameters, and shorter ones.
fn stripped(raw: &[u8]) -> String {
    let mut plain = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != 0x1b {
            plain.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'[') => while bytes.next().is_some_and(|byte| !(0x40..=0x7e).contains(&byte)) {},
            Some(b']' | b'P' | b'_') => {
                while let Some(byte) = bytes.next() {
                    if byte == 0x07 || byte == 0x1b {
                        bytes.next_if_eq(&b'\\');
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Seen;
    use crate::TestHome;

    #[test]
    fn a_program_sees_a_terminal_and_the_window_is_what_it_drew() {
        let home = TestHome::new();
        let script = "test -t 0 && test -t 1 && stty size && read line && \
            printf 'wrong\\r\\033[1;31mright %s\\033[0m\\n' \"$line\"; read more; stty size; exit 4";
        let mut screen = home.command(Path::new("/bin/sh"), ["-c", script]).on_screen(60, 12);
        screen.expect("12 60").say("abc").expect("right abc").expect_raw("wrong\rright abc");
        assert!(!screen.text().contains("wrong"), "{}", screen.text());
        screen.resize(50, 10).key("Enter").expect("10 50");
        assert_eq!(screen.wait_exit().code(), Some(4));
    }

    #[test]
    fn half_a_frame_is_not_shown() {
        let mut seen = Seen { emulator: vt100::Parser::new(2, 20, 0), ..Seen::default() };
        for (bytes, shown) in [
            ("a\x1b[?20", "a"),
            ("26hb", "a"),
            ("c\x1b[?2026", "a"),
            ("l", "abc"),
            ("d", "abcd"),
            ("\x1b[?2026he", "abcd"),
        ] {
            seen.take(bytes.as_bytes());
            assert_eq!(seen.emulator.screen().contents(), shown, "after {bytes:?}");
        }
        seen.show_all();
        assert_eq!(seen.emulator.screen().contents(), "abcde");
    }

    #[test]
    fn scrolled_lines_are_remembered() {
        let home = TestHome::new();
        let mut screen = home.command(Path::new("/bin/sh"), ["-c", "seq 1 40"]).on_screen(20, 5);
        screen.wait_exit();
        let numbers: Vec<String> = (1..=40).map(|number| number.to_string()).collect();
        assert_eq!(screen.whole_text().split_whitespace().collect::<Vec<_>>(), numbers);
    }

    #[test]
    fn closing_the_window_ends_the_program() {
        let home = TestHome::new();
        // If hangups are ignored, as under `nohup`, the program sees the end of its input instead.
        let script = "end() { echo gone > gone.txt; exit 3; }; trap end HUP; echo ready; while read line; do :; done; end";
        let mut screen = home.command(Path::new("/bin/sh"), ["-c", script]).on_screen(20, 5);
        screen.expect("ready");
        screen.close_master();
        screen.wait_exit();
        assert_eq!(home.read("gone.txt"), "gone\n");
    }
}
