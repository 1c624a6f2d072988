//! `pollux skills`: which skills there are, and changing that.

mod arguments;
mod consent;
mod page;
mod set;

use std::io::Write;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::spelling::distance;
use pollux_domain::terminal_text::{self, plain};
use serde_json::Value;

use pollux_host::skills::SkillRow;

pub use arguments::{SkillScope, SkillSource, SkillsArgs, SkillsCommand};
pub use set::{SkillSet, skill_set};

use crate::context::Context;

/// The result of checking a folder.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    pub errors: Vec<String>,
    pub advice: Vec<String>,
}

/// Runs the command.
pub fn run(command: &SkillsCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut skills = skill_set(context.request, context.env)?;
    context.note(skills.notes());
    match command {
        SkillsCommand::List { all, json } => {
            let (rows, problems) = skills.look();
            tell(context.err, &problems);
            if *json {
                show_json(context.out, &page::list_json(&rows, *all))
            } else {
                show(context.out, &pollux_host::skills::list(&rows, *all, true))
            }
        }
        SkillsCommand::Show { name, json } => match skills.body(name)? {
            Some((row, body)) if *json => show_json(context.out, &page::show_json(&row, &body)),
            Some((row, body)) => show(context.out, &page::show(&row, &body)),
            None => Err(unknown(name, &skills.look().0)),
        },
        SkillsCommand::Enable { name } => {
            skills.known_or_listed(name)?;
            show(context.out, &skills.enable(name)?)
        }
        SkillsCommand::Disable { name, scope } => {
            skills.known_or_listed(name)?;
            let scope = scope.unwrap_or_else(|| skills.heard_scope());
            let done = skills.disable(name, scope)?;
            tell(context.err, skills.unheard(scope).as_slice());
            show(context.out, &done)
        }
        SkillsCommand::Install(source) => {
            let done = skills.install(source, &mut context.prompter)?;
            show(context.out, &done)
        }
        SkillsCommand::Link(source) => {
            let done = skills.link(source, &mut context.prompter)?;
            show(context.out, &done)
        }
        SkillsCommand::Uninstall { name, scope } => show(context.out, &skills.uninstall(name, *scope)?),
        SkillsCommand::Validate { path, json } => {
            let checked = skills.validate(&context.env.cwd().join(path));
            validated(path, &checked, *json, context.out)
        }
        SkillsCommand::Reload => {
            let (_, problems) = skills.look();
            tell(context.err, &problems);
            show(context.out, &pollux_host::skills::change(0, 0))
        }
    }
}

fn validated(path: &str, checked: &Checked, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        show_json(out, &page::validation_json(path, checked))?;
    } else if checked.errors.is_empty() {
        show(out, &page::validation(path, checked))?;
    }
    match checked.errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(ExitKind::Failure, page::validation(path, checked).trim_end())),
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
        // A closed stderr cannot be reported.
        let _ = writeln!(screen, "{}", plain(line));
    }
}

/// A name that no skill has, with the one that was perhaps meant.
fn unknown(name: &str, rows: &[SkillRow]) -> Failure {
    let failure = Failure::new(ExitKind::Failure, format!("Skill \"{name}\" not found."));
    let near =
        rows.iter().map(|row| (distance(&row.name, name), &row.name)).min_by_key(|(distance, _)| *distance);
    match near.filter(|(distance, _)| *distance <= 1 + name.chars().count() / 3) {
        Some((_, near)) => failure.hint(format!("did you mean \"{near}\"?")),
        None => failure.hint("run `pollux skills list --all`"),
    }
}

#[cfg(test)]
mod tests;
