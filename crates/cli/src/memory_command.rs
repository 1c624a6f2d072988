//! `pollux memory`: what is remembered beyond sessions.

mod found;
mod oblivion;
mod page;

use std::io::Write;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{self, plain};
use serde_json::{Value, json};

use crate::launch::{Forgettable, Lines, MemoryCommand, Question, Reach};
use crate::sessions_command::{Proposal, Streams};
use crate::trust_command::Person;

pub(crate) use page::counted;

/// The durable memory, as this command needs it. Only what is asked for is opened.
pub(crate) trait Notebook {
    /// Switches it on or off in the user's settings; says what was done.
    fn switch(&mut self, on: bool) -> Result<String, Failure>;

    /// Everything about it, in the documented names; `enabled` is always there.
    fn status(&mut self) -> Result<Value, Failure>;

    /// Brings the index up to date.
    fn index(&mut self, force: bool) -> Result<Indexed, Failure>;

    fn search(&mut self, question: &Question) -> Result<Found, Failure>;

    fn get(&mut self, path: &str, lines: Option<Lines>) -> Result<Passage, Failure>;

    fn learnings(&mut self) -> Result<Vec<Learned>, Failure>;

    /// What would go, and the deed.
    fn forgetting(&mut self, what: &Forgettable, reach: Reach) -> Result<Proposal<Traces, Traces>, Failure>;

    fn doctor(&mut self) -> Vec<Finding>;

    /// Takes over what a folder remembered before it was moved here; says what was done.
    fn adopt(&mut self, folder: &str) -> Result<String, Failure>;

    /// One JSON document.
    fn export(&mut self, reach: Reach) -> Result<(), Failure>;

    fn install_model(&mut self, what: &str) -> Result<Installed, Failure>;

    fn models(&mut self) -> Vec<Model>;

    /// Lines for stderr about what was noticed.
    fn notes(&mut self) -> Vec<String>;
}

/// What an update of the index did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Indexed {
    pub(crate) files: usize,
    pub(crate) changed: usize,
    pub(crate) removed: usize,
    pub(crate) chunks_written: usize,
    pub(crate) chunks_removed: usize,
    pub(crate) embedded: usize,
    pub(crate) from_cache: usize,
    /// Why everything was made anew.
    pub(crate) reindexed: Option<String>,
    /// Another process is at it.
    pub(crate) busy: bool,
}

/// What a search found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub(crate) hits: Vec<Hit>,
    /// Why there were no vectors.
    pub(crate) degraded: Option<String>,
    /// For programs: without and with what the scores are made of.
    pub(crate) json: Value,
    pub(crate) explained: Value,
}

/// A passage that was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hit {
    pub(crate) citation: String,
    pub(crate) source: &'static str,
    /// Who wrote it.
    pub(crate) provenance: &'static str,
    pub(crate) date: Option<String>,
    pub(crate) score: f64,
    pub(crate) snippet: String,
    /// The character of the snippet at which the best match begins.
    pub(crate) focus: usize,
    /// Name and value of what the score is the sum of.
    pub(crate) parts: Vec<(&'static str, f64)>,
    pub(crate) cosine: Option<f64>,
    pub(crate) keyword: Option<f64>,
}

/// Lines of a note.
#[derive(Debug, Clone, Default)]
pub(crate) struct Passage {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) from: usize,
    pub(crate) lines: usize,
    pub(crate) total: usize,
    /// Where it goes on.
    pub(crate) next: Option<usize>,
    pub(crate) provenance: &'static str,
}

/// Something that was learned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Learned {
    pub(crate) category: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) text: String,
    pub(crate) date: String,
    pub(crate) confidence: &'static str,
}

/// What is derived from something that is to be forgotten.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traces {
    pub(crate) files: Vec<String>,
    pub(crate) chunks: usize,
    pub(crate) cache_entries: usize,
    pub(crate) transcripts: Vec<String>,
    pub(crate) learnings: usize,
    /// Sources that are the user's own and still hold it.
    pub(crate) kept: Vec<String>,
    /// Other workspaces that still hold it.
    pub(crate) elsewhere: usize,
}

/// What was looked at.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Ok,
    Warning,
    Problem,
}

/// A model that is on this machine now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Installed {
    pub(crate) name: String,
    pub(crate) folder: String,
    /// What else there is to know, such as that nothing had to be done.
    pub(crate) note: Option<String>,
}

/// A model that can be, or is, on this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) installed: bool,
    pub(crate) folder: Option<String>,
}

/// Runs the command.
pub(crate) fn run(
    command: &MemoryCommand,
    notebook: &mut dyn Notebook,
    person: &mut Person<'_>,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    let done = dispatch(command, notebook, person, streams);
    for note in notebook.notes() {
        // Nobody can be told when stderr is gone.
        let _ = writeln!(streams.err, "{}", redacted(&plain(&note)));
    }
    done
}

fn dispatch(
    command: &MemoryCommand,
    notebook: &mut dyn Notebook,
    person: &mut Person<'_>,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    match command {
        MemoryCommand::Enable => show(streams.out, &notebook.switch(true)?),
        MemoryCommand::Disable => show(streams.out, &notebook.switch(false)?),
        MemoryCommand::Status { json } => {
            let status = notebook.status()?;
            told(streams.out, *json, &status, &page::status(&status))
        }
        MemoryCommand::Index { force, json } => {
            let indexed = notebook.index(*force)?;
            told(streams.out, *json, &page::indexed_json(&indexed), &page::indexed(&indexed))
        }
        MemoryCommand::Search { question, explain, json } => {
            let found = notebook.search(question)?;
            if *json {
                let value = if *explain { &found.explained } else { &found.json };
                return show_json(streams.out, value);
            }
            if let Some(why) = &found.degraded {
                let _ = writeln!(streams.err, "Searched by words only: {}", redacted(&plain(why)));
            }
            show(streams.out, &found::text(&question.query, &found.hits, *explain))
        }
        MemoryCommand::Get { path, lines, json } => {
            let passage = notebook.get(path, *lines)?;
            told(streams.out, *json, &page::passage_json(&passage), &page::passage(&passage))
        }
        MemoryCommand::Learnings { json } => {
            let learned = notebook.learnings()?;
            told(streams.out, *json, &page::learnings_json(&learned), &page::learnings(&learned))
        }
        MemoryCommand::Forget { what, reach, yes, json } => {
            oblivion::run(notebook.forgetting(what, *reach)?, *yes, *json, person, streams.out)
        }
        MemoryCommand::Adopt { folder } => show(streams.out, &notebook.adopt(folder)?),
        MemoryCommand::Doctor { json } => {
            let findings = notebook.doctor();
            told(streams.out, *json, &page::findings_json(&findings), &page::findings(&findings))?;
            match findings.iter().filter(|finding| finding.level == Level::Problem).count() {
                0 => Ok(()),
                count => Err(Failure::new(ExitKind::Failure, format!("problems found: {count}"))),
            }
        }
        MemoryCommand::Export { reach } => notebook.export(*reach),
        MemoryCommand::ModelInstall { what, json } => {
            let Installed { name, folder, note } = notebook.install_model(what)?;
            let value = json!({"name": name, "folder": folder, "note": note});
            let note = note.map(|note| format!("{note}\n")).unwrap_or_default();
            told(streams.out, *json, &value, &format!("Installed {name} in {folder}\n{note}"))
        }
        MemoryCommand::ModelList { json } => {
            let models = notebook.models();
            told(streams.out, *json, &page::models_json(&models), &page::models(&models))
        }
    }
}

/// What was remembered neither steers the terminal nor spills a key.
fn show(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    print_result(out, &redacted(&plain(text)))
}

fn show_json(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    let mut value = value.clone();
    redact_value(&mut value);
    print_result(out, &terminal_text::json(format!("{value:#}\n")))
}

fn told(out: &mut dyn Write, as_json: bool, value: &Value, text: &str) -> Result<(), Failure> {
    if as_json { show_json(out, value) } else { show(out, text) }
}

#[cfg(test)]
mod tests;
