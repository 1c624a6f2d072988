//! Arguments of `pollux bug`.

use std::path::PathBuf;

use clap::Args;

use crate::command_line::{FilledParser, RootOptions, SubcommandArgs};
use crate::usage::UsageError;

/// Write a file for a bug report
///
/// The file, a capsule, has the versions, settings, checks and events that a report needs, and the recorded replies, with
/// which `pollux replay` runs the session again. Texts, arguments, results and paths are replaced by placeholders unless you
/// add `--with-contents`. Nothing is sent anywhere.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux bug
  pollux bug --session 3f2a --output report.json
  pollux bug --with-contents")]
pub struct BugArgs {
    /// Session number, id, id prefix or `latest`
    #[arg(long, value_name = "session", value_parser = FilledParser)]
    session: Option<String>,
    /// Keep texts, arguments and results, without secrets
    #[arg(long)]
    with_contents: bool,
    /// File to write (default: `pollux-bug-<id>.json`)
    #[arg(short, long, value_name = "file", value_parser = FilledParser)]
    output: Option<String>,
    /// Do not ask for confirmation, and replace an existing file
    #[arg(short, long)]
    yes: bool,
    /// Output JSON
    #[arg(long)]
    json: bool,
}

/// `pollux bug`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BugCommand {
    /// `None` for the latest, if there is one.
    pub session: Option<String>,
    pub with_contents: bool,
    pub output: Option<PathBuf>,
    pub yes: bool,
    pub json: bool,
}

impl SubcommandArgs for BugArgs {
    type Command = BugCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<BugCommand, UsageError> {
        let Self { session, with_contents, output, yes, json } = self;
        Ok(BugCommand { session, with_contents, output: output.map(PathBuf::from), yes, json })
    }
}
