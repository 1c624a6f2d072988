//! Arguments of `pollux providers`.

use clap::{Args, Subcommand};
use pollux_host::providers::set::NewProvider;

use crate::command_line::{Expected, RootOptions, SubcommandArgs, variable_names};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  pollux providers
  pollux providers --check
  pollux providers add lab --base-url https://llm.lab.example/v1 --env-key LAB_KEY
  pollux providers login anthropic"
)]
pub struct ProvidersArgs {
    #[command(flatten)]
    list: ListArgs,
    #[command(subcommand)]
    leaf: Option<ProvidersLeaf>,
}

/// What to do with providers.
#[derive(Debug, Clone, PartialEq)]
pub enum ProvidersCommand {
    List {
        json: bool,
        /// Ask the servers.
        check: bool,
    },
    Add(NewProvider),
    Login {
        id: String,
    },
    Logout {
        id: String,
    },
    Test {
        id: String,
        model: Option<String>,
        json: bool,
    },
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Output JSON
    #[arg(long)]
    json: bool,
    /// Check that local servers and providers with a key respond
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Subcommand)]
enum ProvidersLeaf {
    /// List providers with their key source and status
    ///
    /// Works offline unless `--check` is given.
    #[command(after_help = "Examples:
  pollux providers list
  pollux providers list --check --json")]
    List(ListArgs),
    /// Add a provider to your user settings
    ///
    /// If the provider already exists, changes only the given values.
    #[command(after_help = "Examples:
  pollux providers add lab --base-url https://llm.lab.example/v1 --env-key LAB_KEY
  pollux providers add box --base-url http://192.168.1.5:8080/v1 --tools prompt")]
    Add {
        /// Provider id, as in `--model id/model`
        #[arg(value_name = "id")]
        id: String,
        /// Base URL of the API
        #[arg(long, value_name = "url")]
        base_url: String,
        /// Environment variable that contains the key
        #[arg(long, value_name = "variable", value_parser = variable_names())]
        env_key: Option<String>,
        /// API that the server implements
        #[arg(long, value_name = "name", value_parser = ["chat", "responses", "messages"])]
        dialect: Option<String>,
        /// Tool-calling mode
        #[arg(long, value_name = "mode", value_parser = ["native", "prompt", "none"])]
        tools: Option<String>,
        /// Display name
        #[arg(long, value_name = "text")]
        name: Option<String>,
        /// Additional HTTP header as name=value; repeatable
        #[arg(long, value_name = "header", value_parser = header)]
        header: Vec<(String, String)>,
        /// Allow sending the key over plain HTTP to a public address
        #[arg(long)]
        allow_insecure: bool,
    },
    /// Store a provider's API key
    ///
    /// Asks for the key without showing it, or reads it from standard input. The key is stored in the keychain, or in an
    /// encrypted file if there is no keychain. Only API keys work, not ChatGPT or Claude subscriptions.
    #[command(after_help = "Examples:
  pollux providers login anthropic
  pass show openai | pollux providers login openai")]
    Login {
        /// Provider id
        #[arg(value_name = "id")]
        id: String,
        // Accepted only to be rejected without being shown.
        #[arg(hide = true)]
        key: Vec<String>,
    },
    /// Remove a provider's stored API key
    #[command(after_help = "Examples:
  pollux providers logout anthropic")]
    Logout {
        /// Provider id
        #[arg(value_name = "id")]
        id: String,
    },
    /// Test streaming, tool calls and JSON output
    ///
    /// Sends three short requests and stores the results in your user settings as `providers.<id>.probed`.
    #[command(after_help = "Examples:
  pollux providers test openai
  pollux providers test ollama --model qwen3:8b")]
    Test {
        /// Provider id
        #[arg(value_name = "id")]
        id: String,
        /// Model to test
        #[arg(long, value_name = "name")]
        model: Option<String>,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
}

/// `name=value`; the value may be a secret and is not repeated.
fn header(text: &str) -> Result<(String, String), Expected> {
    let expected = || Expected::without_value("name=value");
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    if name.trim().is_empty() {
        return Err(expected());
    }
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl SubcommandArgs for ProvidersArgs {
    type Command = ProvidersCommand;

    fn resolve(self, root: &mut RootOptions) -> Result<ProvidersCommand, UsageError> {
        Ok(match self.leaf {
            None => ProvidersCommand::List { json: self.list.json, check: self.list.check },
            Some(ProvidersLeaf::List(list)) => ProvidersCommand::List { json: list.json, check: list.check },
            Some(ProvidersLeaf::Add {
                id,
                base_url,
                env_key,
                dialect,
                tools,
                name,
                header,
                allow_insecure,
            }) => ProvidersCommand::Add(NewProvider {
                id,
                base_url,
                name,
                dialect,
                env_key,
                tools,
                headers: header,
                allow_insecure,
            }),
            Some(ProvidersLeaf::Login { key, .. }) if !key.is_empty() => {
                return Err(UsageError::ProviderKeyAsArgument);
            }
            Some(ProvidersLeaf::Login { id, .. }) => ProvidersCommand::Login { id },
            Some(ProvidersLeaf::Logout { id }) => ProvidersCommand::Logout { id },
            Some(ProvidersLeaf::Test { id, model, json }) => {
                // `--model` before the command has the same effect.
                let before = || {
                    let named = root.request.overrides.iter().find(|(key, _)| key == "model.name");
                    named.and_then(|(_, value)| value.as_str().map(str::to_owned))
                };
                ProvidersCommand::Test { id, model: model.or_else(before), json }
            }
        })
    }
}
