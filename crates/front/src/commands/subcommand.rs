//! Subcommands run inside a conversation.

use std::io;

use pollux_admin::{Captured, Command, run_captured};
use pollux_host::prompter::Prompter;

use crate::Front;

impl Front<'_, '_> {
    /// Runs a subcommand with nobody to ask, and catches what it prints.
    pub(super) fn subcommand(&self, command: impl Into<Command>) -> Captured {
        let (mut input, mut screen) = (io::empty(), io::sink());
        let prompter = Prompter { at_terminal: false, input: &mut input, screen: &mut screen };
        run_captured(&command.into(), self.turn.request, &self.turn.loaded.env, prompter)
    }
}
