//! Arguments of `pollux extensions`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use pollux_host::extension_set::{NewExtension, SwitchScope};

use crate::command_line::{RootOptions, SkipTrust, SubcommandArgs};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "An extension bundles MCP servers, commands, hooks, skills, sub-agents, policies and context files. For one run, \
                  `pollux -e a,b` uses only the extensions `a` and `b`; `-e none` uses none.

Examples:
  pollux extensions list
  pollux extensions install https://github.com/gemini-cli-extensions/security
  pollux extensions new my-tools mcp-server"
)]
pub struct ExtensionsArgs {
    #[command(flatten)]
    trust: SkipTrust,
    #[command(subcommand)]
    leaf: ExtensionsLeaf,
}

/// What to do with extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtensionsCommand {
    Install(NewExtension),
    /// Used where it is.
    Link {
        path: String,
        consent: bool,
    },
    Uninstall {
        names: Vec<String>,
        all: bool,
    },
    /// `None` for all.
    Update {
        name: Option<String>,
    },
    Switch {
        name: String,
        on: bool,
        scope: SwitchScope,
    },
    List {
        json: bool,
    },
    /// `--list-extensions`
    Names,
    New {
        path: String,
        template: Option<String>,
    },
    Validate {
        path: String,
    },
    Config {
        name: Option<String>,
        setting: Option<String>,
        workspace: bool,
    },
}

#[derive(Debug, Subcommand)]
enum ExtensionsLeaf {
    /// Install an extension
    ///
    /// Installs from a folder, an archive (.zip, .tar.gz), a git repository, or a GitHub repository (owner/repo). For
    /// GitHub, uses the latest release if there is one. Shows everything the extension would run and asks for confirmation.
    #[command(after_help = "Examples:
  pollux extensions install https://github.com/gemini-cli-extensions/security
  pollux extensions install owner/repo --ref v1.2.0")]
    Install(InstallArgs),
    /// List installed extensions
    ///
    /// Shows where each extension is enabled, its contents, and whether its files have changed.
    #[command(after_help = "Examples:
  pollux extensions list
  pollux extensions list -o json")]
    List {
        /// Output format
        #[arg(short, long, value_name = "format", value_enum, default_value_t = ListFormat::Text)]
        output_format: ListFormat,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Update an extension, or all of them
    ///
    /// Shows the changes, and asks for confirmation if the update adds anything that the extension would run.
    #[command(after_help = "Examples:
  pollux extensions update security
  pollux extensions update --all")]
    Update {
        /// Extension to update
        #[arg(value_name = "name")]
        name: Option<String>,
        /// Update all extensions
        #[arg(long)]
        all: bool,
    },
    /// Remove extensions and their settings and secrets
    #[command(after_help = "Examples:
  pollux extensions uninstall security
  pollux extensions uninstall --all")]
    Uninstall {
        /// Extensions to remove
        #[arg(value_name = "names")]
        names: Vec<String>,
        /// Remove all extensions
        #[arg(long)]
        all: bool,
    },
    /// Enable an extension
    ///
    /// Without `--scope`, enables it everywhere it was disabled.
    #[command(after_help = "Examples:
  pollux extensions enable security
  pollux extensions enable security --scope workspace")]
    Enable(SwitchArgs),
    /// Disable an extension
    #[command(after_help = "Examples:
  pollux extensions disable security
  pollux extensions disable security --scope workspace")]
    Disable(SwitchArgs),
    /// Change an extension's settings
    ///
    /// Asks for each value. Secrets are stored in the keychain.
    #[command(after_help = "Examples:
  pollux extensions config security
  pollux extensions config security API_TOKEN --scope workspace")]
    Config {
        /// Extension to configure
        #[arg(value_name = "name")]
        name: Option<String>,
        /// Setting to change
        #[arg(value_name = "setting")]
        setting: Option<String>,
        /// Apply to all projects, or to this folder and its subfolders
        #[arg(long, value_name = "scope", ignore_case = true, value_parser = switch_scopes())]
        scope: Option<SwitchScope>,
    },
    /// Create an extension
    ///
    /// Without a template, creates only a manifest.
    #[command(after_help = "Templates:
  custom-commands, exclude-tools, hooks, mcp-server, policies, skills, themes-example

Examples:
  pollux extensions new my-tools
  pollux extensions new my-tools mcp-server")]
    New {
        /// Folder to create
        #[arg(value_name = "path")]
        path: String,
        /// Template to start from
        #[arg(value_name = "template")]
        template: Option<String>,
    },
    /// Check an extension for problems
    ///
    /// Exits with code 1 if it finds any.
    #[command(after_help = "Examples:
  pollux extensions validate my-tools")]
    Validate {
        /// Extension folder
        #[arg(value_name = "path")]
        path: String,
    },
    /// Link an extension instead of copying it
    ///
    /// For development: changes take effect immediately.
    #[command(after_help = "Examples:
  pollux extensions link my-tools")]
    Link {
        /// Extension folder
        #[arg(value_name = "path")]
        path: String,
        /// Skip the confirmation prompt; required without a terminal
        #[arg(long)]
        consent: bool,
    },
}

#[derive(Debug, Args)]
struct InstallArgs {
    /// Folder, archive or repository
    #[arg(value_name = "source")]
    source: String,
    /// Branch, tag or commit
    #[arg(long = "ref", value_name = "name")]
    reference: Option<String>,
    /// Let gemini-cli update the extension automatically (Pollux does not; run `pollux extensions update --all`)
    #[arg(long)]
    auto_update: bool,
    /// Include pre-releases
    #[arg(long)]
    pre_release: bool,
    /// Skip the confirmation prompt; required without a terminal
    #[arg(long)]
    consent: bool,
    /// Do not ask for the extension's settings
    #[arg(long)]
    skip_settings: bool,
}

#[derive(Debug, Args)]
struct SwitchArgs {
    /// Name of the extension
    #[arg(value_name = "name")]
    name: String,
    /// Apply to all projects, or to this folder and its subfolders
    #[arg(long, value_name = "scope", ignore_case = true, value_parser = switch_scopes())]
    scope: Option<SwitchScope>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    Text,
    Json,
}

/// Upper case counts like lower case, and messages repeat the scope as it was typed.
fn switch_scopes() -> impl TypedValueParser<Value = SwitchScope> {
    PossibleValuesParser::new(["user", "workspace"]).map(|typed| {
        if typed.eq_ignore_ascii_case("user") {
            SwitchScope::User(typed)
        } else {
            SwitchScope::Workspace(typed)
        }
    })
}

impl SubcommandArgs for ExtensionsArgs {
    type Command = ExtensionsCommand;

    fn resolve(self, root: &mut RootOptions) -> Result<ExtensionsCommand, UsageError> {
        self.trust.apply(&mut root.request);
        let switch = |args: SwitchArgs, on| ExtensionsCommand::Switch {
            name: args.name,
            on,
            scope: args.scope.unwrap_or(SwitchScope::Unsaid),
        };
        Ok(match self.leaf {
            ExtensionsLeaf::Install(args) => ExtensionsCommand::Install(NewExtension {
                source: args.source,
                reference: args.reference,
                auto_update: args.auto_update,
                pre_release: args.pre_release,
                consent: args.consent,
                skip_settings: args.skip_settings,
            }),
            ExtensionsLeaf::Link { path, consent } => ExtensionsCommand::Link { path, consent },
            ExtensionsLeaf::Uninstall { names, all } => {
                if names.is_empty() && !all {
                    return Err(UsageError::NoExtension);
                }
                ExtensionsCommand::Uninstall { names, all }
            }
            ExtensionsLeaf::Update { name, all } => {
                if name.is_some() == all {
                    return Err(UsageError::NoExtension);
                }
                ExtensionsCommand::Update { name }
            }
            ExtensionsLeaf::Enable(args) => switch(args, true),
            ExtensionsLeaf::Disable(args) => switch(args, false),
            ExtensionsLeaf::New { path, template } => ExtensionsCommand::New { path, template },
            ExtensionsLeaf::Validate { path } => ExtensionsCommand::Validate { path },
            ExtensionsLeaf::Config { name, setting, scope } => {
                let workspace = matches!(scope, Some(SwitchScope::Workspace(_)));
                ExtensionsCommand::Config { name, setting, workspace }
            }
            ExtensionsLeaf::List { output_format, json } => {
                ExtensionsCommand::List { json: json || output_format == ListFormat::Json }
            }
        })
    }
}
