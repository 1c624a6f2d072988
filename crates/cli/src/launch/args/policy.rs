//! `pollux policy …`, and the flags that name policy files.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use super::super::help::Topic;
use super::super::usage::UsageError;
use super::super::{Launch, PolicyCall, PolicyCommand, PolicyView};
use super::{Given, MODES, approval, command, flag, list, shared_options, text};

/// Flags that are settings: lists of files or folders.
const FILES: [(&str, &str); 2] = [("policy", "policyPaths"), ("admin-policy", "adminPolicyPaths")];

/// The only MCP servers to use.
const SERVERS: &str = "allowed-mcp-server-names";

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
    let rows = command("list").args([text("approval-mode"), flag("headless"), flag("json")]);
    let replay = command("replay").arg(Arg::new("sessions").num_args(0..)).args([
        text("approval-mode"),
        flag("headless"),
        flag("json"),
        flag("all-projects"),
    ]);
    let any = 1..=usize::MAX;
    let commands = [(explain, any.clone()), (rows, any), (replay, 1..=1), (test, 1..=1), (lint, 1..=1)];
    // Only the first two have no words of their own that a list could swallow.
    command("policy").subcommands(commands.map(|(command, many)| {
        command
            .arg(flag("skip-trust"))
            .args(FILES.map(|(name, _)| list(name).num_args(many.clone())))
            .args([list("allowed-tools"), list(SERVERS)])
    }))
}

/// What `--policy`, `--admin-policy` and `--allowed-mcp-server-names` set.
pub(super) fn overrides(given: &Given<'_>) -> Vec<(String, Value)> {
    let lists = FILES.into_iter().map(|(name, key)| (key, given.list(name)));
    let named = lists.map(|(key, files)| {
        let files: Vec<String> = files.into_iter().filter(|file| !file.is_empty()).collect();
        (key, files)
    });
    let named_files = named.filter(|(_, files)| !files.is_empty());
    let mut set: Vec<(String, Value)> =
        named_files.map(|(key, files)| (key.to_owned(), json!(files))).collect();
    let servers = given.list(SERVERS);
    if !servers.is_empty() {
        // As upstream: the flag stands in the place of both lists.
        set.push(("mcp.allowed".to_owned(), json!(servers)));
        set.push(("mcp.excluded".to_owned(), json!([])));
    }
    set
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
        "list" => PolicyCommand::List { view: view(root, &given)?, json: given.flag("json")? },
        "replay" => PolicyCommand::Replay {
            sessions: words(matches, "sessions"),
            all_projects: given.flag("all-projects")?,
            view: view(root, &given)?,
            json: given.flag("json")?,
        },
        "test" => PolicyCommand::Test { file: given.path("file").unwrap_or_default() },
        _ => PolicyCommand::Lint { files: words(matches, "files").into_iter().map(PathBuf::from).collect() },
    };
    let mut options = shared_options(root)?;
    options.debug |= given.flag("debug")?;
    options.skip_trust |= given.flag("skip-trust")?;
    let allowed = given.list("allowed-tools");
    if !allowed.is_empty() {
        options.allowed_tools = allowed;
    }
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
    let tool = given.text("tool").unwrap_or_default().to_owned();
    Ok(PolicyCall { tool, args, view: view(root, given)? })
}

fn view(root: &Given<'_>, given: &Given<'_>) -> Result<PolicyView, UsageError> {
    let mode = match given.choice("approval-mode", MODES)? {
        Some(mode) => mode.parse().ok(),
        None => approval(root)?,
    };
    Ok(PolicyView { mode, headless: given.flag("headless")? })
}

fn words(matches: &ArgMatches, name: &str) -> Vec<String> {
    matches.get_many::<String>(name).unwrap_or_default().cloned().collect()
}
