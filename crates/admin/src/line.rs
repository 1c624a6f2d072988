//! A subcommand run inside a conversation: from words, with what it prints caught.

use clap::{Args, FromArgMatches};
use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::failure::Failure;
use pollux_host::prompter::Prompter;
use pollux_host::request::Request;

use crate::command_line::{self, Purpose, Reading, RootOptions, approval_modes};
use crate::context::Context;
use crate::mcp;
use crate::table::{Command, TABLE, subcommand};
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
    let printed = |out| Captured { out, err: String::new(), result: Ok(()) };
    match parse(words, request) {
        Ok(ParsedLine::Run(command, request)) => run_captured(&command, &request, env, prompter),
        Ok(ParsedLine::Help(path)) => printed(command_line::help_page(command_line::built(tree), &path)),
        Err(error) => Captured { result: Err(error.failure()), ..printed(String::new()) },
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

/// What a line asks for.
enum ParsedLine {
    Run(Command, Box<Request>),
    /// Help on the command with this path.
    Help(Vec<String>),
}

/// The flags before a subcommand that some subcommand reads.
#[derive(Debug, Args)]
struct LineArgs {
    /// Approval mode
    #[arg(long, value_name = "mode", value_parser = approval_modes())]
    approval_mode: Option<ApprovalMode>,
    /// Approve everything that no rule denies
    #[arg(short, long)]
    yolo: bool,
    /// Print debug output to stderr
    #[arg(short, long, global = true)]
    debug: bool,
}

fn tree(purpose: Purpose) -> clap::Command {
    let root = clap::Command::new("pollux").no_binary_name(true).disable_help_subcommand(true);
    let root = purpose.fit(LineArgs::augment_args(root));
    root.subcommands(TABLE.iter().map(|subcommand| subcommand.command(purpose)))
}

fn parse(words: &[&str], request: &Request) -> Result<ParsedLine, UsageError> {
    let typed = mcp::server_words_last(tree, words.iter().map(|word| (*word).to_owned()).collect());
    let matches = match command_line::read(tree, &typed)? {
        Reading::Matches(matches) => matches,
        Reading::Help(path) => return Ok(ParsedLine::Help(path)),
    };
    let unknown = || UsageError::Unknown { given: words.join(" "), nearest: None };
    let (name, inner) = matches.subcommand().ok_or_else(unknown)?;
    let LineArgs { approval_mode, yolo, debug } =
        LineArgs::from_arg_matches(&matches).map_err(|error| UsageError::Malformed(error.to_string()))?;
    let approval = approval_mode.or(yolo.then_some(ApprovalMode::Yolo));
    let mut request = request.clone();
    request.debug |= debug;
    let (command, request) =
        subcommand(name).ok_or_else(unknown)?.resolve(inner, RootOptions { request, approval })?;
    Ok(ParsedLine::Run(command, Box::new(request)))
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
            (&["nosuch"], "unknown command `nosuch`"),
            (&["memory", "forget"], "nothing to forget: give one of `--path`, `--session` and `--query`"),
        ] {
            let done = home.line(words);
            assert_eq!(done.result.unwrap_err().summary, expected, "{words:?}");
            assert!(done.out.is_empty(), "{words:?}");
        }
    }
}
