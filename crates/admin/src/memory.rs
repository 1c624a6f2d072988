//! `pollux memory`: what is remembered beyond sessions.

mod arguments;
mod forget;
mod models;
mod notebook;
mod page;
mod results;

use std::io::Write;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{self, plain};
use serde_json::{Value, json};

pub use arguments::{Forgettable, Lines, MemoryArgs, MemoryCommand, Question, Reach};
pub use notebook::{Notebook, notebook};

use crate::context::Context;
use crate::doctor::Level;

/// What a search found.
#[derive(Debug, Clone, Default)]
pub struct SearchResults {
    pub hits: Vec<Hit>,
    /// Why there were no vectors.
    pub degraded: Option<String>,
    /// For programs: without and with what the scores are made of.
    pub json: Value,
    pub explained: Value,
}

/// A passage that was found.
#[derive(Debug, Clone, Default)]
pub struct Hit {
    pub citation: String,
    pub source: &'static str,
    /// Who wrote it.
    pub provenance: &'static str,
    pub date: Option<String>,
    pub score: f64,
    pub snippet: String,
    /// The character of the snippet at which the best match begins.
    pub focus: usize,
    /// Name and value of what the score is the sum of.
    pub parts: Vec<(&'static str, f64)>,
    pub cosine: Option<f64>,
    pub keyword: Option<f64>,
}

/// Lines of a note.
#[derive(Debug, Clone, Default)]
pub struct Passage {
    pub path: String,
    pub text: String,
    pub from: usize,
    pub lines: usize,
    pub total: usize,
    /// The line to continue at.
    pub next: Option<usize>,
    pub provenance: &'static str,
}

/// Something that was learned.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    pub category: &'static str,
    pub heading: &'static str,
    pub text: String,
    pub date: String,
    pub confidence: &'static str,
}

/// What is derived from something that is to be forgotten.
#[derive(Debug, Clone, Default)]
pub struct Traces {
    pub files: Vec<String>,
    pub chunks: usize,
    pub cache_entries: usize,
    pub transcripts: Vec<String>,
    pub learnings: usize,
    /// Sources that are the user's own and still hold it.
    pub kept: Vec<String>,
    /// Other workspaces that still hold it.
    pub elsewhere: usize,
}

/// What was looked at.
#[derive(Debug, Clone)]
pub struct Finding {
    pub level: Level,
    pub what: String,
    pub hint: Option<String>,
}

/// A model that is on this machine now.
#[derive(Debug, Clone, Default)]
pub struct Installed {
    pub name: String,
    pub folder: String,
    /// What else there is to know, such as that nothing had to be done.
    pub note: Option<String>,
}

/// A model that can be, or is, on this machine.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub name: String,
    pub about: String,
    pub installed: bool,
    pub folder: Option<String>,
}

/// Runs the command.
pub fn run(command: &MemoryCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut notebook = notebook(context.request, context.env)?;
    let done = dispatch(command, &mut notebook, context);
    context.warn(&notebook.notes());
    done
}

fn dispatch(
    command: &MemoryCommand,
    notebook: &mut Notebook,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    match command {
        MemoryCommand::Enable => show(context.out, &notebook.switch(true)?),
        MemoryCommand::Disable => show(context.out, &notebook.switch(false)?),
        MemoryCommand::Status { json } => {
            let status = notebook.status()?;
            told(context.out, *json, &status, &page::status(&status))
        }
        MemoryCommand::Index { force, json } => {
            let indexed = notebook.index(*force, context.err_is_terminal)?;
            told(context.out, *json, &page::indexed_json(&indexed), &page::indexed(&indexed))
        }
        MemoryCommand::Search { question, explain, json } => {
            let found = notebook.search(question)?;
            if *json {
                let value = if *explain { &found.explained } else { &found.json };
                return show_json(context.out, value);
            }
            if let Some(why) = &found.degraded {
                let _ = writeln!(context.err, "Keyword search only: {}", redacted(&plain(why)));
            }
            show(context.out, &results::text(&question.query, &found.hits, *explain))
        }
        MemoryCommand::Get { path, lines, json } => {
            let passage = notebook.get(path, *lines)?;
            told(context.out, *json, &page::passage_json(&passage), &page::passage(&passage))
        }
        MemoryCommand::Learnings { json } => {
            let learned = notebook.learnings()?;
            told(context.out, *json, &page::learnings_json(&learned), &page::learnings(&learned))
        }
        MemoryCommand::Forget { what, reach, yes, json } => {
            forget::run(notebook.forgetting(what, *reach)?, *yes, *json, context)
        }
        MemoryCommand::Adopt { folder } => show(context.out, &notebook.adopt(folder)?),
        MemoryCommand::Doctor { json } => {
            let findings = notebook.doctor();
            told(context.out, *json, &page::findings_json(&findings), &page::findings(&findings))?;
            match findings.iter().filter(|finding| finding.level == Level::Problem).count() {
                0 => Ok(()),
                count => Err(Failure::new(ExitKind::Failure, format!("problems found: {count}"))),
            }
        }
        MemoryCommand::Export { reach } => notebook.export(*reach, context.out),
        MemoryCommand::ModelInstall { what, json } => {
            let Installed { name, folder, note } = notebook.install_model(what, context.err_is_terminal)?;
            let value = json!({"name": name, "folder": folder, "note": note});
            let note = note.map(|note| format!("{note}\n")).unwrap_or_default();
            told(context.out, *json, &value, &format!("Installed {name} in {folder}\n{note}"))
        }
        MemoryCommand::ModelList { json } => {
            let models = notebook.models();
            told(context.out, *json, &page::models_json(&models), &page::models(&models))
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
