//! `pollux sessions …`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command};
use pollux_host::sessions::{SessionSource, Wanted, Which};

use super::help;
use crate::grammar::{Given, Parsed, Root, command, flag, text};
use crate::usage::UsageError;

/// `pollux sessions …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionsCommand {
    List {
        wanted: Wanted,
        json: bool,
    },
    Show {
        which: Which,
        json: bool,
    },
    Search {
        words: String,
        wanted: Wanted,
        limit: Option<usize>,
        json: bool,
    },
    Transcript {
        which: Which,
        form: TranscriptFormat,
    },
    FindProject {
        name: String,
        json: bool,
    },
    Export {
        which: Which,
        output: PathBuf,
        /// A file that is there is replaced.
        yes: bool,
        json: bool,
    },
    Import {
        /// A file, or a session.
        what: Which,
        json: bool,
    },
    Delete {
        which: Which,
        yes: bool,
        json: bool,
    },
    Prune {
        dry_run: bool,
        yes: bool,
        json: bool,
    },
    Verify {
        repair: bool,
        json: bool,
    },
    Stats {
        json: bool,
    },
    Rewind {
        which: Which,
        /// The number of a prompt or the id of a message.
        to: String,
        what: RewindWhat,
        /// Files that others changed since are put back, too.
        overwrite: bool,
        yes: bool,
        json: bool,
    },
}

/// How a transcript is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptFormat {
    Text,
    Markdown,
    JsonLines,
}

/// What goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindWhat {
    Conversation,
    Files,
    Both,
}

impl RewindWhat {
    pub fn conversation(self) -> bool {
        self != Self::Files
    }

    pub fn files(self) -> bool {
        self != Self::Conversation
    }
}

const SOURCES: &[&str] = &["all", "gemini", "claude", "codex", "opencode"];
const FOREIGN: &[&str] = &["gemini", "claude", "codex", "opencode"];
const FORMATS: &[&str] = &["text", "markdown", "jsonl"];

pub fn grammar() -> Command {
    let one = |name: &'static str| {
        let id = Arg::new("id");
        command(name).args([id, flag("all-projects"), text("source"), flag("json")])
    };
    let yes = || flag("yes").short('y');
    let words = Arg::new("words").num_args(1..);
    command("sessions").subcommands([
        command("list").args([flag("all-projects"), text("source"), flag("subagents"), flag("json")]),
        one("show"),
        command("search").args([
            words,
            flag("this-project"),
            flag("all-projects"),
            text("source"),
            flag("subagents"),
            text("limit"),
            flag("json"),
        ]),
        one("transcript").arg(text("format").short('f')),
        command("find-project").args([Arg::new("name"), flag("json")]),
        one("export").args([text("output").short('o'), yes()]),
        one("import"),
        one("delete").arg(yes()),
        command("prune").args([flag("dry-run"), yes(), flag("json")]),
        command("verify").args([flag("repair"), flag("json")]),
        command("stats").arg(flag("json")),
        one("rewind").args([
            text("to"),
            flag("conversation"),
            flag("files"),
            flag("both"),
            flag("overwrite"),
            yes(),
        ]),
    ])
}

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<SessionsCommand>, UsageError> {
    let Some((name, matches)) = inner.subcommand() else {
        return Ok(Parsed::Help(""));
    };
    let given = Given(matches);
    if given.flag("help")? {
        return Ok(Parsed::Help(help::page(name)));
    }
    let json = || given.flag("json");
    let command = match name {
        "show" => SessionsCommand::Show { which: which(&given)?, json: json()? },
        "search" => search(&given, matches)?,
        "transcript" => SessionsCommand::Transcript { which: which(&given)?, form: form(&given)? },
        "find-project" => {
            SessionsCommand::FindProject { name: needed(&given, "name", "NAME")?, json: json()? }
        }
        "export" => SessionsCommand::Export {
            which: which(&given)?,
            output: needed(&given, "output", "--output")?.into(),
            yes: given.flag("yes")?,
            json: json()?,
        },
        "import" => SessionsCommand::Import { what: which(&given)?, json: json()? },
        "delete" => SessionsCommand::Delete { which: which(&given)?, yes: given.flag("yes")?, json: json()? },
        "prune" => {
            SessionsCommand::Prune { dry_run: given.flag("dry-run")?, yes: given.flag("yes")?, json: json()? }
        }
        "verify" => SessionsCommand::Verify { repair: given.flag("repair")?, json: json()? },
        "stats" => SessionsCommand::Stats { json: json()? },
        "rewind" => rewind(&given)?,
        _ => SessionsCommand::List {
            wanted: Wanted {
                all_projects: given.flag("all-projects")?,
                source: source(&given, SOURCES, Some(SessionSource::Gemini))?,
                subagents: given.flag("subagents")?,
                in_full: json()?,
            },
            json: json()?,
        },
    };
    Ok(Parsed::Run(command, Box::new(root.request(&given)?)))
}

/// What cannot be left out. clap would refuse it before `--help` is seen.
fn needed(given: &Given<'_>, name: &str, shown: &str) -> Result<String, UsageError> {
    let value = given.text(name).map(str::trim).filter(|value| !value.is_empty());
    value.map(str::to_owned).ok_or_else(|| UsageError::MissingValue(shown.to_owned()))
}

fn which(given: &Given<'_>) -> Result<Which, UsageError> {
    Ok(Which {
        id: needed(given, "id", "ID")?,
        all_projects: given.flag("all-projects")?,
        source: source(given, FOREIGN, None)?,
    })
}

fn source(
    given: &Given<'_>,
    choices: &'static [&'static str],
    absent: Option<SessionSource>,
) -> Result<Option<SessionSource>, UsageError> {
    Ok(match given.choice("source", choices)? {
        None => absent,
        Some("gemini") => Some(SessionSource::Gemini),
        Some("claude") => Some(SessionSource::Claude),
        Some("codex") => Some(SessionSource::Codex),
        Some("opencode") => Some(SessionSource::OpenCode),
        Some(_) => None,
    })
}

fn search(given: &Given<'_>, matches: &ArgMatches) -> Result<SessionsCommand, UsageError> {
    let words: Vec<&str> =
        matches.get_many::<String>("words").unwrap_or_default().map(String::as_str).collect();
    if words.is_empty() {
        return Err(UsageError::MissingValue("WORDS".to_owned()));
    }
    let limit = match given.text("limit").map(|text| (text, text.parse::<usize>())) {
        None => None,
        Some((_, Ok(limit))) if limit > 0 => Some(limit),
        Some((text, _)) => return Err(UsageError::NotACount { flag: "--limit", given: text.to_owned() }),
    };
    Ok(SessionsCommand::Search {
        words: words.join(" "),
        wanted: Wanted {
            all_projects: !given.flag("this-project")?,
            source: source(given, SOURCES, None)?,
            subagents: given.flag("subagents")?,
            in_full: given.flag("json")?,
        },
        limit,
        json: given.flag("json")?,
    })
}

fn form(given: &Given<'_>) -> Result<TranscriptFormat, UsageError> {
    Ok(match given.choice("format", FORMATS)? {
        Some("markdown") => TranscriptFormat::Markdown,
        Some("jsonl") => TranscriptFormat::JsonLines,
        None if given.flag("json")? => TranscriptFormat::JsonLines,
        _ => TranscriptFormat::Text,
    })
}

fn rewind(given: &Given<'_>) -> Result<SessionsCommand, UsageError> {
    let chosen = (given.flag("conversation")?, given.flag("files")?, given.flag("both")?);
    let what = match chosen {
        (true, false, false) => RewindWhat::Conversation,
        (false, true, false) => RewindWhat::Files,
        (true, true, false) | (false, false, true) => RewindWhat::Both,
        _ => return Err(UsageError::RewindWhat),
    };
    Ok(SessionsCommand::Rewind {
        which: which(given)?,
        to: needed(given, "to", "--to")?,
        what,
        overwrite: given.flag("overwrite")?,
        yes: given.flag("yes")?,
        json: given.flag("json")?,
    })
}
