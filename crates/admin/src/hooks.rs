//! `pollux hooks`: which hooks there are, and what they would do.

mod arguments;
mod page;
mod set;
mod trial;

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use pollux_domain::JsonObject;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

pub use arguments::{HooksArgs, HooksCommand};
pub use set::{HookSet, hook_set};
pub use trial::{Outcome, Trial, TrialRun};

use crate::context::Context;

/// Largest input that is read, in bytes.
const MAX_INPUT: u64 = 16 * 1024 * 1024;

/// One hook.
#[derive(Debug, Clone, Default)]
pub struct HookRow {
    pub event: &'static str,
    pub name: Option<String>,
    pub command: String,
    /// `project`, `user`, `system` or `extension NAME`.
    pub source: String,
    pub matcher: Option<String>,
    pub sequential: bool,
    pub timeout_ms: u128,
    pub description: Option<String>,
    pub required: bool,
    pub enabled: bool,
    pub file: String,
    pub key: String,
}

/// Runs the command.
pub fn run(command: &HooksCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut hooks = hook_set(context.request, context.env)?;
    context.note(hooks.notes());
    match command {
        HooksCommand::List { json } => {
            if *json {
                return show_json(context.out, &page::json(&hooks));
            }
            // A missing hook guards nothing, so it is named with every result.
            context.warn(&hooks.problems());
            show(context.out, &page::text(&hooks))
        }
        HooksCommand::Enable { name, scope } => show(context.out, &hooks.switch(name, true, *scope)?),
        HooksCommand::Disable { name, scope } => show(context.out, &hooks.switch(name, false, *scope)?),
        HooksCommand::Migrate { .. } => show(context.out, &hooks.migrate()?),
        HooksCommand::Run { event, input, json } => {
            let input = match input {
                Some(place) => read_input(place, context.env.cwd(), context.prompter.input)?,
                None => JsonObject::new(),
            };
            context.warn(&hooks.problems());
            let trial = hooks.run(event, input)?;
            if *json { show_json(context.out, &trial.json()) } else { show(context.out, &trial.text()) }
        }
    }
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

fn read_input(place: &str, here: &Path, stdin: &mut dyn BufRead) -> Result<JsonObject, Failure> {
    let shown = if place == "-" { "stdin" } else { place };
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ExitKind::Input, format!("could not read the input from `{shown}`")).because(error)
    };
    let mut text = String::new();
    let length = if place == "-" {
        stdin.take(MAX_INPUT + 1).read_to_string(&mut text)
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
            Err(failed(&io::Error::other("not a JSON object")))
        }
    }
}

#[cfg(test)]
mod tests;
