//! Arguments of `pollux replay`.

use std::path::PathBuf;

use clap::Args;

use crate::command_line::{FilledParser, RootOptions, SubcommandArgs};
use crate::usage::UsageError;

/// Run the session of a bug report again
///
/// The agent gets the recorded prompts, replies and results again, and the events that follow are compared with the
/// recorded ones. No tool runs, no model is asked, and none of your files is read or changed.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 if all events are the same, otherwise 1; 42 for a file that is not a capsule.

Examples:
  pollux replay pollux-bug-3f2a9c01.json"
)]
pub struct ReplayArgs {
    /// File written by `pollux bug`
    #[arg(value_name = "capsule", value_parser = FilledParser)]
    file: String,
    /// Output JSON
    #[arg(long)]
    json: bool,
}

/// `pollux replay`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayCommand {
    pub file: PathBuf,
    pub json: bool,
}

impl SubcommandArgs for ReplayArgs {
    type Command = ReplayCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<ReplayCommand, UsageError> {
        Ok(ReplayCommand { file: self.file.into(), json: self.json })
    }
}
