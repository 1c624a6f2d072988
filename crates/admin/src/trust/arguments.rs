//! Arguments of `pollux trust`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::command_line::{RootOptions, SubcommandArgs};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Examples:
  pollux trust show
  pollux trust allow"
)]
pub struct TrustArgs {
    #[command(subcommand)]
    leaf: TrustLeaf,
}

/// `pollux trust …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustCommand {
    pub action: TrustAction,
    /// The working directory if none is named.
    pub folder: Option<PathBuf>,
}

/// What to do with a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustAction {
    Show {
        json: bool,
    },
    Allow {
        /// The folder above, with everything in it.
        parent: bool,
        /// Do not ask.
        yes: bool,
    },
    Deny,
    Diff {
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum TrustLeaf {
    /// Show a folder's trust status and configuration
    ///
    /// Shows whether the folder is trusted and why, and every command, setting and variable that it defines. Runs nothing.
    #[command(after_help = "Examples:
  pollux trust show
  pollux trust show ~/src/project --json")]
    Show {
        #[command(flatten)]
        folder: FolderArg,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Trust a folder and its current contents
    ///
    /// Asks for confirmation. If the folder's commands change later, you must trust it again.
    #[command(after_help = "Examples:
  pollux trust allow
  pollux trust allow ~/src/project --yes")]
    Allow {
        #[command(flatten)]
        folder: FolderArg,
        /// Also trust the parent folder and everything in it
        #[arg(long)]
        parent: bool,
        /// Skip the confirmation prompt; required without a terminal
        #[arg(short, long)]
        yes: bool,
    },
    /// Mark a folder as untrusted
    ///
    /// Takes precedence over trust granted to a parent folder.
    #[command(after_help = "Examples:
  pollux trust deny
  pollux trust deny ~/Downloads/project")]
    Deny {
        #[command(flatten)]
        folder: FolderArg,
    },
    /// Show changes since a folder was trusted
    #[command(after_help = "Examples:
  pollux trust diff
  pollux trust diff ~/src/project")]
    Diff {
        #[command(flatten)]
        folder: FolderArg,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct FolderArg {
    /// Folder (default: the working directory)
    #[arg(value_name = "folder")]
    folder: Option<PathBuf>,
}

impl SubcommandArgs for TrustArgs {
    type Command = TrustCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<TrustCommand, UsageError> {
        let (action, FolderArg { folder }) = match self.leaf {
            TrustLeaf::Show { folder, json } => (TrustAction::Show { json }, folder),
            TrustLeaf::Allow { folder, parent, yes } => (TrustAction::Allow { parent, yes }, folder),
            TrustLeaf::Deny { folder } => (TrustAction::Deny, folder),
            TrustLeaf::Diff { folder, json } => (TrustAction::Diff { json }, folder),
        };
        Ok(TrustCommand { action, folder })
    }
}
