//! `pollux sessions`: finding, reading, keeping and taking back what was said and done.

mod check;
mod list;
mod page;
mod removal;
mod rewind;
mod search;

use std::io::Write;
use std::path::PathBuf;

use pollux_domain::exit::ExitKind;
use pollux_domain::terminal_text;
use pollux_domain::time::Timestamp;
use serde_json::{Value, json};

pub(crate) use pollux_host::sessions::{Proposal, Removal, Removals, Removed, Row};
use pollux_host::sessions::{Wanted, Which};

use crate::launch::{SessionsCommand, TranscriptFormat};
use crate::trust_command::Person;
use pollux_domain::failure::{Failure, print_result};

/// All sessions of this machine's user. Only [`Proposal::carry_out`], imports and repairs change anything.
pub(crate) trait Archive {
    fn list(&mut self, wanted: &Wanted) -> Result<Vec<Row>, Failure>;

    fn details(&mut self, which: &Which) -> Result<Details, Failure>;

    fn search(&mut self, words: &str, wanted: &Wanted, limit: Option<usize>) -> Result<Vec<Hit>, Failure>;

    fn transcript(
        &mut self,
        which: &Which,
        form: TranscriptFormat,
        out: &mut dyn Write,
    ) -> Result<(), Failure>;

    /// The projects that fit, best first.
    fn find_project(&mut self, name: &str) -> Vec<Candidate>;

    /// The whole record of a session.
    fn record(&mut self, which: &Which) -> Result<Value, Failure>;

    /// Writes a text into a file; `replace` says what happens to one that is there.
    fn write(&self, file: &std::path::Path, text: &str, replace: bool) -> Result<PathBuf, Failure>;

    /// Copies a file or a session into a session of this project.
    fn import(&mut self, what: &Which) -> Result<Imported, Failure>;

    fn deletion(&mut self, which: &Which) -> Result<Proposal<Removals, Removed>, Failure>;

    fn pruning(&mut self) -> Result<Proposal<Removals, Removed>, Failure>;

    fn verify(&mut self, repair: bool) -> Vec<Checked>;

    fn statistics(&mut self) -> Statistics;

    fn rewind(
        &mut self,
        which: &Which,
        to: &str,
        what: crate::launch::RewindWhat,
        overwrite: bool,
    ) -> Result<Proposal<WayBack, Rewound>, Failure>;

    /// Lines for stderr about what was passed over.
    fn notes(&mut self) -> Vec<String>;
}

/// One session at length.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    pub(crate) row: Row,
    /// Name and value, in the order in which they are shown.
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) subagents: Vec<Row>,
}

/// Something a person asked for.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) time: Option<Timestamp>,
}

/// A message that was found.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    pub(crate) session: Row,
    pub(crate) role: &'static str,
    pub(crate) message: String,
    pub(crate) time: Option<Timestamp>,
    pub(crate) age: String,
    pub(crate) snippet: String,
    /// Bytes of the snippet.
    pub(crate) matches: Vec<std::ops::Range<usize>>,
}

/// A project that fits a name.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) root: PathBuf,
    pub(crate) matched: &'static str,
    pub(crate) proof: &'static str,
    /// The path is a guess.
    pub(crate) inferred: bool,
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) sessions: Vec<Row>,
}

/// A session that is new in this project.
#[derive(Debug, Clone)]
pub(crate) struct Imported {
    pub(crate) id: String,
    pub(crate) file: PathBuf,
    pub(crate) from: String,
    pub(crate) messages: usize,
}

/// A session file that was looked at.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub(crate) file: PathBuf,
    pub(crate) id: Option<String>,
    pub(crate) messages: usize,
    pub(crate) problems: Vec<Problem>,
    /// The copy that was kept before a repair.
    pub(crate) backup: Option<PathBuf>,
    pub(crate) solved: Vec<String>,
    pub(crate) not_repaired: Option<String>,
}

/// What is wrong with a file.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) text: String,
    /// Something of the conversation cannot be read, or a program could stumble over it.
    pub(crate) is_damage: bool,
    pub(crate) is_repairable: bool,
}

/// Sums.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statistics {
    pub(crate) sessions: u64,
    pub(crate) by_source: Vec<(&'static str, u64)>,
    pub(crate) projects: usize,
    pub(crate) messages: u64,
    pub(crate) tool_calls: u64,
    pub(crate) errors: u64,
    pub(crate) tokens: u64,
    pub(crate) bytes: u64,
    pub(crate) index: Option<(PathBuf, u64)>,
}

/// What a rewind would do.
#[derive(Debug, Clone, Default)]
pub(crate) struct WayBack {
    pub(crate) session: String,
    pub(crate) message: String,
    pub(crate) prompt: String,
    /// How many messages go; `None` if the conversation stays.
    pub(crate) messages: Option<usize>,
    pub(crate) files: Option<FileSteps>,
}

/// What would happen to files.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileSteps {
    pub(crate) root: PathBuf,
    /// Action and path.
    pub(crate) steps: Vec<(&'static str, PathBuf)>,
    /// Path and why it stays as it is.
    pub(crate) conflicts: Vec<(PathBuf, String)>,
    pub(crate) lost: Vec<(PathBuf, String)>,
    /// There is no journal: only edits that the session recorded are known.
    pub(crate) from_diffs: bool,
}

/// What a rewind did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rewound {
    pub(crate) messages: usize,
    pub(crate) restored: usize,
    /// Path and why it stayed.
    pub(crate) kept: Vec<(PathBuf, String)>,
    pub(crate) failed: Vec<(PathBuf, String)>,
}

/// Where the command speaks.
pub(crate) struct Streams<'a> {
    pub(crate) out: &'a mut dyn Write,
    pub(crate) err: &'a mut dyn Write,
    /// Stdout is a terminal.
    pub(crate) terminal: bool,
    /// Matches may be bold.
    pub(crate) bold: bool,
}

/// Runs the command.
pub(crate) fn run(
    command: &SessionsCommand,
    archive: &mut dyn Archive,
    person: &mut Person<'_>,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    let done = dispatch(command, archive, person, streams);
    for note in archive.notes() {
        // Nobody can be told when stderr is gone.
        let _ = writeln!(streams.err, "{}", terminal_text::plain(&note));
    }
    done
}

fn dispatch(
    command: &SessionsCommand,
    archive: &mut dyn Archive,
    person: &mut Person<'_>,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    match command {
        SessionsCommand::List { wanted, json } => {
            let rows = archive.list(wanted)?;
            if *json {
                return print_json(streams.out, &Value::Array(rows.iter().map(list::json).collect()));
            }
            print_result(streams.out, &list::text(&rows, wanted, streams.terminal))
        }
        SessionsCommand::Show { which, json } => {
            let details = archive.details(which)?;
            if *json {
                return print_json(streams.out, &page::json(&details));
            }
            print_result(streams.out, &page::text(&details))
        }
        SessionsCommand::Search { words, wanted, limit, json } => {
            let hits = archive.search(words, wanted, *limit)?;
            search::print(words, &hits, *json, streams)
        }
        SessionsCommand::Transcript { which, form } => archive.transcript(which, *form, streams.out),
        SessionsCommand::FindProject { name, json } => {
            search::print_projects(name, &archive.find_project(name), *json, streams.out)
        }
        SessionsCommand::Export { which, output, yes, json } => {
            let record = archive.record(which)?;
            let file = archive.write(output, &format!("{record:#}\n"), *yes)?;
            let id = record.get("sessionId").and_then(Value::as_str).unwrap_or_default();
            told(
                streams.out,
                *json,
                json!({"sessionId": id, "file": file}),
                &format!("Exported session {} to {}", shown(id), shown(&file.to_string_lossy())),
            )
        }
        SessionsCommand::Import { what, json } => {
            let Imported { id, file, from, messages } = archive.import(what)?;
            told(
                streams.out,
                *json,
                json!({"sessionId": id, "file": file, "from": from, "messages": messages}),
                &format!(
                    "Imported {} as session {id} ({messages} messages)\nGo on with: pollux --resume {id}",
                    shown(&from)
                ),
            )
        }
        SessionsCommand::Delete { which, yes, json } => {
            removal::delete(archive.deletion(which)?, *yes, *json, person, streams.out)
        }
        SessionsCommand::Prune { dry_run, yes, json } => {
            removal::prune(archive.pruning()?, *dry_run, *yes, *json, person, streams.out)
        }
        SessionsCommand::Verify { repair, json } => {
            check::print(&archive.verify(*repair), *repair, *json, streams.out)
        }
        SessionsCommand::Stats { json } => check::statistics(&archive.statistics(), *json, streams.out),
        SessionsCommand::Rewind { which, to, what, overwrite, yes, json } => {
            let proposal = archive.rewind(which, to, *what, *overwrite)?;
            rewind::run(proposal, *yes, *json, person, streams.out)
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

/// Whether it may be done: `--yes`, or a person's word.
pub(crate) fn agreed(yes: bool, question: &str, plan: &str, person: &mut Person<'_>) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !person.at_terminal {
        let text = format!("{plan}\nNobody can be asked, because this is no terminal; nothing was changed.");
        return Err(Failure::new(ExitKind::Input, text).hint("`--yes` does it without a question"));
    }
    let asked = format!("{plan}\n{question} [y/N] ");
    let mut answer = String::new();
    let written = person.screen.write_all(asked.as_bytes()).and_then(|()| person.screen.flush());
    let read = written.and_then(|()| person.input.read_line(&mut answer));
    if read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::new(ExitKind::Failure, "Nothing was changed."))
}
