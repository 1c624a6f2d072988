//! `pollux trust`: what a folder would run, and whether it may.

use std::io::{BufRead, Write};

use pollux_config::trust::{FolderTrust, TrustReason};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};

pub(crate) use pollux_host::trust::{Folder, View};
use pollux_host::trust::{difference, page};

use crate::launch::TrustCommand;

/// Who can be asked.
pub(crate) struct Person<'a> {
    pub(crate) at_terminal: bool,
    pub(crate) input: &'a mut dyn BufRead,
    /// Where questions go.
    pub(crate) screen: &'a mut dyn Write,
}

/// Runs the command; the result goes to `out`.
pub(crate) fn run(
    command: &TrustCommand,
    folder: &dyn Folder,
    person: &mut Person<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match command {
        TrustCommand::Show { json } => {
            let view = folder.look()?;
            let text = if *json { format!("{:#}\n", page::json(&view)) } else { page::text(&view) };
            print_result(out, &text)
        }
        TrustCommand::Diff { json } => difference::print(&folder.look()?, *json, out),
        TrustCommand::Allow { parent, yes } => allow(folder, *parent, *yes, person, out),
        TrustCommand::Deny => {
            folder.deny()?;
            let view = folder.look()?;
            settled(&view, view.standing.trust == FolderTrust::Untrusted, out)
        }
    }
}

fn allow(
    folder: &dyn Folder,
    parent: bool,
    yes: bool,
    person: &mut Person<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let view = folder.look()?;
    if let Some(excess) = view.inventory.excess.as_deref().filter(|_| !view.is_home) {
        let text = format!("`{}` cannot be looked over: {}", view.folder.display(), page::visible(excess));
        return Err(Failure::new(ExitKind::Failure, text)
            .hint("make it smaller, or trust it for one run with `--skip-trust`"));
    }
    if !yes {
        if !person.at_terminal {
            let text = "nobody can be asked whether to trust this folder, because this is no terminal";
            return Err(Failure::new(ExitKind::Input, text)
                .hint("read `pollux trust show` first; `pollux trust allow --yes` does not ask"));
        }
        let question = if parent { "this folder and everything beside it" } else { "this folder" };
        if !agrees(person, &format!("{}\nTrust {question}? [y/N] ", page::text(&view))) {
            return Err(Failure::new(ExitKind::Failure, "Nothing was changed."));
        }
        // What was agreed to is what was on the screen.
        if folder.look()?.inventory.digest != view.inventory.digest {
            return Err(Failure::new(
                ExitKind::Failure,
                "The folder changed meanwhile; nothing was agreed to.",
            )
            .hint("look again with `pollux trust show`"));
        }
    }
    folder.allow(parent, &view.inventory)?;
    let view = folder.look()?;
    settled(&view, view.standing.trust.uses_project(), out)
}

/// Only a clear yes is one.
fn agrees(person: &mut Person<'_>, question: &str) -> bool {
    matches!(answered(person, question).as_str(), "y" | "yes")
}

/// What a person says, in small letters; nothing when nobody can be asked.
fn answered(person: &mut Person<'_>, question: &str) -> String {
    let asked = person.screen.write_all(question.as_bytes()).and_then(|()| person.screen.flush());
    let mut answer = String::new();
    match asked.and_then(|()| person.input.read_line(&mut answer)) {
        Ok(_) => answer.trim().to_ascii_lowercase(),
        Err(_) => String::new(),
    }
}

/// Says how the folder stands now, and why that may not be what was asked for.
fn settled(view: &View, as_wished: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let text = format!("{}: {}\n", view.folder.display(), page::standing(view));
    if as_wished {
        return print_result(out, &page::visible_lines(&text));
    }
    match &view.standing.reason {
        TrustReason::Rule(line) => Err(Failure::new(ExitKind::Failure, page::visible(text.trim_end())).hint(
            format!("the line for `{}` in `{}` is stronger", page::visible(line), view.register.display()),
        )),
        TrustReason::Restricted
        | TrustReason::SkipFlag
        | TrustReason::Environment
        | TrustReason::FeatureOff
        | TrustReason::NoRule => {
            let text = format!("It is written down, but something stronger decides here.\n{text}");
            print_result(out, &page::visible_lines(&text))
        }
    }
}

#[cfg(test)]
mod tests;
