//! `pollux trust …`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};

use crate::grammar::{Given, Parsed, Root, command, flag, leaf};
use crate::usage::UsageError;

/// `pollux trust …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustCommand {
    pub action: TrustAction,
    /// The working directory if none is named.
    pub folder: Option<PathBuf>,
}

/// What to do with a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustAction {
    Show {
        json: bool,
    },
    Allow {
        /// The folder above, with all that is in it.
        parent: bool,
        /// Do not ask.
        yes: bool,
    },
    Deny,
    Diff {
        json: bool,
    },
}

pub fn grammar() -> Command {
    let folder = || Arg::new("folder");
    command("trust").subcommands([
        command("show").args([flag("json"), folder()]),
        command("allow").args([flag("parent"), flag("yes").short('y'), folder()]),
        command("deny").arg(folder()),
        command("diff").args([flag("json"), folder()]),
    ])
}

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<TrustCommand>, UsageError> {
    let Some((name, matches)) = leaf("trust", inner)? else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
    let folder = given.path("folder");
    let action = match name {
        "allow" => TrustAction::Allow { parent: given.flag("parent")?, yes: given.flag("yes")? },
        "deny" => TrustAction::Deny,
        "diff" => TrustAction::Diff { json: given.flag("json")? },
        _ => TrustAction::Show { json: given.flag("json")? },
    };
    Ok(Parsed::Run(TrustCommand { action, folder }, Box::new(root.request(&given)?)))
}
