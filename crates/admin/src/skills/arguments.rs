//! `pollux skills …`.

use clap::{Arg, ArgMatches, Command};

use crate::grammar::{Given, Parsed, Root, command, flag, leaf, text};
use crate::usage::UsageError;

/// What to do with skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillsCommand {
    List {
        /// Those that are part of the program, too.
        all: bool,
        json: bool,
    },
    Show {
        name: String,
        json: bool,
    },
    Enable {
        name: String,
    },
    Disable {
        name: String,
        scope: SkillScope,
    },
    Install(SkillSource),
    Link(SkillSource),
    Uninstall {
        name: String,
        scope: SkillScope,
    },
    Validate {
        path: String,
        json: bool,
    },
    Reload,
}

/// What is installed or linked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillSource {
    pub source: String,
    pub scope: SkillScope,
    /// A folder in it.
    pub path: Option<String>,
    /// Do not ask.
    pub consent: bool,
}

/// Whose skills, or whose settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillScope {
    User,
    Workspace,
}

impl SkillScope {
    /// The word in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}

const SCOPES: &[&str] = &["user", "workspace"];

pub fn grammar() -> Command {
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

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<SkillsCommand>, UsageError> {
    let Some((name, matches)) = leaf("skills", inner)? else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
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
    let mut options = root.request(&given)?;
    options.skip_trust |= given.flag("skip-trust")?;
    Ok(Parsed::Run(command, Box::new(options)))
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
