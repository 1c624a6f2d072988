//! `pollux auth …`.

use clap::{Arg, ArgMatches, Command};

use super::super::help::Topic;
use super::super::usage::UsageError;
use super::super::{AuthCommand, Launch};
use super::{Given, command, flag, shared_options};

pub(super) fn grammar() -> Command {
    // Taken only to be refused without being shown.
    let key = Arg::new("key").num_args(0..);
    command("auth").subcommands([
        command("login").args([flag("api-key-stdin"), key]),
        command("logout").arg(flag("all")),
        command("status").arg(flag("json")),
        command("list").arg(flag("json")),
    ])
}

pub(super) fn launch(root: &Given<'_>, inner: &ArgMatches) -> Result<Launch, UsageError> {
    let Some((name, matches)) = inner.subcommand() else {
        return if Given(inner).flag("help")? {
            Ok(Launch::Help(Topic::Auth))
        } else {
            Err(UsageError::MissingSubcommand("auth"))
        };
    };
    let given = Given(matches);
    if given.flag("help")? {
        return Ok(Launch::Help(Topic::Auth));
    }
    let command = match name {
        "login" if matches.contains_id("key") => return Err(UsageError::KeyAsArgument),
        "login" => AuthCommand::Login { stdin: given.flag("api-key-stdin")? },
        "logout" => AuthCommand::Logout { all: given.flag("all")? },
        "list" => AuthCommand::List { json: given.flag("json")? },
        _ => AuthCommand::Status { json: given.flag("json")? },
    };
    let mut options = shared_options(root)?;
    options.debug |= given.flag("debug")?;
    Ok(Launch::Auth { command, options: Box::new(options) })
}
