//! What people read when a command line is refused.

use std::ffi::OsString;
use std::io::{self, Write};

use pollux_config::env::{Env, name::OUTPUT_DIALECT};
use pollux_config::groups::Dialect;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Colour;

use crate::launch::{UsageError, help_page, path_of, usage_line};

/// A refused command line: the reason, and where it helps how the command is written, all on stderr. gemini-cli always
/// prints the help.
pub(crate) fn print_usage(
    error: &UsageError,
    args: &[OsString],
    env: &Env,
    err: &mut dyn Write,
    colour: Colour,
) -> io::Result<()> {
    let failure = error.failure();
    if dialect(args, env) == Dialect::GeminiCli && failure.exit == ExitKind::Failure {
        failure.print(err, colour)?;
        write!(err, "\n{}", help_page(&path_of(args)))?;
        return err.flush();
    }
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

/// The dialect that a refused command line asks for. Settings are not read for it.
fn dialect(args: &[OsString], env: &Env) -> Dialect {
    const FLAG: &str = "--output-dialect";
    let mut named = None;
    for (at, arg) in args.iter().enumerate().take_while(|(_, arg)| *arg != "--") {
        let Some(arg) = arg.to_str() else { continue };
        if arg == FLAG {
            named = args.get(at + 1).and_then(|value| value.to_str());
        } else if let Some(value) = arg.strip_prefix(FLAG).and_then(|rest| rest.strip_prefix('=')) {
            named = Some(value);
        }
    }
    Dialect::named(Some(named.or(env.get(OUTPUT_DIALECT)).unwrap_or(env.usual_dialect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(words: &[&str], error: &UsageError) -> String {
        printed_in(&env(&[]), words, error)
    }

    fn env(vars: &[(&str, &str)]) -> Env {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Env::new(vars, "/".into())
    }

    fn printed_in(env: &Env, words: &[&str], error: &UsageError) -> String {
        let args: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut bytes = Vec::new();
        print_usage(error, &args, env, &mut bytes, Colour::None).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn in_the_dialect_of_gemini_cli_the_help_follows_every_mistake() {
        let unknown = UsageError::Unknown { given: "nope".into(), nearest: None };
        let gemini = env(&[]).called_as_gemini();
        for (env, words) in [
            (&gemini, &["--nope"] as &[&str]),
            (&env(&[("POLLUX_OUTPUT_DIALECT", "gemini-cli")]), &["--nope"]),
            (&env(&[]), &["--output-dialect", "gemini-cli", "--nope"]),
            (&env(&[]), &["--output-dialect=gemini-cli", "--nope"]),
        ] {
            let text = printed_in(env, words, &unknown);
            assert!(text.starts_with("Unknown argument: nope\n\n"), "{text}");
            assert!(text.contains("Usage: ") && text.contains("--output-format"), "{text}");
        }
        assert!(printed_in(&gemini, &["-y"], &UsageError::YoloAndMode).contains("Usage: "));
        // Exit 42: upstream prints this message alone.
        assert!(!printed_in(&gemini, &["-i", "x"], &UsageError::InteractivePiped).contains("Usage: "));
        let ours = printed_in(&gemini, &["--output-dialect", "pollux", "--nope"], &unknown);
        assert!(ours.ends_with("hint: run `pollux --help`\n"), "{ours}");
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
