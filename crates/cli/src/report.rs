//! What people read when something goes wrong.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};

use pollux_domain::exit::ExitKind;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use serde_json::{Value, json};

use crate::launch::{Topic, UsageError, help_text, usage_line};

/// A failure on its way to a person: what, why, what to do, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) summary: String,
    pub(crate) causes: Vec<String>,
    pub(crate) hint: Option<String>,
    pub(crate) exit: ExitKind,
}

/// Prints a result. Whoever closed the pipe has read enough: that is no failure to tell.
pub(crate) fn print_result(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        let gone = error.kind() == io::ErrorKind::BrokenPipe;
        let exit = if gone { ExitKind::Success } else { ExitKind::Failure };
        Failure::new(exit, format!("could not write to stdout: {error}"))
    })
}

/// Whether colour may be used on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Red,
    None,
}

impl Colour {
    /// Red for a person at a terminal who did not refuse colours.
    pub(crate) fn for_stderr(is_terminal: bool, no_color: Option<&str>) -> Self {
        if is_terminal && no_color.is_none_or(str::is_empty) { Self::Red } else { Self::None }
    }
}

impl Failure {
    pub(crate) fn new(exit: ExitKind, summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), causes: Vec::new(), hint: None, exit }
    }

    /// From an error with its chain of sources.
    pub(crate) fn from_error(exit: ExitKind, error: &(dyn Error + 'static)) -> Self {
        Self { causes: chain(error.source()), ..Self::new(exit, error.to_string()) }
    }

    /// Adds an error and its chain of sources as the cause.
    pub(crate) fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        self.causes.extend(chain(Some(error)));
        self
    }

    /// Puts words before the summary.
    pub(crate) fn prefixed(mut self, words: &str) -> Self {
        self.summary.insert_str(0, words);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Summary and causes in one text, for machine-readable output.
    pub(crate) fn message(&self) -> String {
        let mut parts = vec![self.summary.as_str()];
        parts.extend(self.causes.iter().map(String::as_str));
        parts.join(": ")
    }

    /// Prints it for a person.
    pub(crate) fn print(&self, err: &mut dyn Write, colour: Colour) -> io::Result<()> {
        let (on, off) = match colour {
            Colour::Red => ("\u{1b}[31m", "\u{1b}[0m"),
            Colour::None => ("", ""),
        };
        // Names and messages of others are among them.
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

    /// Upstream's name for the class of error.
    pub(crate) fn upstream_class(&self) -> &'static str {
        match self.exit {
            ExitKind::Input => "FatalInputError",
            ExitKind::Sandbox => "FatalSandboxError",
            ExitKind::Config => "FatalConfigError",
            ExitKind::TurnLimit => "FatalTurnLimitedError",
            ExitKind::Tool => "FatalToolExecutionError",
            ExitKind::Untrusted => "FatalUntrustedWorkspaceError",
            ExitKind::Cancelled | ExitKind::Signal(_) => "FatalCancellationError",
            ExitKind::Success | ExitKind::Failure | ExitKind::Auth => "Error",
        }
    }

    /// The object that gemini-cli prints on stderr when `json` output was asked for.
    pub(crate) fn upstream_object(&self, session: Option<&str>) -> Value {
        fatal_object(session, self.upstream_class(), &self.message(), self.exit.code().into())
    }

    pub(crate) fn from_usage(error: &UsageError) -> Self {
        Self { hint: error.hint(), ..Self::new(error.exit(), error.to_string()) }
    }
}

fn chain(first: Option<&(dyn Error + 'static)>) -> Vec<String> {
    std::iter::successors(first, |&error| error.source()).map(ToString::to_string).collect()
}

/// `{"session_id", "error": {type, message, code}}`; the session is left out while there is none.
pub(crate) fn fatal_object(session: Option<&str>, class: &str, message: &str, code: u16) -> Value {
    let mut object = serde_json::Map::new();
    if let Some(session) = session {
        object.insert("session_id".into(), session.into());
    }
    object.insert("error".into(), json!({"type": class, "message": message, "code": code}));
    Value::Object(object)
}

/// A refused command line: the reason, then the help on the command, all on stderr.
pub(crate) fn print_usage(
    error: &UsageError,
    args: &[OsString],
    err: &mut dyn Write,
    colour: Colour,
) -> io::Result<()> {
    Failure::from_usage(error).print(err, colour)?;
    match usage_line(args).filter(|_| error.shows_usage_line()) {
        Some(line) => write!(err, "\nUsage: {line}\n")?,
        None if error.shows_help() => write!(err, "\n{}", help_text(Topic::of(args)))?,
        None => {}
    }
    err.flush()
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

    #[test]
    fn the_upstream_object_names_class_and_code() {
        let object = Failure::new(ExitKind::Input, "bad").upstream_object(Some("s1"));
        assert_eq!(
            object.to_string(),
            r#"{"session_id":"s1","error":{"type":"FatalInputError","message":"bad","code":42}}"#
        );
        let early = Failure::new(ExitKind::Auth, "no key").upstream_object(None);
        assert_eq!(early.to_string(), r#"{"error":{"type":"Error","message":"no key","code":41}}"#);
    }

    #[test]
    fn a_refused_command_line_is_followed_by_the_help() {
        for (words, expected) in [
            (&["--nope"] as &[&str], "Unknown argument: nope\n\nPollux:"),
            (&["mcp", "add"], "Unknown argument: nope\n\nMCP:"),
        ] {
            let mut bytes = Vec::new();
            let args: Vec<OsString> = words.iter().map(OsString::from).collect();
            let error = UsageError::UnknownFlag("nope".into());
            print_usage(&error, &args, &mut bytes, Colour::None).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn a_missing_argument_is_followed_by_the_usage_line_alone() {
        let args = ["extensions", "disable"].map(OsString::from);
        let mut bytes = Vec::new();
        let error = UsageError::MissingArgument("<name>".into());
        print_usage(&error, &args, &mut bytes, Colour::None).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "missing argument `<name>`\n\nUsage: pollux extensions enable|disable <name> [--scope user|workspace]\n"
        );
    }
}
