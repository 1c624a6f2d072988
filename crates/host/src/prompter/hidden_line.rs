//! Reads a line without echo, for secrets.

use std::io::{self, Read, Write, stdin};

use pollux_config::groups::Secret;
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

const INTERRUPT: u8 = 3;
const END: u8 = 4;
const BACKSPACE: u8 = 8;
const DELETE: u8 = 127;
const KILL_LINE: u8 = 21;
const MAX_LINE: usize = 8 * 1024;

/// Restores the terminal mode when dropped.
struct Quiet(Termios);

impl Quiet {
    fn begin() -> io::Result<Self> {
        let before = termios::tcgetattr(stdin())?;
        let mut quiet = before.clone();
        // Signal keys are read as characters too, because a signal would leave the terminal without echo.
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(stdin(), OptionalActions::Now, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

/// Asks for a line at the terminal; `None` if cancelled.
pub fn ask(question: &str, screen: &mut dyn Write, input: &mut dyn Read) -> io::Result<Option<Secret>> {
    // Echo is off before the question, so that an early paste is not shown.
    let _quiet = Quiet::begin()?;
    screen.write_all(question.as_bytes()).and_then(|()| screen.flush())?;
    let line = collect(input);
    writeln!(screen)?;
    line
}

fn collect(input: &mut dyn Read) -> io::Result<Option<Secret>> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        if input.read(&mut byte)? == 0 {
            return Ok(None);
        }
        match byte[0] {
            b'\r' | b'\n' => return Ok(Some(Secret::new(String::from_utf8_lossy(&line).into_owned()))),
            INTERRUPT => return Ok(None),
            END if line.is_empty() => return Ok(None),
            BACKSPACE | DELETE => drop(line.pop()),
            KILL_LINE => line.clear(),
            _ if line.len() < MAX_LINE => line.push(byte[0]),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Option<String> {
        collect(&mut &*bytes).unwrap().map(|line| line.reveal().to_owned())
    }

    #[test]
    fn a_line_can_be_corrected_and_given_up() {
        assert_eq!(typed(b"kez\x7fy\r").as_deref(), Some("key"));
        assert_eq!(typed(b"wrong\x15right\n").as_deref(), Some("right"));
        assert_eq!(typed(b"key\x03"), None);
        assert_eq!(typed(b"\x04"), None);
        assert_eq!(typed(b"no end"), None);
    }
}
