//! Arguments of `pollux auth`.

use clap::{Args, Subcommand};

use crate::command_line::{RootOptions, SubcommandArgs};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Examples:
  pollux auth login
  pollux auth status"
)]
pub struct AuthArgs {
    #[command(subcommand)]
    leaf: AuthLeaf,
}

/// What to do with credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthCommand {
    Login {
        /// The key comes on standard input.
        stdin: bool,
    },
    Logout {
        /// Sign-ins to MCP servers, too.
        all: bool,
    },
    Status {
        json: bool,
    },
    List {
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum AuthLeaf {
    /// Store an API key
    ///
    /// Asks for a Gemini API key and stores it in the keychain, or in an encrypted file if there is no keychain.
    #[command(after_help = "Examples:
  pollux auth login
  pass show gemini | pollux auth login --api-key-stdin")]
    Login {
        /// Read the key from stdin
        #[arg(long)]
        api_key_stdin: bool,
        // Taken only to be refused without being shown.
        #[arg(hide = true)]
        key: Vec<String>,
    },
    /// Remove the stored API key
    ///
    /// Exits with code 1 if the keychain cannot be reached and may still contain a key.
    #[command(after_help = "Examples:
  pollux auth logout
  pollux auth logout --all")]
    Logout {
        /// Also remove MCP server credentials and gemini-cli's Google login
        #[arg(long)]
        all: bool,
    },
    /// Show the credentials in use
    ///
    /// Shows each source of credentials (environment variables, the stored key, settings) in order of precedence.
    /// Exits with code 41 if you are not signed in.
    #[command(after_help = "Examples:
  pollux auth status
  pollux auth status --json")]
    Status {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// List stored credentials without their secrets
    #[command(after_help = "Examples:
  pollux auth list")]
    List {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
}

impl SubcommandArgs for AuthArgs {
    type Command = AuthCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<AuthCommand, UsageError> {
        Ok(match self.leaf {
            AuthLeaf::Login { key, .. } if !key.is_empty() => return Err(UsageError::KeyAsArgument),
            AuthLeaf::Login { api_key_stdin, .. } => AuthCommand::Login { stdin: api_key_stdin },
            AuthLeaf::Logout { all } => AuthCommand::Logout { all },
            AuthLeaf::Status { json } => AuthCommand::Status { json },
            AuthLeaf::List { json } => AuthCommand::List { json },
        })
    }
}
