//! `pollux memory …`.

use clap::{Arg, ArgMatches, Command};

use crate::grammar::{Given, Parsed, Root, command, flag, text};
use crate::usage::UsageError;

/// `pollux memory …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryCommand {
    Enable,
    Disable,
    Status {
        json: bool,
    },
    Index {
        /// Everything anew.
        force: bool,
        json: bool,
    },
    Search {
        question: Question,
        explain: bool,
        json: bool,
    },
    Get {
        path: String,
        lines: Option<Lines>,
        json: bool,
    },
    Learnings {
        json: bool,
    },
    Forget {
        what: Forgettable,
        reach: Reach,
        yes: bool,
        json: bool,
    },
    Adopt {
        /// Where the workspace was before it was moved.
        folder: String,
    },
    Doctor {
        json: bool,
    },
    Export {
        reach: Reach,
    },
    ModelInstall {
        /// A known model, or a folder.
        what: String,
        json: bool,
    },
    ModelList {
        json: bool,
    },
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub query: String,
    /// `memory` or `sessions`; both if left out.
    pub source: Option<&'static str>,
    /// `v2` or `seed`; as the settings say if left out.
    pub mode: Option<&'static str>,
    pub limit: Option<usize>,
    pub reach: Reach,
}

/// What part of an agent's memory a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// That of this workspace.
    #[default]
    Workspace,
    AllWorkspaces,
    /// What comes from no known workspace.
    Unassigned,
}

/// Lines of a file, from 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    pub first: usize,
    pub last: usize,
}

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgettable {
    Path(String),
    Session(String),
    /// These words, wherever they stand.
    Phrase(String),
}

const SOURCES: &[&str] = &["memory", "sessions"];
const SEARCH_MODES: &[&str] = &["v2", "seed"];

pub fn grammar() -> Command {
    let words = || Arg::new("query").num_args(1..);
    let commands = [
        command("enable"),
        command("disable"),
        command("status").arg(flag("json")),
        command("index").args([flag("force"), flag("json")]),
        command("search").args([
            words(),
            text("source"),
            text("mode"),
            text("limit"),
            flag("unassigned"),
            flag("explain"),
            flag("json"),
        ]),
        command("get").args([Arg::new("path"), text("lines"), flag("json")]),
        command("learnings").arg(flag("json")),
        command("forget").args([
            text("path"),
            text("session"),
            text("query"),
            flag("all-workspaces"),
            flag("unassigned"),
            flag("yes").short('y'),
            flag("json"),
        ]),
        command("doctor").arg(flag("json")),
        command("adopt").arg(Arg::new("folder")),
        command("export").args([flag("unassigned"), flag("json")]),
        command("model").subcommands([
            command("install").args([Arg::new("what"), flag("json")]),
            command("list").arg(flag("json")),
        ]),
    ];
    command("memory").subcommands(commands.map(|command| command.args([text("agent"), flag("skip-trust")])))
}

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<MemoryCommand>, UsageError> {
    let Some((name, matches)) = inner.subcommand() else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
    if given.flag("help")? {
        return Ok(Parsed::Help(""));
    }
    let json = || given.flag("json");
    let command = match name {
        "enable" => MemoryCommand::Enable,
        "disable" => MemoryCommand::Disable,
        "index" => MemoryCommand::Index { force: given.flag("force")?, json: json()? },
        "search" => MemoryCommand::Search {
            question: question(&given, matches)?,
            explain: given.flag("explain")?,
            json: json()?,
        },
        "get" => MemoryCommand::Get {
            path: needed(&given, "path", "PATH")?,
            lines: given.text("lines").map(lines).transpose()?,
            json: json()?,
        },
        "learnings" => MemoryCommand::Learnings { json: json()? },
        "forget" => {
            let (what, yes) = (forgettable(&given)?, given.flag("yes")?);
            MemoryCommand::Forget { what, reach: reach(&given)?, yes, json: json()? }
        }
        "adopt" => MemoryCommand::Adopt { folder: needed(&given, "folder", "FOLDER")? },
        "doctor" => MemoryCommand::Doctor { json: json()? },
        "export" => MemoryCommand::Export { reach: unassigned(&given)? },
        "model" => match model(matches)? {
            Some(command) => command,
            None => return Ok(Parsed::Help("")),
        },
        _ => MemoryCommand::Status { json: json()? },
    };
    let mut options = root.request(&given)?;
    options.skip_trust |= given.flag("skip-trust")?;
    if let Some(name) = given.text("agent") {
        options.overrides.push(("memory.agent".to_owned(), name.into()));
    }
    Ok(Parsed::Run(command, Box::new(options)))
}

fn model(matches: &ArgMatches) -> Result<Option<MemoryCommand>, UsageError> {
    let Some((name, inner)) = matches.subcommand() else { return Ok(None) };
    let given = Given(inner);
    if given.flag("help")? {
        return Ok(None);
    }
    let json = given.flag("json")?;
    Ok(Some(match name {
        "install" => MemoryCommand::ModelInstall { what: needed(&given, "what", "NAME|FOLDER")?, json },
        _ => MemoryCommand::ModelList { json },
    }))
}

fn unassigned(given: &Given<'_>) -> Result<Reach, UsageError> {
    Ok(if given.flag("unassigned")? { Reach::Unassigned } else { Reach::Workspace })
}

fn reach(given: &Given<'_>) -> Result<Reach, UsageError> {
    Ok(if given.flag("all-workspaces")? { Reach::AllWorkspaces } else { unassigned(given)? })
}

/// What cannot be left out. clap would refuse it before `--help` is seen.
fn needed(given: &Given<'_>, name: &str, shown: &str) -> Result<String, UsageError> {
    let value = given.text(name).map(str::trim).filter(|value| !value.is_empty());
    value.map(str::to_owned).ok_or_else(|| UsageError::MissingValue(shown.to_owned()))
}

fn question(given: &Given<'_>, matches: &ArgMatches) -> Result<Question, UsageError> {
    let words: Vec<&str> =
        matches.get_many::<String>("query").unwrap_or_default().map(String::as_str).collect();
    let query = words.join(" ").trim().to_owned();
    if query.is_empty() {
        return Err(UsageError::MissingValue("QUERY".to_owned()));
    }
    let limit = match given.text("limit").map(|text| (text, text.parse::<usize>())) {
        None => None,
        Some((_, Ok(limit))) if limit > 0 => Some(limit),
        Some((text, _)) => return Err(UsageError::NotACount { flag: "--limit", given: text.to_owned() }),
    };
    let (source, mode) = (chosen(given, "source", SOURCES)?, chosen(given, "mode", SEARCH_MODES)?);
    Ok(Question { query, source, mode, limit, reach: unassigned(given)? })
}

fn chosen(
    given: &Given<'_>,
    name: &'static str,
    choices: &'static [&'static str],
) -> Result<Option<&'static str>, UsageError> {
    let chosen = given.choice(name, choices)?;
    Ok(choices.iter().copied().find(|choice| Some(*choice) == chosen))
}

/// `3-9`, `3-` or `3`.
fn lines(given: &str) -> Result<Lines, UsageError> {
    let bad = || UsageError::NotLines(given.to_owned());
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number > 0).ok_or_else(bad);
    let lines = match given.split_once('-') {
        None => {
            let only = number(given)?;
            Lines { first: only, last: only }
        }
        Some((first, "")) => Lines { first: number(first)?, last: usize::MAX },
        Some((first, last)) => Lines { first: number(first)?, last: number(last)? },
    };
    if lines.first > lines.last { Err(bad()) } else { Ok(lines) }
}

fn forgettable(given: &Given<'_>) -> Result<Forgettable, UsageError> {
    let named = |name| given.text(name).map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned);
    match (named("path"), named("session"), named("query")) {
        (Some(path), None, None) => Ok(Forgettable::Path(path)),
        (None, Some(session), None) => Ok(Forgettable::Session(session)),
        (None, None, Some(phrase)) => Ok(Forgettable::Phrase(phrase)),
        _ => Err(UsageError::ForgetWhat),
    }
}
