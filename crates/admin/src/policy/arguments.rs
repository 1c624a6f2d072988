//! `pollux policy …`, and the flags that name policy files.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use crate::grammar::{Given, MODES, Parsed, Root, approval, command, flag, leaf, list, text};
use crate::usage::UsageError;
use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;

/// `pollux policy …`
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyCommand {
    Explain {
        call: PolicyCall,
        json: bool,
    },
    /// Every rule in force.
    List {
        view: PolicyView,
        json: bool,
    },
    /// The calls of past sessions through the rules.
    Replay {
        /// Without any: all of this project, or of all projects.
        sessions: Vec<String>,
        all_projects: bool,
        view: PolicyView,
        json: bool,
    },
    /// Without files: everything that a run would load.
    Lint {
        files: Vec<PathBuf>,
    },
    Test {
        file: PathBuf,
    },
}

/// A call that nobody makes: what would happen with it?
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyCall {
    pub tool: String,
    pub args: JsonObject,
    pub view: PolicyView,
}

/// The kind of run that a question about rules is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PolicyView {
    /// `None` for the mode a run would have.
    pub mode: Option<ApprovalMode>,
    /// Nobody can be asked.
    pub headless: bool,
}

/// Flags that are settings: lists of files or folders.
const FILES: [(&str, &str); 2] = [("policy", "policyPaths"), ("admin-policy", "adminPolicyPaths")];

/// The only MCP servers to use.
const SERVERS: &str = "allowed-mcp-server-names";

pub fn grammar() -> Command {
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
pub fn overrides(given: &Given<'_>) -> Vec<(String, Value)> {
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

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<PolicyCommand>, UsageError> {
    let Some((name, matches)) = leaf("policy", inner)? else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
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
    let mut options = root.request(&given)?;
    options.skip_trust |= given.flag("skip-trust")?;
    let allowed = given.list("allowed-tools");
    if !allowed.is_empty() {
        options.allowed_tools = allowed;
    }
    for (key, value) in overrides(&given) {
        options.overrides.retain(|(known, _)| *known != key);
        options.overrides.push((key, value));
    }
    Ok(Parsed::Run(command, Box::new(options)))
}

fn call(root: &Root<'_>, given: &Given<'_>) -> Result<PolicyCall, UsageError> {
    let args = match serde_json::from_str(given.text("args").unwrap_or_default()) {
        Ok(Value::Object(args)) => args,
        Ok(other) => return Err(UsageError::NotAnObject(format!("`{other}` is none"))),
        Err(error) => return Err(UsageError::NotAnObject(error.to_string())),
    };
    let tool = given.text("tool").unwrap_or_default().to_owned();
    Ok(PolicyCall { tool, args, view: view(root, given)? })
}

fn view(root: &Root<'_>, given: &Given<'_>) -> Result<PolicyView, UsageError> {
    let mode = match given.choice("approval-mode", MODES)? {
        Some(mode) => mode.parse().ok(),
        None => approval(&root.given)?,
    };
    Ok(PolicyView { mode, headless: given.flag("headless")? })
}

fn words(matches: &ArgMatches, name: &str) -> Vec<String> {
    matches.get_many::<String>(name).unwrap_or_default().cloned().collect()
}
