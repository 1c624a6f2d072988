//! Arguments of `pollux hooks`.

use clap::{Args, Subcommand};
use pollux_host::request::Scope;

use crate::command_line::{RootOptions, SkipTrust, SubcommandArgs, scopes};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Examples:
  pollux hooks list
  pollux hooks run BeforeTool"
)]
pub struct HooksArgs {
    #[command(flatten)]
    trust: SkipTrust,
    #[command(subcommand)]
    command: HooksCommand,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum HooksCommand {
    /// List hooks
    ///
    /// Shows each hook's event, command and settings file.
    #[command(after_help = "Examples:
  pollux hooks list
  pollux hooks list --json")]
    List {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Enable a hook
    #[command(after_help = "Examples:
  pollux hooks enable format")]
    Enable {
        /// Name of the hook, or its command if it has no name
        #[arg(value_name = "name")]
        name: String,
        /// Settings file to change; `project` only for the project's hooks
        #[arg(long, value_name = "scope", default_value = "user", value_parser = scopes())]
        scope: Scope,
    },
    /// Disable a hook
    #[command(after_help = "Examples:
  pollux hooks disable format
  pollux hooks disable ./check.sh --scope project")]
    Disable {
        /// Name of the hook, or its command if it has no name
        #[arg(value_name = "name")]
        name: String,
        /// Settings file to change; `project` only for the project's hooks
        #[arg(long, value_name = "scope", default_value = "user", value_parser = scopes())]
        scope: Scope,
    },
    /// Import hooks from Claude Code
    ///
    /// Converts the hooks in .claude/settings.json and writes them to .gemini/settings.json.
    #[command(after_help = "Examples:
  pollux hooks migrate --from-claude")]
    Migrate {
        /// Import from Claude Code, the only supported source
        #[arg(long)]
        from_claude: bool,
    },
    /// Run the hooks for an event
    ///
    /// Runs each hook with sample input, and shows its response and its effect.
    #[command(
        alias = "test",
        after_help = "Events:
  SessionStart SessionEnd BeforeAgent AfterAgent BeforeModel AfterModel
  BeforeToolSelection BeforeTool AfterTool PreCompress Notification

Examples:
  pollux hooks run BeforeTool
  echo '{\"tool_name\": \"write_file\"}' | pollux hooks run BeforeTool --input -"
    )]
    Run {
        /// Event to run hooks for
        #[arg(value_name = "event")]
        event: String,
        /// File with a JSON object that overrides keys of the sample input; `-` for stdin
        #[arg(long, value_name = "file", allow_hyphen_values = true)]
        input: Option<String>,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
}

impl SubcommandArgs for HooksArgs {
    type Command = HooksCommand;

    fn resolve(self, root: &mut RootOptions) -> Result<HooksCommand, UsageError> {
        self.trust.apply(&mut root.request);
        Ok(self.command)
    }
}
