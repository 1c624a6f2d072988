//! Failures that end a command, formatted for users.
//!
//! Everything that ends a command early is reported as a [`Failure`]: what failed, why, what to do, and the exit code.
//! Use it where a user reads the result; libraries have their own error types. It writes only to the given stream.

use std::error::Error;
use std::io::{self, Write};

use crate::exit::ExitKind;
use crate::redact::redacted;
use crate::terminal_text::plain;

/// A failure: what, why, what to do, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub summary: String,
    pub causes: Vec<String>,
    pub hint: Option<String>,
    pub exit: ExitKind,
}

/// Prints a result. A closed pipe is not an error.
pub fn print_result(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        let gone = error.kind() == io::ErrorKind::BrokenPipe;
        let exit = if gone { ExitKind::Success } else { ExitKind::Failure };
        Failure::new(exit, format!("could not write to stdout: {error}"))
    })
}

/// Whether colour may be used on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Red,
    None,
}

impl Colour {
    /// Colour on a terminal, unless disabled.
    pub fn for_stderr(is_terminal: bool, no_color: Option<&str>) -> Self {
        if is_terminal && no_color.is_none_or(str::is_empty) { Self::Red } else { Self::None }
    }
}

impl Failure {
    pub fn new(exit: ExitKind, summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), causes: Vec::new(), hint: None, exit }
    }

    /// From an error with its chain of sources.
    pub fn from_error(exit: ExitKind, error: &(dyn Error + 'static)) -> Self {
        Self { causes: chain(error.source()), ..Self::new(exit, error.to_string()) }
    }

    /// Adds an error and its chain of sources as the cause.
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        self.causes.extend(chain(Some(error)));
        self
    }

    /// Adds a prefix to the summary.
    pub fn prefixed(mut self, words: &str) -> Self {
        self.summary.insert_str(0, words);
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Summary and causes in one text, for machine-readable output.
    pub fn message(&self) -> String {
        let mut parts = vec![self.summary.as_str()];
        parts.extend(self.causes.iter().map(String::as_str));
        parts.join(": ")
    }

    /// Prints it for the user.
    pub fn print(&self, err: &mut dyn Write, colour: Colour) -> io::Result<()> {
        let (on, off) = match colour {
            Colour::Red => ("\u{1b}[31m", "\u{1b}[0m"),
            Colour::None => ("", ""),
        };
        // The text may contain untrusted names and messages.
        let harmless = |text: &str| redacted(&plain(text)).into_owned();
        let mut text = format!("{on}{}{off}\n", harmless(&self.summary));
        for cause in &self.causes {
            text.push_str(&format!("  caused by: {}\n", harmless(cause)));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\nhint: {}\n", harmless(hint)));
        }
        err.write_all(text.as_bytes())?;
        err.flush()
    }
}

fn chain(first: Option<&(dyn Error + 'static)>) -> Vec<String> {
    std::iter::successors(first, |&error| error.source()).map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(failure: &Failure, colour: Colour) -> String {
        let mut bytes = Vec::new();
        failure.print(&mut bytes, colour).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_failure_shows_its_causes_and_what_to_do() {
        let source = io::Error::other("disk on fire");
        #[derive(Debug, thiserror::Error)]
        #[error("could not read `a.json`")]
        struct Unreadable(#[source] io::Error);
        let failure = Failure::from_error(ExitKind::Config, &Unreadable(source)).hint("buy a disk");
        assert_eq!(
            printed(&failure, Colour::None),
            "could not read `a.json`\n  caused by: disk on fire\n\nhint: buy a disk\n"
        );
        assert_eq!(failure.message(), "could not read `a.json`: disk on fire");
    }

    #[test]
    fn colour_is_for_terminals_without_no_color() {
        assert_eq!(Colour::for_stderr(true, None), Colour::Red);
        assert_eq!(Colour::for_stderr(true, Some("1")), Colour::None);
        assert_eq!(Colour::for_stderr(false, None), Colour::None);
        let failure = Failure::new(ExitKind::Failure, "no");
        assert_eq!(printed(&failure, Colour::Red), "\u{1b}[31mno\u{1b}[0m\n");
    }
}
