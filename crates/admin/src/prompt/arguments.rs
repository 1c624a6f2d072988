//! Arguments of `pollux prompt`.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::command_line::{RootOptions, SubcommandArgs};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Examples:
  pollux prompt show
  pollux prompt show --model ollama/qwen3:8b"
)]
pub struct PromptArgs {
    #[command(subcommand)]
    leaf: PromptLeaf,
}

/// `pollux prompt show`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptCommand {
    pub json: bool,
    pub headless: bool,
}

#[derive(Debug, Subcommand)]
enum PromptLeaf {
    /// Show the system prompt and the declared tools
    ///
    /// Shows everything that a session in this folder sends before your first prompt, with sizes. Does not access the network.
    #[command(after_help = "Examples:
  pollux prompt show
  pollux prompt show --model anthropic/claude-sonnet-5-5 --json")]
    Show {
        /// Model to show the prompt for
        #[arg(short, long, value_name = "model")]
        model: Option<String>,
        /// Show the prompt of a headless run
        #[arg(long)]
        headless: bool,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
}

impl SubcommandArgs for PromptArgs {
    type Command = PromptCommand;

    fn resolve(self, root: &mut RootOptions) -> Result<PromptCommand, UsageError> {
        let PromptLeaf::Show { model, headless, json } = self.leaf;
        root.request.approval = root.approval;
        root.request.overrides.extend(model.map(|name| ("model.name".to_owned(), Value::from(name))));
        Ok(PromptCommand { json, headless })
    }
}
