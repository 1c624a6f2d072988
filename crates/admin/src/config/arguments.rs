//! `pollux config …`.

use clap::{Arg, ArgMatches, Command};

use pollux_host::request::Scope;

use crate::grammar::{Given, Parsed, Root, command, flag, leaf, scope, text};
use crate::usage::UsageError;

/// `pollux config …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigCommand {
    Show { origin: bool, json: bool },
    Get { key: String },
    Set { key: String, value: String, scope: Scope },
}

pub fn grammar() -> Command {
    command("config").subcommands([
        command("show").args([flag("origin"), flag("json")]),
        command("get").arg(Arg::new("key").required(true)),
        command("set").args([
            Arg::new("key").required(true),
            Arg::new("value").required(true).allow_hyphen_values(true),
            text("scope"),
        ]),
    ])
}

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<ConfigCommand>, UsageError> {
    let Some((name, matches)) = leaf("config", inner)? else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
    // A value may begin with a dash, and nobody sets one to this.
    if name == "set" && matches!(given.text("value"), Some("--help" | "-h")) {
        return Ok(Parsed::Help(""));
    }
    let text = |name| given.text(name).unwrap_or_default().to_owned();
    let command = match name {
        "get" => ConfigCommand::Get { key: text("key") },
        "set" => ConfigCommand::Set { key: text("key"), value: text("value"), scope: scope(&given)? },
        _ => ConfigCommand::Show { origin: given.flag("origin")?, json: given.flag("json")? },
    };
    Ok(Parsed::Run(command, Box::new(root.request(&given)?)))
}
