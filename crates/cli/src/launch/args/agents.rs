//! `pollux agents …`.

use clap::{Arg, ArgMatches, Command};

use super::super::help::Topic;
use super::super::usage::UsageError;
use super::super::{AgentsCommand, Launch, Scope};
use super::{Given, SCOPES, command, flag, shared_options, text};

pub(super) fn grammar() -> Command {
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

pub(super) fn launch(root: &Given<'_>, inner: &ArgMatches) -> Result<Launch, UsageError> {
    let Some((name, matches)) = inner.subcommand() else {
        return if Given(inner).flag("help")? {
            Ok(Launch::Help(Topic::Agents))
        } else {
            Err(UsageError::MissingSubcommand("agents"))
        };
    };
    let given = Given(matches);
    if given.flag("help")? {
        return Ok(Launch::Help(Topic::Agents));
    }
    let word = |name| given.text(name).unwrap_or_default().to_owned();
    let command = match name {
        "show" => AgentsCommand::Show { name: word("name"), json: given.flag("json")? },
        "enable" => AgentsCommand::Enable { name: word("name"), scope: scope(&given)? },
        "disable" => AgentsCommand::Disable { name: word("name"), scope: scope(&given)? },
        "acknowledge" => AgentsCommand::Acknowledge { name: word("name") },
        _ => AgentsCommand::List { json: given.flag("json")? },
    };
    let mut options = shared_options(root)?;
    options.debug |= given.flag("debug")?;
    options.skip_trust |= given.flag("skip-trust")?;
    Ok(Launch::Agents { command, options: Box::new(options) })
}

fn scope(given: &Given<'_>) -> Result<Scope, UsageError> {
    let project = given.choice("scope", SCOPES)? == Some("project");
    Ok(if project { Scope::Project } else { Scope::User })
}
