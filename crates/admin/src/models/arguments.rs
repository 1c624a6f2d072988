//! Arguments of `pollux models`.

use clap::{Args, Subcommand};

use super::ServeArgs;
use crate::command_line::{RootOptions, SubcommandArgs};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  pollux models
  pollux models --provider anthropic
  pollux models --refresh --provider ollama
  pollux models serve ~/models/qwen3-8b.gguf"
)]
pub struct ModelsArgs {
    #[command(flatten)]
    list: ListArgs,
    #[command(subcommand)]
    leaf: Option<ModelsLeaf>,
}

/// What to do with models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelsCommand {
    List(ListArgs),
    Serve(ServeArgs),
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ListArgs {
    /// List only this provider's models
    #[arg(long, value_name = "id")]
    pub provider: Option<String>,
    /// Fetch model lists from the providers and cache them
    #[arg(long)]
    pub refresh: bool,
    /// Output JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
enum ModelsLeaf {
    /// List models with context window, price and capabilities
    ///
    /// Works offline unless `--refresh` is given.
    #[command(after_help = "Examples:
  pollux models list
  pollux models list --provider openai --json")]
    List(ListArgs),
    /// Serve a GGUF model to other programs
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
            None => ModelsCommand::List(self.list),
            Some(ModelsLeaf::List(list)) => ModelsCommand::List(list),
            Some(ModelsLeaf::Serve(args)) => ModelsCommand::Serve(args),
        })
    }
}
