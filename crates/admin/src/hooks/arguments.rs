//! `pollux hooks …`.

use clap::{Arg, ArgMatches, Command};

use pollux_host::request::Scope;

use crate::grammar::{Given, Parsed, Root, command, flag, leaf, scope, text};
use crate::usage::UsageError;

/// `pollux hooks …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HooksCommand {
    List {
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
    /// From Claude Code's settings.
    Migrate,
    /// One event, for a try.
    Run {
        event: String,
        /// A file, or `-` for stdin; a sample if left out.
        input: Option<String>,
        json: bool,
    },
}

pub fn grammar() -> Command {
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

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<HooksCommand>, UsageError> {
    let Some((name, matches)) = leaf("hooks", inner)? else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
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
    let mut options = root.request(&given)?;
    options.skip_trust |= given.flag("skip-trust")?;
    Ok(Parsed::Run(command, Box::new(options)))
}
