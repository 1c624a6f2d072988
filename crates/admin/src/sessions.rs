//! `pollux sessions`: list, search, export, import, delete and rewind sessions.

mod archive;
mod arguments;
mod check;
mod details;
mod going_back;
mod incoming;
mod list;
mod page;
mod receipt;
mod removal;
mod rewind;
mod search;

use std::io::Write;
use std::path::PathBuf;

use pollux_domain::failure::{Failure, print_result};
use pollux_domain::terminal_text;
use pollux_domain::time::Timestamp;
use serde_json::{Value, json};

use pollux_host::sessions::{Proposal, Removal, Removals, Removed, SessionRow};

pub use archive::{Archive, archive};
pub use arguments::{RewindWhat, SessionsArgs, SessionsCommand, TranscriptFormat};

use crate::context::Context;

/// One session at length.
#[derive(Debug, Clone, Default)]
pub struct Details {
    pub row: SessionRow,
    /// Name and value, in the order in which they are shown.
    pub facts: Vec<(&'static str, String)>,
    pub prompts: Vec<Prompt>,
    pub subagents: Vec<SessionRow>,
}

/// A prompt of the user.
#[derive(Debug, Clone)]
pub struct Prompt {
    pub id: String,
    pub text: String,
    pub time: Option<Timestamp>,
}

/// A message that was found.
#[derive(Debug, Clone)]
pub struct Hit {
    pub session: SessionRow,
    pub role: &'static str,
    pub message: String,
    pub time: Option<Timestamp>,
    pub age: String,
    pub snippet: String,
    /// Bytes of the snippet.
    pub matches: Vec<std::ops::Range<usize>>,
}

/// A project that fits a name.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub root: PathBuf,
    pub matched: &'static str,
    pub proof: &'static str,
    /// The path is a guess.
    pub inferred: bool,
    pub folders: Vec<PathBuf>,
    pub sessions: Vec<SessionRow>,
}

/// A session that is new in this project.
#[derive(Debug, Clone)]
pub struct Imported {
    pub id: String,
    pub file: PathBuf,
    pub from: String,
    pub messages: usize,
}

/// A session file that was looked at.
#[derive(Debug, Clone)]
pub struct Checked {
    pub file: PathBuf,
    pub id: Option<String>,
    pub messages: usize,
    pub problems: Vec<Problem>,
    /// The copy that was kept before a repair.
    pub backup: Option<PathBuf>,
    pub solved: Vec<String>,
    pub not_repaired: Option<String>,
}

/// What is wrong with a file.
#[derive(Debug, Clone)]
pub struct Problem {
    pub text: String,
    /// Something of the conversation cannot be read, or a program could stumble over it.
    pub is_damage: bool,
    pub is_repairable: bool,
}

/// Sums.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    pub sessions: u64,
    pub by_source: Vec<(&'static str, u64)>,
    pub projects: usize,
    pub messages: u64,
    pub tool_calls: u64,
    pub errors: u64,
    pub tokens: u64,
    pub bytes: u64,
    pub index: Option<(PathBuf, u64)>,
}

/// What a rewind would do.
#[derive(Debug, Clone, Default)]
pub struct WayBack {
    pub session: String,
    pub message: String,
    pub prompt: String,
    /// How many messages go; `None` if the conversation stays.
    pub messages: Option<usize>,
    pub files: Option<FileSteps>,
}

/// What would happen to files.
#[derive(Debug, Clone, Default)]
pub struct FileSteps {
    pub root: PathBuf,
    /// Action and path.
    pub steps: Vec<(&'static str, PathBuf)>,
    /// Path and why it stays as it is.
    pub conflicts: Vec<(PathBuf, String)>,
    pub lost: Vec<(PathBuf, String)>,
    /// Without a journal: only edits recorded in the session are known.
    pub from_diffs: bool,
}

/// What a rewind did.
#[derive(Debug, Clone, Default)]
pub struct Rewound {
    pub messages: usize,
    pub restored: usize,
    /// Path and why it stayed.
    pub kept: Vec<(PathBuf, String)>,
    pub failed: Vec<(PathBuf, String)>,
}

/// Runs the command.
pub fn run(command: &SessionsCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut archive = archive(context.request, context.env, context.err_is_terminal)?;
    let done = dispatch(command, &mut archive, context);
    for note in archive.notes() {
        // A closed stderr cannot be reported.
        let _ = writeln!(context.err, "{}", terminal_text::plain(&note));
    }
    done
}

fn dispatch(
    command: &SessionsCommand,
    archive: &mut Archive,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    match command {
        SessionsCommand::List { wanted, json } => {
            let rows = archive.list(wanted)?;
            if *json {
                return print_json(context.out, &Value::Array(rows.iter().map(list::json).collect()));
            }
            print_result(context.out, &list::text(&rows, wanted, context.out_is_terminal))
        }
        SessionsCommand::Show { which, json } => {
            let details = archive.details(which)?;
            if *json {
                return print_json(context.out, &page::json(&details));
            }
            print_result(context.out, &page::text(&details))
        }
        SessionsCommand::Search { words, wanted, limit, json } => {
            let hits = archive.search(words, wanted, *limit)?;
            search::print(words, &hits, *json, context)
        }
        SessionsCommand::Transcript { which, form } => archive.transcript(which, *form, context.out),
        SessionsCommand::FindProject { name, json } => {
            search::print_projects(name, &archive.find_project(name), *json, context.out)
        }
        SessionsCommand::Export { which, output, yes, json } => {
            let record = archive.record(which)?;
            let file = archive.write(output, &format!("{record:#}\n"), *yes)?;
            let id = record.get("sessionId").and_then(Value::as_str).unwrap_or_default();
            told(
                context.out,
                *json,
                json!({"sessionId": id, "file": file}),
                &format!("Exported session {} to {}", shown(id), shown(&file.to_string_lossy())),
            )
        }
        SessionsCommand::Import { what, json } => {
            let Imported { id, file, from, messages } = archive.import(what)?;
            told(
                context.out,
                *json,
                json!({"sessionId": id, "file": file, "from": from, "messages": messages}),
                &format!(
                    "Imported {} as session {id} ({messages} messages)\nResume with: pollux --resume {id}",
                    shown(&from)
                ),
            )
        }
        SessionsCommand::Delete { which, yes, json } => {
            removal::delete(archive.deletion(which)?, *yes, *json, context)
        }
        SessionsCommand::Prune { dry_run, yes, json } => {
            removal::prune(archive.pruning()?, *dry_run, *yes, *json, context)
        }
        SessionsCommand::Verify { receipt: Some(file), .. } => {
            let file = context.env.cwd().join(file);
            let text = receipt::verify(archive, &file)?;
            print_result(context.out, &shown(&text))
        }
        SessionsCommand::Verify { repair, json, .. } => {
            check::print(&archive.verify(*repair), *repair, *json, context.out)
        }
        SessionsCommand::Stats { json } => check::statistics(&archive.statistics(), *json, context.out),
        SessionsCommand::Rewind { which, to, what, overwrite, yes, json } => {
            let proposal = archive.rewind(which, to, *what, *overwrite)?;
            rewind::run(proposal, *yes, *json, context)
        }
    }
}

/// A text of others on one line.
fn shown(text: &str) -> String {
    terminal_text::one_line(text)
}

fn print_json(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    print_result(out, &terminal_text::json(format!("{value:#}\n")))
}

fn told(out: &mut dyn Write, as_json: bool, value: Value, text: &str) -> Result<(), Failure> {
    if as_json { print_json(out, &value) } else { print_result(out, &format!("{text}\n")) }
}
