//! `pollux hooks …`.

use clap::{Arg, ArgMatches, Command};

use super::super::help::Topic;
use super::super::usage::UsageError;
use super::super::{HooksCommand, Launch, Scope};
use super::{Given, SCOPES, command, flag, shared_options, text};

pub(super) fn grammar() -> Command {
    let name = || Arg::new("name").required(true);
    let commands = [
        command("list").arg(flag("json")),
        command("enable").args([name(), text("scope")]),
        command("disable").args([name(), text("scope")]),
        command("migrate").arg(flag("from-claude")),
        command("run").alias("test").args([
            Arg::new("event").required(true),
            text("input").allow_hyphen_values(true),
            flag("json"),
        ]),
    ];
    command("hooks").alias("hook").subcommands(commands.map(|command| command.arg(flag("skip-trust"))))
}

pub(super) fn launch(root: &Given<'_>, inner: &ArgMatches) -> Result<Launch, UsageError> {
    let Some((name, matches)) = inner.subcommand() else {
        return if Given(inner).flag("help")? {
            Ok(Launch::Help(Topic::Hooks))
        } else {
            Err(UsageError::MissingSubcommand("hooks"))
        };
    };
    let given = Given(matches);
    if given.flag("help")? {
        return Ok(Launch::Help(Topic::Hooks));
    }
    let word = |name| given.text(name).unwrap_or_default().to_owned();
    let command = match name {
        "enable" => HooksCommand::Enable { name: word("name"), scope: scope(&given)? },
        "disable" => HooksCommand::Disable { name: word("name"), scope: scope(&given)? },
        // There is nothing else to migrate from yet, so the flag says nothing new.
        "migrate" => HooksCommand::Migrate,
        "run" => HooksCommand::Run {
            event: word("event"),
            input: given.text("input").map(str::to_owned),
            json: given.flag("json")?,
        },
        _ => HooksCommand::List { json: given.flag("json")? },
    };
    let mut options = shared_options(root)?;
    options.debug |= given.flag("debug")?;
    options.skip_trust |= given.flag("skip-trust")?;
    Ok(Launch::Hooks { command, options: Box::new(options) })
}

fn scope(given: &Given<'_>) -> Result<Scope, UsageError> {
    let project = given.choice("scope", SCOPES)? == Some("project");
    Ok(if project { Scope::Project } else { Scope::User })
}
