//! `pollux hooks`: which hooks there are, and what they would do.

mod page;
mod trial;

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use pollux_domain::JsonObject;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::{self, plain};
use pollux_host::request::Scope;
use serde_json::Value;

use crate::launch::HooksCommand;

pub(crate) use trial::{Outcome, Trial, TrialRun};

/// Largest input that is read, in bytes.
const MAX_INPUT: u64 = 16 * 1024 * 1024;

/// One hook.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) event: &'static str,
    pub(crate) name: Option<String>,
    pub(crate) command: String,
    /// `project`, `user`, `system` or `extension NAME`.
    pub(crate) source: String,
    pub(crate) matcher: Option<String>,
    pub(crate) sequential: bool,
    pub(crate) timeout_ms: u128,
    pub(crate) description: Option<String>,
    pub(crate) required: bool,
    pub(crate) enabled: bool,
    pub(crate) file: String,
    pub(crate) key: String,
}

/// The hooks of a run, as this command needs them.
pub(crate) trait HookSet {
    /// Lines about what was found on the way to them, for stderr.
    fn notes(&self) -> &[String];

    /// In the order in which they run.
    fn rows(&self) -> Vec<Row>;

    /// Whether hooks run at all.
    fn is_enabled(&self) -> bool;

    /// What is wrong with definitions, a line each.
    fn problems(&self) -> Vec<String>;

    /// Switches a hook on or off; says what was done.
    fn switch(&mut self, name: &str, on: bool, scope: Scope) -> Result<String, Failure>;

    /// Takes over the hooks of Claude Code; says what was done.
    fn migrate(&mut self) -> Result<String, Failure>;

    /// Runs the hooks of one event with a sample input, over which the given one is laid.
    fn run(&self, event: &str, input: JsonObject) -> Result<Trial, Failure>;
}

/// Runs the command; the result goes to `out`. Paths are relative to `here`.
pub(crate) fn run(
    command: &HooksCommand,
    hooks: &mut dyn HookSet,
    here: &Path,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match command {
        HooksCommand::List { json } => {
            if *json {
                return show_json(out, &page::json(hooks));
            }
            warn_of_problems(hooks);
            show(out, &page::text(hooks))
        }
        HooksCommand::Enable { name, scope } => show(out, &hooks.switch(name, true, *scope)?),
        HooksCommand::Disable { name, scope } => show(out, &hooks.switch(name, false, *scope)?),
        HooksCommand::Migrate => show(out, &hooks.migrate()?),
        HooksCommand::Run { event, input, json } => {
            let input = match input {
                Some(place) => read_input(place, here)?,
                None => JsonObject::new(),
            };
            warn_of_problems(hooks);
            let trial = hooks.run(event, input)?;
            if *json { show_json(out, &trial.json()) } else { show(out, &trial.text()) }
        }
    }
}

/// The hooks in lines, what is wrong with them first.
pub(crate) fn listing(hooks: &dyn HookSet) -> String {
    let problems = hooks.problems().into_iter().map(|problem| format!("{problem}\n"));
    redacted(&plain(&format!("{}{}", problems.collect::<String>(), page::text(hooks)))).into_owned()
}

/// Commands of others are shown: they neither steer the terminal nor spill a key.
fn show(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    print_result(out, &redacted(&plain(text)))
}

fn show_json(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    let mut value = value.clone();
    pollux_domain::redact::redact_value(&mut value);
    print_result(out, &terminal_text::json(format!("{value:#}\n")))
}

/// A hook that is not there guards nothing, so it is named beside every result.
fn warn_of_problems(hooks: &dyn HookSet) {
    for problem in hooks.problems() {
        let _ = writeln!(io::stderr(), "{}", redacted(&plain(&problem)));
    }
}

fn read_input(place: &str, here: &Path) -> Result<JsonObject, Failure> {
    let shown = if place == "-" { "stdin" } else { place };
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ExitKind::Input, format!("could not read the input from `{shown}`")).because(error)
    };
    let mut text = String::new();
    let length = if place == "-" {
        io::stdin().take(MAX_INPUT + 1).read_to_string(&mut text)
    } else {
        fs::File::open(here.join(place)).and_then(|file| file.take(MAX_INPUT + 1).read_to_string(&mut text))
    }
    .map_err(|error| failed(&error))?;
    if length as u64 > MAX_INPUT {
        return Err(failed(&io::Error::other(format!("it is longer than {MAX_INPUT} bytes"))));
    }
    match serde_json::from_str(&text).map_err(|error| failed(&error))? {
        Value::Object(input) => Ok(input),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(failed(&io::Error::other("it is no JSON object")))
        }
    }
}

#[cfg(test)]
mod tests;
