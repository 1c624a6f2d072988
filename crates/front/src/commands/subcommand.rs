//! Running subcommands of the program inside a conversation.

use std::io;

use pollux_config::env::Env;
use pollux_domain::failure::Failure;
use pollux_host::prompter::Prompter;
use pollux_host::request::Request;

use crate::Front;

/// The subcommands of the program: `/mcp list` shows the output of `pollux mcp list`. A port, so that this crate does not
/// depend on them.
pub trait Subcommands {
    /// Runs a subcommand, as in `["mcp", "list"]`, and captures its output.
    fn run(&self, words: &[&str], request: &Request, env: &Env, prompter: Prompter<'_>) -> Captured;
}

/// The output and result of a subcommand.
#[derive(Debug)]
pub struct Captured {
    pub out: String,
    pub err: String,
    pub result: Result<(), Failure>,
}

impl Captured {
    /// All output, or the failure message.
    pub(super) fn text(self) -> String {
        match self.result {
            Ok(()) => format!("{}{}", self.err, self.out),
            Err(failure) => failure.message(),
        }
    }
}

impl Front<'_, '_> {
    /// Runs a subcommand that cannot ask questions.
    pub(super) fn subcommand(&self, words: &[&str]) -> Captured {
        self.subcommand_shown(words, &mut io::sink())
    }

    /// Runs a subcommand and writes its questions to `screen`.
    pub(super) fn subcommand_shown(&self, words: &[&str], screen: &mut dyn io::Write) -> Captured {
        let prompter = Prompter { at_terminal: false, input: &mut io::empty(), screen };
        self.subcommands.run(words, self.turn.request, &self.turn.loaded.env, prompter)
    }
}
