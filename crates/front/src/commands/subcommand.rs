//! Subcommands of the program run inside a conversation.

use std::io;

use pollux_config::env::Env;
use pollux_domain::failure::Failure;
use pollux_host::prompter::Prompter;
use pollux_host::request::Request;

use crate::Front;

/// The subcommands of the program: `/mcp list` shows what `pollux mcp list` prints. Given from outside, so that a front
/// end depends on none of them.
pub trait Subcommands {
    /// Runs the words after `pollux`, as in `["mcp", "list"]`, and catches what is printed.
    fn run(&self, words: &[&str], request: &Request, env: &Env, prompter: Prompter<'_>) -> Captured;
}

/// What a subcommand printed, and how it ended.
#[derive(Debug)]
pub struct Captured {
    pub out: String,
    pub err: String,
    pub result: Result<(), Failure>,
}

impl Captured {
    /// Everything that was printed, or why nothing was: what there is to tell a person.
    pub(super) fn text(self) -> String {
        match self.result {
            Ok(()) => format!("{}{}", self.err, self.out),
            Err(failure) => failure.message(),
        }
    }
}

impl Front<'_, '_> {
    /// Runs a subcommand with nobody to ask.
    pub(super) fn subcommand(&self, words: &[&str]) -> Captured {
        self.subcommand_shown(words, &mut io::sink())
    }

    /// The same; what it would ask goes to `screen`.
    pub(super) fn subcommand_shown(&self, words: &[&str], screen: &mut dyn io::Write) -> Captured {
        let prompter = Prompter { at_terminal: false, input: &mut io::empty(), screen };
        self.subcommands.run(words, self.turn.request, &self.turn.loaded.env, prompter)
    }
}
