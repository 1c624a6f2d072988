//! What people read when a command line is refused.

use std::ffi::OsString;
use std::io::{self, Write};

use pollux_domain::failure::Colour;

use crate::launch::{Topic, UsageError, help_text, usage_line};

/// A refused command line: the reason, then the help on the command, all on stderr.
pub(crate) fn print_usage(
    error: &UsageError,
    args: &[OsString],
    err: &mut dyn Write,
    colour: Colour,
) -> io::Result<()> {
    error.failure().print(err, colour)?;
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
