//! `pollux agents …`.

use clap::{Arg, ArgMatches, Command};
use pollux_host::request::Scope;

use crate::grammar::{Given, Parsed, Root, command, flag, leaf, scope, text};
use crate::usage::UsageError;

/// What to do with agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentsCommand {
    List {
        json: bool,
    },
    Show {
        name: String,
        json: bool,
    },
    Enable {
        name: String,
        scope: Scope,
    },
    Disable {
        name: String,
        scope: Scope,
    },
    /// Agree to an agent of the project.
    Acknowledge {
        name: String,
    },
}

pub fn grammar() -> Command {
    let name = || Arg::new("name").required(true);
    let commands = [
        command("list").arg(flag("json")),
        command("show").args([name(), flag("json")]),
        command("enable").args([name(), text("scope")]),
        command("disable").args([name(), text("scope")]),
        command("acknowledge").arg(name()),
    ];
    command("agents").alias("agent").subcommands(commands.map(|command| command.arg(flag("skip-trust"))))
}

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<AgentsCommand>, UsageError> {
    let Some((name, matches)) = leaf("agents", inner)? else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
    let word = |name| given.text(name).unwrap_or_default().to_owned();
    let command = match name {
        "show" => AgentsCommand::Show { name: word("name"), json: given.flag("json")? },
        "enable" => AgentsCommand::Enable { name: word("name"), scope: scope(&given)? },
        "disable" => AgentsCommand::Disable { name: word("name"), scope: scope(&given)? },
        "acknowledge" => AgentsCommand::Acknowledge { name: word("name") },
        _ => AgentsCommand::List { json: given.flag("json")? },
    };
    let mut options = root.request(&given)?;
    options.skip_trust |= given.flag("skip-trust")?;
    Ok(Parsed::Run(command, Box::new(options)))
}
