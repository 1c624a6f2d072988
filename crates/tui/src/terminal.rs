//! The terminal: every change of its state, and its restoration.
//!
//! The terminal is restored however the program ends, also after a panic.

pub mod background;

use std::io::{self, IsTerminal, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange,
    KeyboardEnhancementFlags, PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use pollux_domain::terminal_text::one_line;

/// Whether the terminal is taken over, and whether the alternate screen is in use.
static OURS: AtomicBool = AtomicBool::new(false);
static ALTERNATE: AtomicBool = AtomicBool::new(false);
/// Whether the window has a name of ours.
static TITLED: AtomicBool = AtomicBool::new(false);
static ON_PANIC: Once = Once::new();
/// How long a terminal may take to accept the sequences that restore it after the screen was left behind.
const RESTORE_TIME: Duration = Duration::from_secs(1);

/// Mouse reporting with SGR coordinates, which have no column limit.
pub const MOUSE_ON: &str = "\x1b[?1002h\x1b[?1006h";
pub const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1002l";

/// The terminal while it is taken over. Dropping restores it.
#[derive(Debug)]
pub struct Terminal {
    alternate: bool,
}

impl Terminal {
    /// Takes over the terminal.
    pub fn open(alternate: bool) -> io::Result<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "stdin and stdout are not a terminal"));
        }
        give_back_on_panic();
        let terminal = Self { alternate };
        terminal.resume()?;
        Ok(terminal)
    }

    /// Takes over the terminal again, such as after an editor.
    pub fn resume(&self) -> io::Result<()> {
        enable_raw_mode()?;
        OURS.store(true, Ordering::SeqCst);
        let mut out = io::stdout();
        if self.alternate {
            ALTERNATE.store(true, Ordering::SeqCst);
            execute!(out, EnterAlternateScreen, cursor::MoveTo(0, 0))?;
            out.write_all(MOUSE_ON.as_bytes())?;
        }
        let flags = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;
        execute!(out, EnableBracketedPaste, EnableFocusChange, PushKeyboardEnhancementFlags(flags))
    }

    /// Gives the terminal to another program for a while.
    pub fn suspend(&self) {
        let _ = give_back();
    }

    /// Columns and rows; never none.
    pub fn size(&self) -> (u16, u16) {
        size()
    }
}

/// Columns and rows of the window; never none.
pub fn size() -> (u16, u16) {
    // Not `size`, which starts a program where the terminal does not know.
    match crossterm::terminal::window_size() {
        Ok(size) if size.columns > 0 && size.rows > 0 => (size.columns, size.rows),
        _ => (80, 24),
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = give_back();
    }
}

/// Restores the terminal; returns whether it was taken over.
fn give_back() -> bool {
    if !OURS.swap(false, Ordering::SeqCst) {
        return false;
    }
    // First, because it needs no output: the terminal may take none.
    let _ = disable_raw_mode();
    let mut out = io::stdout();
    let _ = execute!(out, PopKeyboardEnhancementFlags, DisableFocusChange, DisableBracketedPaste);
    if TITLED.swap(false, Ordering::SeqCst) {
        let _ = out.write_all(b"\x1b]0;\x07");
    }
    if ALTERNATE.swap(false, Ordering::SeqCst) {
        let _ = out.write_all(MOUSE_OFF.as_bytes());
        let _ = execute!(out, LeaveAlternateScreen);
    }
    let _ = execute!(out, cursor::Show);
    let _ = out.write_all(b"\x1b[0m").and_then(|()| out.flush());
    true
}

/// Removes the rest of a frame below the cursor, which stands in its middle.
fn clear_frame() {
    let mut out = io::stdout();
    let _ = out.write_all(b"\r\n\x1b[J").and_then(|()| out.flush());
}

/// Restores the terminal in place of a screen that did not end in time. Does nothing if the terminal is not taken over.
/// The program can end even if the terminal accepts no output.
pub fn restore_without_screen() {
    let restoring = std::thread::Builder::new().name("restore".to_owned()).spawn(|| {
        if give_back() {
            clear_frame();
        }
    });
    let Ok(thread) = restoring else { return };
    let since = Instant::now();
    while !thread.is_finished() && since.elapsed() < RESTORE_TIME {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The name of the thread that paints and reads keys.
pub const SCREEN_THREAD: &str = "screen";

/// The message of a panic that ends the program must be readable. A panic of another thread, such as that of a tool, ends
/// only its work: the screen goes on.
fn give_back_on_panic() {
    ON_PANIC.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_last = matches!(std::thread::current().name(), Some("main" | SCREEN_THREAD));
            if is_last && give_back() {
                // The rest of the frame would stand around the message.
                clear_frame();
            }
            before(info);
        }));
    });
}

/// The sequence that sets the window title. The text cannot end the sequence; the title is reset when the terminal is
/// given back.
pub fn title(text: &str) -> String {
    TITLED.store(true, Ordering::SeqCst);
    let shown: String = one_line(text).chars().filter(|character| !character.is_control()).take(80).collect();
    format!("\x1b]0;{shown:80}\x07")
}

/// The sequence for a desktop notification.
pub fn notification(how: Notify, title: &str, body: &str) -> String {
    let short = |text: &str, most: usize| -> String {
        one_line(text)
            .chars()
            .filter(|character| !character.is_control() && *character != ';')
            .take(most)
            .collect()
    };
    let (title, body) = (short(title, 48), short(body, 180));
    match how {
        Notify::Osc9 => format!("\x1b]9;{title}: {body}\x07"),
        Notify::Osc777 => format!("\x1b]777;notify;{title};{body}\x07"),
        Notify::Bell => "\x07".to_owned(),
    }
}

/// The kind of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    Osc9,
    Osc777,
    Bell,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_cannot_end_its_sequence() {
        let sequence = title("a\u{7}b\u{1b}\\c\nd");
        assert_eq!(sequence.matches(['\u{7}', '\u{1b}']).count(), 2, "{sequence:?}");
        assert!(sequence.starts_with("\u{1b}]0;") && sequence.ends_with('\u{7}'));
    }
}
