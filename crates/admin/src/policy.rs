//! `pollux policy`: what the rules say about a call, and whether they are sound.

mod arguments;
mod cases;
mod inventory;
mod replay;
mod rules;

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

pub use arguments::{PolicyArgs, PolicyCall, PolicyCommand, PolicyFlags, PolicyView};
pub use inventory::{Inventory, InventoryLine};
pub use replay::{PastCall, PastSession, PastSessions};
pub use rules::{Rules, rules};

use crate::context::Context;

/// Largest table of cases that is read, in bytes.
const MAX_CASES: u64 = 4 * 1024 * 1024;

/// What happens with a call, and why.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// `allow`, `ask` or `deny`.
    pub decision: &'static str,
    /// Why, in one sentence.
    pub reason: String,
    /// For people.
    pub text: String,
    /// For programs: `decision`, `rule`, `source`, `parts`, `reason`.
    pub json: Value,
}

/// Something wrong with a policy file.
#[derive(Debug, Clone)]
pub struct Finding {
    /// A rule or file is not in force because of it.
    pub is_error: bool,
    pub text: String,
}

/// How closely a call is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// As a run does it: with the tools' guards, and external checkers are asked.
    Whole,
    /// The same, but nothing is started: what external checkers would say is left open.
    Still,
    /// The rules alone: paths of another project mean nothing here.
    Rules,
}

/// Runs the command.
pub fn run(command: &PolicyCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let rules = rules(context.request, context.env)?;
    context.note(rules.notes());
    match command {
        PolicyCommand::Explain { call, json } => {
            warn_of_problems(&rules, context);
            let outcome = rules.explain(call, Depth::Whole)?;
            show(
                context.out,
                *json,
                || {
                    format!(
                        "{:#}
",
                        outcome.json
                    )
                },
                || outcome.text,
            )
        }
        PolicyCommand::List { view, json } => {
            warn_of_problems(&rules, context);
            let inventory = rules.inventory(view);
            show(context.out, *json, || inventory.json(), || inventory.text())
        }
        PolicyCommand::Replay { sessions, all_projects, view, json } => {
            warn_of_problems(&rules, context);
            let past = rules.sessions(sessions, *all_projects)?;
            let tally = replay::replay(&rules, &past, *view, context)?;
            show(context.out, *json, || tally.json(), || tally.text())
        }
        PolicyCommand::Lint { files } => lint(files, &rules, context.env.cwd(), context.out),
        PolicyCommand::Test { file } => {
            warn_of_problems(&rules, context);
            test(&context.env.cwd().join(file), &rules, context.out)
        }
    }
}

/// Prints a result in one of its two forms; neither can steer the terminal.
fn show(
    out: &mut dyn Write,
    for_programs: bool,
    json: impl FnOnce() -> String,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let text = if for_programs { terminal_text::json(json()) } else { plain(&text()).into_owned() };
    print_result(out, &text)
}

/// An unreadable file changes every result, so it is named with each.
fn warn_of_problems(rules: &Rules, context: &mut Context<'_>) {
    for finding in rules.lint(&[]) {
        let _ = writeln!(context.err, "{}", plain(&finding.text));
    }
}

fn lint(files: &[PathBuf], rules: &Rules, here: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let files: Vec<PathBuf> = files.iter().map(|file| here.join(file)).collect();
    if let Some(gone) = files.iter().find(|file| !file.exists()) {
        return Err(Failure::new(ExitKind::Failure, format!("file not found: `{}`", gone.display())));
    }
    let findings = rules.lint(&files);
    let errors = findings.iter().filter(|finding| finding.is_error).count();
    let mut text: String = findings.iter().map(|finding| format!("{}\n", plain(&finding.text))).collect();
    if findings.is_empty() {
        text.push_str("No problems found.\n");
    }
    print_result(out, &text)?;
    match errors {
        0 => Ok(()),
        1 => Err(Failure::new(ExitKind::Failure, "1 error")),
        many => Err(Failure::new(ExitKind::Failure, format!("{many} errors"))),
    }
}

fn test(file: &Path, rules: &Rules, out: &mut dyn Write) -> Result<(), Failure> {
    let cases = cases::parse(&read(file)?, file)
        .map_err(|error| Failure::from_error(ExitKind::Failure, &error).hint(cases::FORM))?;
    let mut wrong = 0;
    for case in &cases {
        let outcome = rules.explain(&case.call, Depth::Whole)?;
        if outcome.decision == case.expected {
            continue;
        }
        wrong += 1;
        let args = Value::Object(case.call.args.clone());
        let text = format!(
            "{}:{}: {} {args}: expected {}, but {}: {}\n",
            file.display(),
            case.line,
            case.call.tool,
            case.expected,
            outcome.decision,
            outcome.reason
        );
        print_result(out, &plain(&text))?;
    }
    print_result(out, &format!("{} of {} cases as expected.\n", cases.len() - wrong, cases.len()))?;
    match wrong {
        0 => Ok(()),
        _ => Err(Failure::new(ExitKind::Failure, format!("{wrong} of {} cases failed", cases.len()))),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| {
        Failure::new(ExitKind::Failure, format!("could not read `{}`", file.display())).because(&error)
    };
    let mut text = String::new();
    let opened = fs::File::open(file).map_err(failed)?;
    let length = opened.take(MAX_CASES + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > MAX_CASES {
        return Err(failed(io::Error::other(format!("it is longer than {MAX_CASES} bytes"))));
    }
    Ok(text)
}
