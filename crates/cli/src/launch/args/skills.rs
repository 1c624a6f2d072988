//! `pollux skills …`.

use clap::{Arg, ArgMatches, Command};

use super::super::help::Topic;
use super::super::usage::UsageError;
use super::super::{Launch, SkillScope, SkillSource, SkillsCommand};
use super::{Given, command, flag, shared_options, text};

const SCOPES: &[&str] = &["user", "workspace"];

pub(super) fn grammar() -> Command {
    let word = |name: &'static str| Arg::new(name).required(true);
    let scope = || text("scope").short('s');
    let commands = [
        command("list").args([flag("all"), flag("json")]),
        command("show").args([word("name"), flag("json")]),
        command("enable").arg(word("name")),
        command("disable").args([word("name"), scope()]),
        command("install").args([word("source"), scope(), text("path"), flag("consent")]),
        command("link").args([word("source"), scope(), flag("consent")]),
        command("uninstall").args([word("name"), scope()]),
        command("validate").args([word("source"), flag("json")]),
        command("reload").alias("refresh"),
    ];
    command("skills").alias("skill").subcommands(commands.map(|command| command.arg(flag("skip-trust"))))
}

pub(super) fn launch(root: &Given<'_>, inner: &ArgMatches) -> Result<Launch, UsageError> {
    let Some((name, matches)) = inner.subcommand() else {
        return if Given(inner).flag("help")? {
            Ok(Launch::Help(Topic::Skills))
        } else {
            Err(UsageError::MissingSubcommand("skills"))
        };
    };
    let given = Given(matches);
    if given.flag("help")? {
        return Ok(Launch::Help(Topic::Skills));
    }
    let word = |name| given.text(name).unwrap_or_default().to_owned();
    let command = match name {
        "show" => SkillsCommand::Show { name: word("name"), json: given.flag("json")? },
        "enable" => SkillsCommand::Enable { name: word("name") },
        "disable" => {
            SkillsCommand::Disable { name: word("name"), scope: scope(&given, SkillScope::Workspace)? }
        }
        "install" => {
            let path = given.text("path").filter(|path| !path.is_empty()).map(str::to_owned);
            SkillsCommand::Install(SkillSource { path, ..source(&given)? })
        }
        "link" => SkillsCommand::Link(source(&given)?),
        "uninstall" => {
            SkillsCommand::Uninstall { name: word("name"), scope: scope(&given, SkillScope::User)? }
        }
        "validate" => SkillsCommand::Validate { path: word("source"), json: given.flag("json")? },
        "reload" => SkillsCommand::Reload,
        _ => SkillsCommand::List { all: given.flag("all")?, json: given.flag("json")? },
    };
    let mut options = shared_options(root)?;
    options.debug |= given.flag("debug")?;
    options.skip_trust |= given.flag("skip-trust")?;
    Ok(Launch::Skills { command, options: Box::new(options) })
}

fn source(given: &Given<'_>) -> Result<SkillSource, UsageError> {
    Ok(SkillSource {
        source: given.text("source").unwrap_or_default().to_owned(),
        scope: scope(given, SkillScope::User)?,
        path: None,
        consent: given.flag("consent")?,
    })
}

fn scope(given: &Given<'_>, otherwise: SkillScope) -> Result<SkillScope, UsageError> {
    Ok(match given.choice("scope", SCOPES)? {
        Some("user") => SkillScope::User,
        Some(_) => SkillScope::Workspace,
        None => otherwise,
    })
}
