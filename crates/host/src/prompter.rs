//! Questions that a command asks on a terminal.

pub mod hidden_line;
pub mod keyboard;

use std::io::{BufRead, Write};

use pollux_config::groups::Secret;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;

/// Longer input is treated as no answer.
const MAX_ANSWER: u64 = 64 * 1024;

/// Asks questions on the terminal.
pub struct Prompter<'a> {
    pub at_terminal: bool,
    pub input: &'a mut dyn BufRead,
    /// Where questions go.
    pub screen: &'a mut dyn Write,
}

impl Prompter<'_> {
    /// Asks for confirmation; an empty answer means `unless_said`, end of input means no.
    pub fn agrees(&mut self, question: &str, unless_said: bool) -> bool {
        let choice = if unless_said { "[Y/n]" } else { "[y/N]" };
        self.show(&format!("{question} {choice}: "));
        match self.line() {
            Some(answer) if answer.is_empty() => unless_said,
            Some(answer) => matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes"),
            None => {
                self.show("\n");
                false
            }
        }
    }

    /// Asks for a value; `None` without one.
    pub fn value(&mut self, question: &str, secret: bool) -> Option<Secret> {
        let question = format!("{question}: ");
        if secret && self.at_terminal {
            let shown = redacted(&plain(&question)).into_owned();
            return hidden_line::ask(&shown, self.screen, self.input).ok().flatten();
        }
        self.show(&question);
        let line = self.line().map(Secret::new);
        if !self.at_terminal {
            self.show("\n");
        }
        line
    }

    /// Asks a question verbatim; anything but `y` or `yes` means no.
    pub fn confirms(&mut self, question: &str) -> bool {
        let asked = self.screen.write_all(question.as_bytes()).and_then(|()| self.screen.flush());
        let mut answer = String::new();
        let read = asked.and_then(|()| self.input.read_line(&mut answer));
        read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }

    pub fn show(&mut self, text: &str) {
        // If the question cannot be shown, it counts as unanswered.
        let _ = self.screen.write_all(redacted(&plain(text)).as_bytes()).and_then(|()| self.screen.flush());
    }

    /// The next line, trimmed; `None` at end of input.
    pub fn line(&mut self) -> Option<String> {
        use std::io::Read as _;
        let mut line = String::new();
        match (&mut self.input).take(MAX_ANSWER).read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim().to_owned()),
        }
    }
}
