//! Arguments of `pollux agents`.

use clap::{Args, Subcommand};
use pollux_host::request::Scope;

use crate::command_line::{RootOptions, SkipTrust, SubcommandArgs, scopes};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "A sub-agent is a Markdown file in ~/.gemini/agents, or in .gemini/agents of a trusted project: front matter with \
                  a name and a description, followed by the agent's instructions. In a prompt, @name calls a sub-agent.

Examples:
  pollux agents list
  pollux agents disable generalist"
)]
pub struct AgentsArgs {
    #[command(flatten)]
    trust: SkipTrust,
    #[command(subcommand)]
    command: AgentsCommand,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum AgentsCommand {
    /// List sub-agents
    ///
    /// Shows each sub-agent's description and source, and whether the model can use it.
    #[command(after_help = "Examples:
  pollux agents list
  pollux agents list --json")]
    List {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a sub-agent's model, tools and prompt
    #[command(after_help = "Examples:
  pollux agents show codebase_investigator")]
    Show {
        /// Sub-agent to show
        #[arg(value_name = "name")]
        name: String,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Enable a sub-agent
    #[command(after_help = "Examples:
  pollux agents enable generalist")]
    Enable {
        /// Sub-agent to enable
        #[arg(value_name = "name")]
        name: String,
        /// Settings file to change
        #[arg(long, value_name = "scope", default_value = "user", value_parser = scopes())]
        scope: Scope,
    },
    /// Disable a sub-agent
    ///
    /// Sets `agents.overrides.<name>.enabled` to false in the settings file.
    #[command(after_help = "Examples:
  pollux agents disable generalist
  pollux agents disable generalist --scope project")]
    Disable {
        /// Sub-agent to disable
        #[arg(value_name = "name")]
        name: String,
        /// Settings file to change
        #[arg(long, value_name = "scope", default_value = "user", value_parser = scopes())]
        scope: Scope,
    },
    /// Approve the current version of a project sub-agent
    ///
    /// Interactive sessions ask for this approval when they start.
    #[command(after_help = "Examples:
  pollux agents acknowledge reviewer")]
    Acknowledge {
        /// Sub-agent to approve
        #[arg(value_name = "name")]
        name: String,
    },
}

impl SubcommandArgs for AgentsArgs {
    type Command = AgentsCommand;

    fn resolve(self, root: &mut RootOptions) -> Result<AgentsCommand, UsageError> {
        self.trust.apply(&mut root.request);
        Ok(self.command)
    }
}
