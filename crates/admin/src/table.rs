//! The subcommands in the order in which the help names them. A new one is a line of this table.

use clap::ArgMatches;
use pollux_domain::failure::Failure;
use pollux_host::request::Request;

use crate::context::Context;
use crate::grammar::{Parsed, Root};
use crate::usage::UsageError;
use crate::{agents, auth, config, extensions, hooks, mcp, memory, policy, sessions, skills, trust};

/// A subcommand as the command line knows it.
pub struct Row {
    /// Without its other names, which are in the grammar.
    pub name: &'static str,
    /// The commands below it, as the help shows them.
    pub actions: &'static str,
    pub summary: &'static str,
    pub grammar: fn() -> clap::Command,
    pub parse: fn(&Root<'_>, &ArgMatches) -> Result<Parsed<Command>, UsageError>,
    /// The help; the name of a page, or nothing for the first one.
    pub help: fn(&str) -> &'static str,
}

macro_rules! table {
    ($($variant:ident $noun:ident $typed:ident $actions:literal $summary:literal;)*) => {
        /// What is asked of a subcommand.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Command {
            $($variant($noun::$typed),)*
        }

        pub static TABLE: &[Row] = &[
            $(Row {
                name: stringify!($noun),
                actions: $actions,
                summary: $summary,
                grammar: $noun::grammar,
                parse: |root, matches| Ok($noun::parse(root, matches)?.map(Command::$variant)),
                help: $noun::help,
            },)*
        ];

        impl Command {
            /// Does it; results go to the context's streams.
            pub fn run(&self, context: &mut Context<'_>) -> Result<(), Failure> {
                match self {
                    $(Self::$variant(command) => $noun::run(command, context),)*
                }
            }
        }

        $(impl From<$noun::$typed> for Command {
            fn from(command: $noun::$typed) -> Self {
                Self::$variant(command)
            }
        })*
    };
}

table! {
    Config config ConfigCommand "show|get|set" "what is set, and where it comes from";
    Policy policy PolicyCommand "explain|list|replay|test|lint" "what the rules say about calls, and whether they are sound";
    Agents agents AgentsCommand "list|show|enable|disable" "helpers that the model may hand a task to";
    Hooks hooks HooksCommand "list|enable|disable|migrate|run" "your own commands at certain moments, and what they would do";
    Mcp mcp McpCommand "add|remove|list|…" "servers whose tools the model may call; `pollux mcp --help` explains";
    Extensions extensions ExtensionsCommand "install|list|…" "bundles of servers, commands, hooks, skills; `pollux extensions --help` explains";
    Skills skills SkillsCommand "list|install|…" "instructions that the model takes when a task calls for them; `pollux skills --help`";
    Trust trust TrustCommand "show|allow|deny|diff" "what a folder would run, and whether it may";
    Sessions sessions SessionsCommand "list|show|search|…" "past conversations: find, read, export, delete, go back; `pollux sessions`\n                           explains";
    Auth auth AuthCommand "login|logout|status|list" "keys and sign-ins: store, remove, and which of them is in effect";
    Memory memory MemoryCommand "enable|search|…" "what earlier sessions said and taught, found again; `pollux memory` explains";
}

/// The subcommand of this name or of one of its other names.
pub fn row(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name || (row.grammar)().get_all_aliases().any(|alias| alias == name))
}

impl<T> Parsed<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Parsed<U> {
        match self {
            Self::Help(page) => Parsed::Help(page),
            Self::Run(command, request) => Parsed::Run(change(command), request),
        }
    }
}

impl Row {
    /// A run without the rest of the command line.
    pub(crate) fn parse_alone(
        &self,
        root: &ArgMatches,
        inner: &ArgMatches,
        request: &Request,
    ) -> Result<Parsed<Command>, UsageError> {
        let given = || Ok(request.clone());
        (self.parse)(&Root::new(root, &given), inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subcommand_is_found_by_each_of_its_names() {
        for row in TABLE {
            assert_eq!((row.grammar)().get_name(), row.name);
            assert!((row.help)("").contains(&format!("Usage: pollux {} ", row.name)), "{}", row.name);
        }
        for (alias, name) in
            [("agent", "agents"), ("hook", "hooks"), ("extension", "extensions"), ("skill", "skills")]
        {
            assert_eq!(row(alias).map(|row| row.name), Some(name));
        }
        assert!(row("demo").is_none());
    }
}
