//! `pollux policy`: what the rules say about a call, and whether they are sound.

mod cases;
mod inventory;
mod replay;

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

use crate::launch::{PolicyCall, PolicyCommand, PolicyView};

pub(crate) use inventory::{Inventory, Line};
pub(crate) use replay::{PastCall, PastSession, PastSessions};

/// Largest table of cases that is read, in bytes.
const MAX_CASES: u64 = 4 * 1024 * 1024;

/// What happens with a call, and why.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// `allow`, `ask` or `deny`.
    pub(crate) decision: &'static str,
    /// Why, in one sentence.
    pub(crate) reason: String,
    /// For people.
    pub(crate) text: String,
    /// For programs: `decision`, `rule`, `source`, `parts`, `reason`.
    pub(crate) json: Value,
}

/// Something wrong with a policy file.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    /// A rule or file is not in force because of it.
    pub(crate) is_error: bool,
    pub(crate) text: String,
}

/// How closely a call is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// As a run does it: with the tools' guards, and external checkers are asked.
    Whole,
    /// The same, but nothing is started: what external checkers would say is left open.
    Still,
    /// The rules alone: paths of another project mean nothing here.
    Rules,
}

/// The rules of a run, as this command needs them.
pub(crate) trait Rules {
    /// Lines about what was found on the way to them, for stderr.
    fn notes(&self) -> &[String];

    /// The final outcome of a call.
    fn explain(&self, call: &PolicyCall, depth: Depth) -> Result<Outcome, Failure>;

    /// Everything in force in such runs; without a mode in all modes, without `headless` in all runs.
    fn inventory(&self, view: &PolicyView) -> Inventory;

    /// Past sessions: these, or all of the project or of the home.
    fn sessions(&self, which: &[String], all_projects: bool) -> Result<PastSessions, Failure>;

    /// The calls of a session, oldest first; the error names the file.
    fn calls(&self, session: &PastSession) -> Result<Vec<PastCall>, String>;

    /// What is wrong with these files and folders; without any, with those of a run.
    fn lint(&self, files: &[PathBuf]) -> Vec<Finding>;
}

/// Runs the command; the result goes to `out`. Paths are relative to `here`.
pub(crate) fn run(
    command: &PolicyCommand,
    rules: &dyn Rules,
    here: &Path,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match command {
        PolicyCommand::Explain { call, json } => {
            warn_of_problems(rules);
            let outcome = rules.explain(call, Depth::Whole)?;
            show(out, *json, || format!("{:#}\n", outcome.json), || outcome.text)
        }
        PolicyCommand::List { view, json } => {
            warn_of_problems(rules);
            let inventory = rules.inventory(view);
            show(out, *json, || inventory.json(), || inventory.text())
        }
        PolicyCommand::Replay { sessions, all_projects, view, json } => {
            warn_of_problems(rules);
            let past = rules.sessions(sessions, *all_projects)?;
            let tally = replay::replay(rules, &past, *view)?;
            show(out, *json, || tally.json(), || tally.text())
        }
        PolicyCommand::Lint { files } => lint(files, rules, here, out),
        PolicyCommand::Test { file } => {
            warn_of_problems(rules);
            test(&here.join(file), rules, out)
        }
    }
}

/// The rules in lines, what is wrong with them first.
pub(crate) fn listing(rules: &dyn Rules, view: &PolicyView) -> String {
    let findings = rules.lint(&[]).into_iter().map(|finding| format!("{}\n", finding.text));
    plain(&format!("{}{}", findings.collect::<String>(), rules.inventory(view).text())).into_owned()
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

/// A file that cannot be read changes every answer, so it is named beside each.
fn warn_of_problems(rules: &dyn Rules) {
    for finding in rules.lint(&[]) {
        let _ = writeln!(io::stderr(), "{}", plain(&finding.text));
    }
}

fn lint(files: &[PathBuf], rules: &dyn Rules, here: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let files: Vec<PathBuf> = files.iter().map(|file| here.join(file)).collect();
    if let Some(gone) = files.iter().find(|file| !file.exists()) {
        return Err(Failure::new(ExitKind::Failure, format!("there is no file `{}`", gone.display())));
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

fn test(file: &Path, rules: &dyn Rules, out: &mut dyn Write) -> Result<(), Failure> {
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
