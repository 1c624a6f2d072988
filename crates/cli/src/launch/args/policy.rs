//! `pollux policy …`, and the flags that name policy files.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use super::super::help::Topic;
use super::super::usage::UsageError;
use super::super::{Launch, PolicyCall, PolicyCommand};
use super::{Given, MODES, approval, command, flag, list, shared_options, text};

/// Flags that are settings: lists of files or folders.
const FILES: [(&str, &str); 2] = [("policy", "policyPaths"), ("admin-policy", "adminPolicyPaths")];

pub(super) fn grammar() -> Command {
    let explain = command("explain").args([
        text("tool").required(true),
        text("args").required(true),
        text("approval-mode"),
        flag("headless"),
        flag("json"),
    ]);
    let test = command("test").arg(Arg::new("file").required(true));
    let lint = command("lint").arg(Arg::new("files").num_args(0..));
    let commands = [(explain, 1..=usize::MAX), (test, 1..=1), (lint, 1..=1)];
    // Only `explain` has no words of its own that a list could swallow.
    command("policy").subcommands(commands.map(|(command, many)| {
        command.arg(flag("skip-trust")).args(FILES.map(|(name, _)| list(name).num_args(many.clone())))
    }))
}

/// What `--policy` and `--admin-policy` set.
pub(super) fn overrides(given: &Given<'_>) -> Vec<(String, Value)> {
    let lists = FILES.into_iter().map(|(name, key)| (key, given.list(name)));
    let named = lists.map(|(key, files)| {
        let files: Vec<String> = files.into_iter().filter(|file| !file.is_empty()).collect();
        (key, files)
    });
    let given = named.filter(|(_, files)| !files.is_empty());
    given.map(|(key, files)| (key.to_owned(), json!(files))).collect()
}

pub(super) fn launch(root: &Given<'_>, inner: &ArgMatches) -> Result<Launch, UsageError> {
    let Some((name, matches)) = inner.subcommand() else {
        return if Given(inner).flag("help")? {
            Ok(Launch::Help(Topic::Policy))
        } else {
            Err(UsageError::MissingSubcommand("policy"))
        };
    };
    let given = Given(matches);
    if given.flag("help")? {
        return Ok(Launch::Help(Topic::Policy));
    }
    let command = match name {
        "explain" => PolicyCommand::Explain { call: call(root, &given)?, json: given.flag("json")? },
        "test" => PolicyCommand::Test { file: given.path("file").unwrap_or_default() },
        _ => {
            let files = matches.get_many::<String>("files").unwrap_or_default();
            PolicyCommand::Lint { files: files.map(PathBuf::from).collect() }
        }
    };
    let mut options = shared_options(root)?;
    options.debug |= given.flag("debug")?;
    options.skip_trust |= given.flag("skip-trust")?;
    for (key, value) in overrides(&given) {
        options.overrides.retain(|(known, _)| *known != key);
        options.overrides.push((key, value));
    }
    Ok(Launch::Policy { command, options: Box::new(options) })
}

fn call(root: &Given<'_>, given: &Given<'_>) -> Result<PolicyCall, UsageError> {
    let args = match serde_json::from_str(given.text("args").unwrap_or_default()) {
        Ok(Value::Object(args)) => args,
        Ok(other) => return Err(UsageError::NotAnObject(format!("`{other}` is none"))),
        Err(error) => return Err(UsageError::NotAnObject(error.to_string())),
    };
    let mode = match given.choice("approval-mode", MODES)? {
        Some(mode) => mode.parse().ok(),
        None => approval(root)?,
    };
    let tool = given.text("tool").unwrap_or_default().to_owned();
    Ok(PolicyCall { tool, args, mode, headless: given.flag("headless")? })
}
