//! Arguments of `pollux import`.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use pollux_foreign::ForeignAgent;

use crate::command_line::{RootOptions, SubcommandArgs};
use crate::usage::UsageError;

/// Import settings from Claude Code or Codex
///
/// Converts settings, approval rules, hooks, MCP servers, commands, sub-agents and skills. Existing settings and
/// files are never overwritten, and approval rules are imported only from your home directory. Without an
/// argument, lists the files found and changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux import
  pollux import claude-code --dry-run
  pollux import codex")]
pub struct ImportArgs {
    /// Program to import from
    #[arg(value_name = "agent")]
    agent: Option<ImportAgent>,
    /// Show the changes without writing anything
    #[arg(long)]
    dry_run: bool,
    /// Output JSON
    #[arg(long)]
    json: bool,
}

/// A program to import from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportAgent {
    ClaudeCode,
    Codex,
}

/// An import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportCommand {
    /// `None` only lists what was found.
    pub agent: Option<ImportAgent>,
    pub dry_run: bool,
    pub json: bool,
}

impl ImportAgent {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// Its session store.
    pub(super) fn store(self) -> ForeignAgent {
        match self {
            Self::ClaudeCode => ForeignAgent::Claude,
            Self::Codex => ForeignAgent::Codex,
        }
    }
}

impl ValueEnum for ImportAgent {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::ClaudeCode, Self::Codex]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.word()))
    }
}

impl SubcommandArgs for ImportArgs {
    type Command = ImportCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<ImportCommand, UsageError> {
        Ok(ImportCommand { agent: self.agent, dry_run: self.dry_run, json: self.json })
    }
}
