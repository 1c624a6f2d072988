//! `pollux extensions …`.

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::super::help::Topic;
use super::super::usage::UsageError;
use super::super::{ExtensionsCommand, Launch, NewExtension, SwitchScope};
use super::{Given, command, flag, shared_options, text};

const FORMATS: &[&str] = &["text", "json"];
const SCOPES: &[&str] = &["user", "workspace"];

pub(super) fn grammar() -> Command {
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

pub(super) fn launch(root: &Given<'_>, inner: &ArgMatches) -> Result<Launch, UsageError> {
    let Some((name, matches)) = inner.subcommand() else {
        return if Given(inner).flag("help")? {
            Ok(Launch::Help(Topic::Extensions))
        } else {
            Err(UsageError::MissingSubcommand("extensions"))
        };
    };
    let given = Given(matches);
    if given.flag("help")? {
        return Ok(Launch::Help(Topic::Extensions));
    }
    let command = subcommand(name, &given)?;
    let mut options = shared_options(root)?;
    options.debug |= given.flag("debug")?;
    options.skip_trust |= given.flag("skip-trust")?;
    Ok(Launch::Extensions { command, options: Box::new(options) })
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
