//! `pollux auth …`.

use clap::{Arg, ArgMatches, Command};

use crate::grammar::{Given, Parsed, Root, command, flag, leaf};
use crate::usage::UsageError;

/// `pollux auth …`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthCommand {
    Login {
        /// The key comes on standard input.
        stdin: bool,
    },
    Logout {
        /// Sign-ins at servers, too.
        all: bool,
    },
    Status {
        json: bool,
    },
    List {
        json: bool,
    },
}

pub fn grammar() -> Command {
    // Taken only to be refused without being shown.
    let key = Arg::new("key").num_args(0..);
    command("auth").subcommands([
        command("login").args([flag("api-key-stdin"), key]),
        command("logout").arg(flag("all")),
        command("status").arg(flag("json")),
        command("list").arg(flag("json")),
    ])
}

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<AuthCommand>, UsageError> {
    let Some((name, matches)) = leaf("auth", inner)? else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
    let command = match name {
        "login" if matches.contains_id("key") => return Err(UsageError::KeyAsArgument),
        "login" => AuthCommand::Login { stdin: given.flag("api-key-stdin")? },
        "logout" => AuthCommand::Logout { all: given.flag("all")? },
        "list" => AuthCommand::List { json: given.flag("json")? },
        _ => AuthCommand::Status { json: given.flag("json")? },
    };
    Ok(Parsed::Run(command, Box::new(root.request(&given)?)))
}
