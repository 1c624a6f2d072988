//! `pollux skills`: which skills there are, and changing that.

mod page;

use std::io::{BufRead, Write};
use std::path::Path;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::spelling::distance;
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

pub(crate) use pollux_host::skills::Row;

use crate::launch::{SkillScope, SkillSource, SkillsCommand};

pub(crate) use page::{change, list};

/// What a look at a folder found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checked {
    pub(crate) errors: Vec<String>,
    pub(crate) advice: Vec<String>,
}

/// What happens while something is installed.
pub(crate) struct Asking<'a> {
    /// Hears what is being done.
    pub(crate) say: &'a mut dyn FnMut(&str),
    /// Whether a person agrees to this text.
    pub(crate) agrees: &'a mut dyn FnMut(&str) -> bool,
}

/// The skills, as this command needs them. Nothing is looked for before somebody asks.
pub(crate) trait SkillSet {
    /// Lines about what was found on the way to them, for stderr.
    fn notes(&self) -> &[String];

    /// All of them by name, and lines about what is wrong with some.
    fn look(&self) -> (Vec<Row>, Vec<String>);

    /// The instructions of one.
    fn body(&self, name: &str) -> Result<Option<(Row, String)>, Failure>;

    /// Switches a skill on everywhere, or off in one scope; says what was done.
    fn enable(&mut self, name: &str) -> Result<String, Failure>;

    fn disable(&mut self, name: &str, scope: SkillScope) -> Result<String, Failure>;

    /// Why what is changed in a scope has no effect yet.
    fn unheard(&self, scope: SkillScope) -> Option<String>;

    fn install(&mut self, source: &SkillSource, asking: &mut Asking<'_>) -> Result<String, Failure>;

    fn link(&mut self, source: &SkillSource, asking: &mut Asking<'_>) -> Result<String, Failure>;

    fn uninstall(&mut self, name: &str, scope: SkillScope) -> Result<String, Failure>;

    fn validate(&self, path: &Path) -> Checked;
}

/// Who can be asked.
pub(crate) struct Asked<'a> {
    pub(crate) input: &'a mut dyn BufRead,
    /// Status lines and questions.
    pub(crate) screen: &'a mut dyn Write,
}

/// Runs the command; the result goes to `out`. Paths are relative to `here`.
pub(crate) fn run(
    command: &SkillsCommand,
    skills: &mut dyn SkillSet,
    here: &Path,
    asked: &mut Asked<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match command {
        SkillsCommand::List { all, json } => {
            let (rows, problems) = skills.look();
            tell(asked.screen, &problems);
            if *json {
                show_json(out, &page::list_json(&rows, *all))
            } else {
                show(out, &page::list(&rows, *all, true))
            }
        }
        SkillsCommand::Show { name, json } => match skills.body(name)? {
            Some((row, body)) if *json => show_json(out, &page::show_json(&row, &body)),
            Some((row, body)) => show(out, &page::show(&row, &body)),
            None => Err(unknown(name, skills)),
        },
        SkillsCommand::Enable { name } => show(out, &skills.enable(name)?),
        SkillsCommand::Disable { name, scope } => {
            let done = skills.disable(name, *scope)?;
            tell(asked.screen, skills.unheard(*scope).as_slice());
            show(out, &done)
        }
        SkillsCommand::Install(source) => {
            let done = with_questions(source, asked, |asking| skills.install(source, asking))?;
            show(out, &done)
        }
        SkillsCommand::Link(source) => {
            let done = with_questions(source, asked, |asking| skills.link(source, asking))?;
            show(out, &done)
        }
        SkillsCommand::Uninstall { name, scope } => show(out, &skills.uninstall(name, *scope)?),
        SkillsCommand::Validate { path, json } => validate(path, *json, skills, here, out),
        SkillsCommand::Reload => {
            let (_, problems) = skills.look();
            tell(asked.screen, &problems);
            show(out, &page::change(0, 0))
        }
    }
}

fn validate(
    path: &str,
    json: bool,
    skills: &dyn SkillSet,
    here: &Path,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let checked = skills.validate(&here.join(path));
    if json {
        show_json(out, &page::validation_json(path, &checked))?;
    } else if checked.errors.is_empty() {
        show(out, &page::validation(path, &checked))?;
    }
    match checked.errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(ExitKind::Failure, page::validation(path, &checked).trim_end())),
    }
}

/// Texts of others neither steer the terminal nor hide in it.
fn show(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    print_result(out, &plain(text))
}

fn show_json(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    print_result(out, &terminal_text::json(format!("{value:#}\n")))
}

fn tell(screen: &mut dyn Write, lines: &[String]) {
    for line in lines {
        // Nobody can be told when stderr is gone.
        let _ = writeln!(screen, "{}", plain(line));
    }
}

/// Gives whoever installs a way to speak and to ask; somebody who consented before is only told.
fn with_questions(
    source: &SkillSource,
    asked: &mut Asked<'_>,
    work: impl FnOnce(&mut Asking<'_>) -> Result<String, Failure>,
) -> Result<String, Failure> {
    let Asked { input, screen } = asked;
    let screen = std::cell::RefCell::new(screen);
    let say = |text: &str| drop(writeln!(screen.borrow_mut(), "{}", plain(text)));
    let mut nobody = false;
    let mut agrees = |text: &str| {
        if source.consent {
            say(&format!("You have consented to the following:\n{text}"));
            return true;
        }
        say(text);
        let ask = || {
            let mut screen = screen.borrow_mut();
            write!(screen, "Do you want to continue? [Y/n]: ").and_then(|()| screen.flush())
        };
        let _ = ask();
        let mut line = String::new();
        nobody = !input.read_line(&mut line).is_ok_and(|count| count > 0);
        !nobody && matches!(line.trim().to_lowercase().as_str(), "" | "y" | "yes")
    };
    let mut say = say;
    let done = work(&mut Asking { say: &mut say, agrees: &mut agrees });
    done.map_err(|failure| {
        if nobody { failure.hint("nobody was there to ask; `--consent` agrees beforehand") } else { failure }
    })
}

/// A name that no skill has, with the one that was perhaps meant.
fn unknown(name: &str, skills: &dyn SkillSet) -> Failure {
    let failure = Failure::new(ExitKind::Failure, format!("Skill \"{name}\" not found."));
    let (rows, _) = skills.look();
    let near =
        rows.iter().map(|row| (distance(&row.name, name), &row.name)).min_by_key(|(distance, _)| *distance);
    match near.filter(|(distance, _)| *distance <= 1 + name.chars().count() / 3) {
        Some((_, near)) => failure.hint(format!("did you mean \"{near}\"?")),
        None => failure.hint("`pollux skills list --all` shows them all"),
    }
}

#[cfg(test)]
mod tests;
