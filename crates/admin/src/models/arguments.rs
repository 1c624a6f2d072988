//! Arguments of `pollux models`.

use clap::{Args, Subcommand};

use super::ServeArgs;
use crate::command_line::{RootOptions, SubcommandArgs};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux models serve ~/models/qwen3-8b.gguf")]
pub struct ModelsArgs {
    #[command(subcommand)]
    leaf: ModelsLeaf,
}

/// What to do with models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelsCommand {
    Serve(ServeArgs),
}

#[derive(Debug, Subcommand)]
enum ModelsLeaf {
    /// Serve a GGUF file to other programs
    ///
    /// Starts `llama-server`, or the command in `local.serverCommand`, on a loopback port with a new API key, and runs
    /// until you press Ctrl+C.
    #[command(after_help = "Examples:
  pollux models serve ~/models/qwen3-8b.gguf
  pollux models serve --port 8080 gguf//models/qwen3-8b.gguf")]
    Serve(ServeArgs),
}

impl SubcommandArgs for ModelsArgs {
    type Command = ModelsCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<ModelsCommand, UsageError> {
        Ok(match self.leaf {
            ModelsLeaf::Serve(args) => ModelsCommand::Serve(args),
        })
    }
}
