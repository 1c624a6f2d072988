//! `pollux extensions …`.

use clap::{Arg, ArgAction, ArgMatches, Command};
use pollux_host::extension_set::{NewExtension, SwitchScope};

use crate::grammar::{Given, Parsed, Root, command, flag, leaf, text};
use crate::usage::UsageError;

/// What to do with extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtensionsCommand {
    Install(NewExtension),
    /// Used where it lies.
    Link {
        path: String,
        consent: bool,
    },
    Uninstall {
        names: Vec<String>,
        all: bool,
    },
    /// `None` for all.
    Update {
        name: Option<String>,
    },
    Switch {
        name: String,
        on: bool,
        scope: SwitchScope,
    },
    List {
        json: bool,
    },
    /// `--list-extensions`
    Names,
    New {
        path: String,
        template: Option<String>,
    },
    Validate {
        path: String,
    },
    Config {
        name: Option<String>,
        setting: Option<String>,
        workspace: bool,
    },
}

const FORMATS: &[&str] = &["text", "json"];
const SCOPES: &[&str] = &["user", "workspace"];

pub fn grammar() -> Command {
    let word = |name: &'static str| Arg::new(name).required(true);
    let words = |name: &'static str| Arg::new(name).num_args(0..).action(ArgAction::Append);
    let commands = [
        command("install").args([
            word("source"),
            text("ref"),
            flag("auto-update"),
            flag("pre-release"),
            flag("consent"),
            flag("skip-settings"),
        ]),
        command("link").args([word("path"), flag("consent")]),
        command("uninstall").args([words("names"), flag("all")]),
        command("update").args([Arg::new("name"), flag("all")]),
        command("enable").args([word("name"), text("scope")]),
        command("disable").args([word("name"), text("scope")]),
        command("list").args([text("output-format").short('o'), flag("json")]),
        command("new").args([word("path"), Arg::new("template")]),
        command("validate").arg(word("path")),
        command("config").args([Arg::new("name"), Arg::new("setting"), text("scope")]),
    ];
    command("extensions")
        .alias("extension")
        .subcommands(commands.map(|command| command.arg(flag("skip-trust"))))
}

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<ExtensionsCommand>, UsageError> {
    let Some((name, matches)) = leaf("extensions", inner)? else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
    let command = subcommand(name, &given)?;
    let mut options = root.request(&given)?;
    options.skip_trust |= given.flag("skip-trust")?;
    Ok(Parsed::Run(command, Box::new(options)))
}

fn subcommand(name: &str, given: &Given<'_>) -> Result<ExtensionsCommand, UsageError> {
    let word = |name| given.text(name).unwrap_or_default().to_owned();
    let maybe = |name| given.text(name).map(str::to_owned);
    Ok(match name {
        "install" => ExtensionsCommand::Install(NewExtension {
            source: word("source"),
            reference: maybe("ref"),
            auto_update: given.flag("auto-update")?,
            pre_release: given.flag("pre-release")?,
            consent: given.flag("consent")?,
            skip_settings: given.flag("skip-settings")?,
        }),
        "link" => ExtensionsCommand::Link { path: word("path"), consent: given.flag("consent")? },
        "uninstall" => {
            let names: Vec<String> =
                given.0.get_many::<String>("names").into_iter().flatten().cloned().collect();
            let all = given.flag("all")?;
            if names.is_empty() && !all {
                return Err(UsageError::NoExtension);
            }
            ExtensionsCommand::Uninstall { names, all }
        }
        "update" => match (maybe("name"), given.flag("all")?) {
            (Some(_), true) | (None, false) => return Err(UsageError::NoExtension),
            (name, _) => ExtensionsCommand::Update { name },
        },
        "enable" => ExtensionsCommand::Switch { name: word("name"), on: true, scope: scope(given)? },
        "disable" => ExtensionsCommand::Switch { name: word("name"), on: false, scope: scope(given)? },
        "new" => ExtensionsCommand::New { path: word("path"), template: maybe("template") },
        "validate" => ExtensionsCommand::Validate { path: word("path") },
        "config" => ExtensionsCommand::Config {
            name: maybe("name"),
            setting: maybe("setting"),
            workspace: given.choice("scope", SCOPES)? == Some("workspace"),
        },
        _ => {
            let json = given.choice("output-format", FORMATS)? == Some("json") || given.flag("json")?;
            ExtensionsCommand::List { json }
        }
    })
}

/// Upper case counts like lower case, and is said back as it was typed.
fn scope(given: &Given<'_>) -> Result<SwitchScope, UsageError> {
    let Some(typed) = given.text("scope") else { return Ok(SwitchScope::Unsaid) };
    match typed.to_ascii_lowercase().as_str() {
        "user" => Ok(SwitchScope::User(typed.to_owned())),
        "workspace" => Ok(SwitchScope::Workspace(typed.to_owned())),
        _ => Err(UsageError::NotAChoice { argument: "scope", given: typed.to_owned(), choices: SCOPES }),
    }
}
