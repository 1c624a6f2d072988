//! The subcommands in the order in which the help names them. A new one is an entry of this table.

use clap::{ArgMatches, Args, FromArgMatches};
use pollux_domain::failure::Failure;
use pollux_host::request::Request;

use crate::command_line::{Purpose, RootOptions, SubcommandArgs};
use crate::context::Context;
use crate::usage::UsageError;
use crate::{
    agents, auth, bug, config, doctor, extensions, hooks, import, licenses, mcp, memory, models, policy,
    prompt, providers, replay, sandbox, sessions, skills, trust,
};

/// A subcommand as the command line knows it.
pub struct Subcommand {
    pub name: &'static str,
    /// Another name for it.
    alias: Option<&'static str>,
    summary: &'static str,
    /// Its arguments and the commands below it; deferred, because most runs need none of them.
    augment: fn(Purpose) -> fn(clap::Command) -> clap::Command,
    resolve: fn(&ArgMatches, &mut RootOptions) -> Result<Command, UsageError>,
}

macro_rules! table {
    ($(#[doc = $summary:literal] $variant:ident($noun:ident::$args:ident, $command:ident) $(alias $alias:literal)?;)*) => {
        /// What is asked of a subcommand.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Command {
            $($variant($noun::$command),)*
        }

        pub static TABLE: &[Subcommand] = &[
            $(Subcommand {
                name: stringify!($noun),
                alias: [$($alias,)?].first().copied(),
                summary: $summary,
                augment: |purpose| match purpose {
                    Purpose::Parse => |command| Purpose::Parse.fit($noun::$args::augment_args(command)),
                    Purpose::Show => |command| Purpose::Show.fit($noun::$args::augment_args(command)),
                },
                resolve: |matches, root| {
                    let args = $noun::$args::from_arg_matches(matches)
                        .map_err(|error| UsageError::Malformed(error.to_string()))?;
                    Ok(Command::$variant(args.resolve(root)?))
                },
            },)*
        ];

        impl Command {
            /// Runs it; results go to the context's streams.
            pub fn run(&self, context: &mut Context<'_>) -> Result<(), Failure> {
                match self {
                    $(Self::$variant(command) => $noun::run(command, context),)*
                }
            }
        }

        $(impl From<$noun::$command> for Command {
            fn from(command: $noun::$command) -> Self {
                Self::$variant(command)
            }
        })*
    };
}

table! {
    /// Show and change settings
    Config(config::ConfigArgs, ConfigCommand);
    /// List and serve models
    Models(models::ModelsArgs, ModelsCommand);
    /// Manage MCP servers
    Mcp(mcp::McpArgs, McpCommand);
    /// Manage extensions
    Extensions(extensions::ExtensionsArgs, ExtensionsCommand) alias "extension";
    /// Manage skills
    Skills(skills::SkillsArgs, SkillsCommand) alias "skill";
    /// Manage sub-agents
    Agents(agents::AgentsArgs, AgentsCommand) alias "agent";
    /// Manage hooks (commands run on agent events)
    Hooks(hooks::HooksArgs, HooksCommand) alias "hook";
    /// List, search, export and rewind sessions
    Sessions(sessions::SessionsArgs, SessionsCommand);
    /// Search and manage memory
    Memory(memory::MemoryArgs, MemoryCommand);
    /// Review and grant folder trust
    Trust(trust::TrustArgs, TrustCommand);
    /// Show and test the command sandbox
    Sandbox(sandbox::SandboxArgs, SandboxCommand);
    /// Explain, test and lint approval rules
    Policy(policy::PolicyArgs, PolicyCommand);
    /// Show the prompt sent to the model
    Prompt(prompt::PromptArgs, PromptCommand);
    /// Sign in, sign out and show credentials
    Auth(auth::AuthArgs, AuthCommand);
    /// Manage model providers and their keys
    Providers(providers::ProvidersArgs, ProvidersCommand);
    /// Check the installation and fix problems
    Doctor(doctor::DoctorArgs, DoctorCommand);
    /// Write a file for a bug report
    Bug(bug::BugArgs, BugCommand);
    /// Run the session of a bug report again
    Replay(replay::ReplayArgs, ReplayCommand);
    /// Import settings from Claude Code or Codex
    Import(import::ImportArgs, ImportCommand);
    /// List the licences of third-party libraries
    Licenses(licenses::LicensesArgs, LicensesCommand);
}

/// The subcommand of this name, as clap found it.
pub fn subcommand(name: &str) -> Option<&'static Subcommand> {
    TABLE.iter().find(|subcommand| subcommand.name == name)
}

impl Subcommand {
    /// The command for clap, whose insides are built when they are needed.
    pub fn command(&self, purpose: Purpose) -> clap::Command {
        let command = clap::Command::new(self.name).about(self.summary.trim());
        let command = self.alias.into_iter().fold(command, clap::Command::visible_alias);
        command.defer((self.augment)(purpose))
    }

    /// The command that was typed, with the options before and behind it.
    pub fn resolve(
        &self,
        matches: &ArgMatches,
        mut root: RootOptions,
    ) -> Result<(Command, Request), UsageError> {
        let command = (self.resolve)(matches, &mut root)?;
        Ok((command, root.request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(purpose: Purpose) -> clap::Command {
        clap::Command::new("pollux").subcommands(TABLE.iter().map(|noun| noun.command(purpose)))
    }

    #[test]
    fn both_trees_pass_claps_own_checks() {
        tree(Purpose::Parse).debug_assert();
        tree(Purpose::Show).debug_assert();
    }

    #[test]
    fn singular_names_lead_to_the_same_subcommand() {
        let tree = tree(Purpose::Parse);
        for (alias, name) in
            [("agent", "agents"), ("hook", "hooks"), ("extension", "extensions"), ("skill", "skills")]
        {
            assert_eq!(tree.find_subcommand(alias).map(clap::Command::get_name), Some(name));
        }
        assert!(tree.find_subcommand("demo").is_none());
    }

    #[test]
    fn nothing_below_a_subcommand_is_built_before_it_is_used() {
        assert!(tree(Purpose::Parse).get_subcommands().all(|noun| !noun.has_subcommands()));
    }
}
