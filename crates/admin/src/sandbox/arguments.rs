//! Arguments of `pollux sandbox`.

use clap::{Args, Subcommand};

use crate::command_line::{RootOptions, SubcommandArgs};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Examples:
  pollux sandbox status
  pollux sandbox run -- make test"
)]
pub struct SandboxArgs {
    #[command(subcommand)]
    leaf: SandboxLeaf,
}

/// What to do with the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxCommand {
    Status {
        json: bool,
    },
    Check,
    Explain {
        /// A path, a host or a right.
        target: String,
        json: bool,
    },
    Run {
        /// A program and its arguments.
        command: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
enum SandboxLeaf {
    /// Show the active sandbox and its limits
    ///
    /// Tries every sandbox type available on this system, best first. For the one in use, shows whether each kind of
    /// access is blocked (shown as `held`), partly blocked (`partly`) or not blocked (`open`).
    #[command(after_help = "Examples:
  pollux sandbox status
  pollux sandbox status --json")]
    Status {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Try to break out of the sandbox
    ///
    /// Runs harmless escape attempts and prints each result. Exits with code 44 if one succeeds unexpectedly.
    #[command(after_help = "Examples:
  pollux sandbox check")]
    Check,
    /// Explain the rule for a path or host
    ///
    /// Shows what access sandboxed commands have, which rule applies, and which flag would allow more.
    #[command(after_help = "Examples:
  pollux sandbox explain ~/.ssh/id_ed25519
  pollux sandbox explain .git/hooks
  pollux sandbox explain registry.example.com
  pollux sandbox explain port:5432")]
    Explain {
        /// PATH, HOST[:PORT], or KIND:TARGET as in `--sandbox-allow`
        #[arg(value_name = "target")]
        target: String,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Run one command in the sandbox
    #[command(after_help = "Examples:
  pollux sandbox run -- make test
  pollux sandbox run -- sh -c 'touch ~/x'")]
    Run {
        /// Command and its arguments
        #[arg(last = true, required = true, value_name = "command")]
        command: Vec<String>,
    },
}

impl SubcommandArgs for SandboxArgs {
    type Command = SandboxCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<SandboxCommand, UsageError> {
        Ok(match self.leaf {
            SandboxLeaf::Status { json } => SandboxCommand::Status { json },
            SandboxLeaf::Check => SandboxCommand::Check,
            SandboxLeaf::Explain { target, json } => SandboxCommand::Explain { target, json },
            SandboxLeaf::Run { command } => SandboxCommand::Run { command },
        })
    }
}
