//! A subcommand run inside a conversation: from words, with what it prints caught.

use clap::Command as Grammar;
use pollux_config::env::Env;
use pollux_domain::failure::Failure;
use pollux_host::prompter::Prompter;
use pollux_host::request::Request;

use crate::context::Context;
use crate::grammar::{Parsed, command, flag, split, text};
use crate::table::{Command, TABLE, row};
use crate::usage::UsageError;

/// What a subcommand printed, and how it ended.
#[derive(Debug)]
pub struct Captured {
    pub out: String,
    pub err: String,
    pub result: Result<(), Failure>,
}

/// Runs the words after `pollux`, as in `["mcp", "list"]`, with the options and the environment of a conversation.
pub fn run_line(words: &[&str], request: &Request, env: &Env, prompter: Prompter<'_>) -> Captured {
    match parsed(words, request) {
        Ok(Parsed::Run(command, request)) => run_captured(&command, &request, env, prompter),
        Ok(Parsed::Help(page)) => {
            let help = words.first().and_then(|name| row(name)).map(|row| (row.help)(page));
            Captured { out: help.unwrap_or_default().to_owned(), err: String::new(), result: Ok(()) }
        }
        Err(error) => Captured { out: String::new(), err: String::new(), result: Err(error.failure()) },
    }
}

/// The same with a command that needs no reading.
pub fn run_captured(command: &Command, request: &Request, env: &Env, prompter: Prompter<'_>) -> Captured {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let Prompter { at_terminal, input, screen } = prompter;
    let mut context = Context {
        request,
        env,
        out: &mut out,
        err: &mut err,
        out_is_terminal: false,
        err_is_terminal: false,
        shows_notes: false,
        prompter: Prompter { at_terminal, input: &mut *input, screen: &mut *screen },
    };
    let result = command.run(&mut context);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Captured { out: text(out), err: text(err), result }
}

/// Only the flags before a subcommand that some subcommand looks at.
fn grammar() -> Grammar {
    let root = command("pollux").no_binary_name(true).disable_help_subcommand(true).args([
        text("approval-mode"),
        flag("yolo").short('y'),
        flag("debug").short('d').global(true),
        flag("help").short('h').global(true),
    ]);
    root.subcommands(TABLE.iter().map(|row| (row.grammar)()))
}

fn parsed(words: &[&str], request: &Request) -> Result<Parsed<Command>, UsageError> {
    let matches = split(grammar, words.iter().map(|word| (*word).to_owned()).collect())?;
    let Some((name, inner)) = matches.subcommand() else {
        return Err(UsageError::UnknownFlag(words.join(" ")));
    };
    match row(name) {
        Some(row) => row.parse_alone(&matches, inner, request),
        None => Err(UsageError::UnknownFlag(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use crate::test_home::TestHome;

    #[test]
    fn a_line_is_read_and_run_as_on_the_command_line() {
        let home = TestHome::new().user_settings(r#"{"model": {"name": "mine"}}"#);
        assert_eq!(home.line(&["config", "get", "model.name"]).out, "mine\n");
        assert_eq!(home.line(&["hooks", "list"]).out, "No hooks configured.\n");
        assert_eq!(home.line(&["hook", "list"]).out, "No hooks configured.\n");
        let help = home.line(&["sessions", "list", "--help"]);
        assert!(help.out.starts_with("List sessions\n"), "{}", help.out);
        let failure = home.line(&["config", "get", "model.nme"]).result.unwrap_err();
        assert_eq!(failure.hint.as_deref(), Some("did you mean `model.name`?"));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_a_failure_in_the_same_words() {
        let home = TestHome::new();
        for (words, expected) in [
            (&["config", "get"][..], "missing argument `<key>`"),
            (&["config"], "`config` needs a subcommand"),
            (&["nosuch"], "Unknown argument: nosuch"),
            (
                &["memory", "forget"],
                "say what is to be forgotten: one of `--path`, `--session` and `--query`",
            ),
        ] {
            let done = home.line(words);
            assert_eq!(done.result.unwrap_err().summary, expected, "{words:?}");
            assert!(done.out.is_empty(), "{words:?}");
        }
    }
}
