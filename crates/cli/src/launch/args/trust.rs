//! `pollux trust …`.

use clap::{Arg, ArgMatches, Command};

use super::super::help::Topic;
use super::super::usage::UsageError;
use super::super::{Launch, TrustCommand};
use super::{Given, command, flag, shared_options};

pub(super) fn grammar() -> Command {
    let folder = || Arg::new("folder");
    command("trust").subcommands([
        command("show").args([flag("json"), folder()]),
        command("allow").args([flag("parent"), flag("yes").short('y'), folder()]),
        command("deny").arg(folder()),
        command("diff").args([flag("json"), folder()]),
    ])
}

pub(super) fn launch(root: &Given<'_>, inner: &ArgMatches) -> Result<Launch, UsageError> {
    let Some((name, matches)) = inner.subcommand() else {
        return if Given(inner).flag("help")? {
            Ok(Launch::Help(Topic::Trust))
        } else {
            Err(UsageError::MissingSubcommand("trust"))
        };
    };
    let given = Given(matches);
    if given.flag("help")? {
        return Ok(Launch::Help(Topic::Trust));
    }
    let folder = given.path("folder");
    let command = match name {
        "allow" => TrustCommand::Allow { parent: given.flag("parent")?, yes: given.flag("yes")? },
        "deny" => TrustCommand::Deny,
        "diff" => TrustCommand::Diff { json: given.flag("json")? },
        _ => TrustCommand::Show { json: given.flag("json")? },
    };
    let mut options = shared_options(root)?;
    options.debug |= given.flag("debug")?;
    Ok(Launch::Trust { command, folder, options: Box::new(options) })
}
