//! What people read when a command line is refused.

use std::ffi::OsString;
use std::io::{self, Write};

use pollux_domain::failure::Colour;

use crate::launch::{UsageError, help_page, path_of, usage_line};

/// A refused command line: the reason, and where it helps how the command is written, all on stderr.
pub(crate) fn print_usage(
    error: &UsageError,
    args: &[OsString],
    err: &mut dyn Write,
    colour: Colour,
) -> io::Result<()> {
    let failure = error.failure();
    let failure = if error.names_help() {
        let words: Vec<String> = std::iter::once("pollux".to_owned()).chain(path_of(args)).collect();
        failure.hint(format!("run `{} --help`", words.join(" ")))
    } else {
        failure
    };
    failure.print(err, colour)?;
    if error.shows_usage_line() {
        write!(err, "\n{}\n", usage_line(&path_of(args)))?;
    } else if error.shows_help() {
        write!(err, "\n{}", help_page(&path_of(args)))?;
    }
    err.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(words: &[&str], error: &UsageError) -> String {
        let args: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut bytes = Vec::new();
        print_usage(error, &args, &mut bytes, Colour::None).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_refused_option_is_answered_with_the_name_of_the_help_page() {
        let error = UsageError::Unknown { given: "nope".into(), nearest: None };
        for (words, expected) in [
            (&["--nope"] as &[&str], "Unknown argument: nope\n\nhint: run `pollux --help`\n"),
            (&["mcp", "list", "--nope"], "Unknown argument: nope\n\nhint: run `pollux mcp list --help`\n"),
        ] {
            assert_eq!(printed(words, &error), expected);
        }
    }

    #[test]
    fn a_missing_subcommand_is_followed_by_the_help() {
        let text = printed(&["mcp"], &UsageError::MissingSubcommand("mcp".into()));
        let expected = "`mcp` needs a subcommand\n\nManage MCP servers\n\nUsage: pollux mcp ";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_missing_argument_is_followed_by_the_usage_line_alone() {
        assert_eq!(
            printed(&["extensions", "disable"], &UsageError::MissingArgument("<name>".into())),
            "missing argument `<name>`\n\nUsage: pollux extensions disable [OPTIONS] <name>\n"
        );
    }

    #[test]
    fn a_mistake_with_a_known_remedy_is_answered_in_short() {
        let error = UsageError::Unknown { given: "modle".into(), nearest: Some("--model".into()) };
        assert_eq!(
            printed(&["--modle"], &error),
            "Unknown argument: modle\n\nhint: did you mean `--model`?\n"
        );
    }
}
