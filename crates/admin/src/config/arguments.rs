//! Arguments of `pollux config`.

use clap::{Args, Subcommand};
use pollux_host::request::Scope;

use crate::command_line::{PossiblyHelpParser, RootOptions, SubcommandArgs, scopes};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Examples:
  pollux config show --origin
  pollux config set model.name gemini-2.5-pro"
)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ConfigCommand {
    /// Show every setting
    ///
    /// Prints one `key = value` per line.
    #[command(after_help = "Examples:
  pollux config show
  pollux config show --origin")]
    Show {
        /// Also show the file, variable or flag that each value comes from
        #[arg(long)]
        origin: bool,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the value of a setting
    ///
    /// Prints only the value. Objects and arrays are printed as JSON.
    #[command(after_help = "Examples:
  pollux config get model.name")]
    Get {
        /// Setting, such as `model.name`
        #[arg(value_name = "key")]
        key: String,
    },
    /// Change a setting
    ///
    /// Writes to the settings file and keeps its comments.
    #[command(after_help = "Examples:
  pollux config set model.name gemini-2.5-pro
  pollux config set model.maxSessionTurns 20 --scope project")]
    Set {
        /// Setting, such as `model.name`
        #[arg(value_name = "key")]
        key: String,
        /// New value; JSON for objects and arrays
        #[arg(value_name = "value", allow_hyphen_values = true, value_parser = PossiblyHelpParser)]
        value: String,
        /// Settings file to change
        #[arg(long, value_name = "scope", default_value = "user", value_parser = scopes())]
        scope: Scope,
    },
}

impl SubcommandArgs for ConfigArgs {
    type Command = ConfigCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<ConfigCommand, UsageError> {
        Ok(self.command)
    }
}
