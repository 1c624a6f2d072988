//! What all subcommands share on the command line: gemini-cli's reading of flags, help pages, and answers to mistakes.
//!
//! The arguments themselves are derived next to each command. [`read`] parses words against a tree of commands and says
//! in our words what clap refused; [`help_page`] and [`usage_line`] render a command of the tree.

mod lookup;
mod refusal;
mod values;

use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, Args, Command, value_parser};
use pollux_domain::approval::ApprovalMode;
use pollux_host::request::Request;

use crate::usage::UsageError;

pub use lookup::{mistyped_command, path, positions};
pub(crate) use values::{Expected, FilledParser, PossiblyHelpParser, count, scopes};
pub use values::{approval_modes, full_lists, items, variable_names};

/// What a tree of commands is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reading words: every flag also takes `=true` and `=false`, and a repeated option replaces itself.
    Parse,
    /// Help, completions, manual pages and the reference, where flags look like flags.
    Show,
}

impl Purpose {
    /// A derived command, fit for this purpose.
    pub fn fit(self, command: Command) -> Command {
        match self {
            Self::Parse => lenient(command),
            Self::Show => command,
        }
    }
}

/// yargs reads `--flag=false`, and lets the last of several values win.
fn lenient(command: Command) -> Command {
    let command = command.args_override_self(true).mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .default_value("false")
            .value_parser(value_parser!(bool)),
        _ => arg,
    });
    command.mut_subcommands(lenient)
}

/// The options before a subcommand, as far as subcommands use them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RootOptions {
    pub request: Request,
    /// `--approval-mode` or `--yolo`.
    pub approval: Option<ApprovalMode>,
}

/// The derived arguments of a subcommand.
pub(crate) trait SubcommandArgs: Args {
    type Command;

    /// Checks what clap cannot check, and adds the subcommand's own options to the request.
    fn resolve(self, root: &mut RootOptions) -> Result<Self::Command, UsageError>;
}

// `--skip-trust`, for every command below the one that takes it. A doc comment would become the command's summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub(crate) struct SkipTrust {
    /// Trust this folder for this command
    #[arg(long, global = true, display_order = 900)]
    skip_trust: bool,
}

impl SkipTrust {
    pub(crate) fn apply(self, request: &mut Request) {
        request.skip_trust |= self.skip_trust;
    }
}

/// Words that were read.
#[derive(Debug)]
pub enum Reading {
    Matches(Box<ArgMatches>),
    /// Help on the command with this path.
    Help(Vec<String>),
}

/// Reads words against a tree of commands, which is built again for each purpose.
pub fn read(tree: fn(Purpose) -> Command, words: &[String]) -> Result<Reading, UsageError> {
    let error = match tree(Purpose::Parse).try_get_matches_from(words) {
        Ok(matches) => return Ok(Reading::Matches(Box::new(matches))),
        Err(error) => error,
    };
    let shown = built(tree);
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Ok(Reading::Help(path(&shown, words)))
        }
        _ => Err(refusal::usage_error(&error, &shown, words)),
    }
}

/// The whole tree, including what is only built when it is used.
pub fn built(tree: fn(Purpose) -> Command) -> Command {
    let mut root = tree(Purpose::Show);
    root.build();
    root
}

/// The help page of the command at this path of a [`built`] tree; the root's needs no building.
pub fn help_page(root: Command, path: &[String]) -> String {
    let command = command_at(root, path);
    // One page for `-h` and `--help`: what there is to say, and one line for each option.
    let about = command.get_long_about().or_else(|| command.get_about()).cloned();
    let mut command = match about {
        Some(about) => command.about(about),
        None => command,
    };
    format!("{}\n", command.render_help().to_string().trim_end())
}

/// The usage line of the command at this path of a [`built`] tree.
pub fn usage_line(root: Command, path: &[String]) -> String {
    command_at(root, path).render_usage().to_string()
}

fn command_at(root: Command, path: &[String]) -> Command {
    path.iter().fold(root, |command, name| match command.find_subcommand(name) {
        Some(found) => found.clone(),
        None => command,
    })
}
