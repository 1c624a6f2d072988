//! `pollux trust`: what a folder would run, and whether it may.

mod difference;
mod page;

use std::io::{BufRead, Write};
use std::path::PathBuf;

use pollux_config::trust::{Binding, FolderTrust, Inventory, Record, Standing, TrustReason};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};

use crate::launch::TrustCommand;

/// A folder as it is now.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) folder: PathBuf,
    /// The file that lists trusted folders.
    pub(crate) register: PathBuf,
    pub(crate) standing: Standing,
    pub(crate) inventory: Inventory,
    /// What it held when it was agreed to.
    pub(crate) record: Option<Record>,
    /// It is the home, whose `.gemini` is the user's own.
    pub(crate) is_home: bool,
}

/// A folder that the command is about.
pub(crate) trait Folder {
    /// Looks at it; runs, applies and writes nothing.
    fn look(&self) -> Result<View, Failure>;

    /// Trusts it, or the folder above it, with exactly this content.
    fn allow(&self, parent: bool, agreed: &Inventory) -> Result<(), Failure>;

    /// Distrusts it, whatever is said about the folders above.
    fn deny(&self) -> Result<(), Failure>;
}

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

/// What a person who begins a conversation is asked about a folder that nobody decided on, or that changed.
pub(crate) struct Asked {
    view: View,
}

/// What came of it.
pub(crate) struct Settled {
    pub(crate) trusted: bool,
    pub(crate) problem: Option<&'static str>,
}

/// Looks at the folder for the question.
pub(crate) fn question(folder: &dyn Folder) -> Result<Asked, Failure> {
    Ok(Asked { view: folder.look()? })
}

impl Asked {
    /// What the folder would run, and what changed.
    pub(crate) fn lines(&self) -> Vec<String> {
        let changes = match self.view.standing.trust {
            FolderTrust::Changed => format!("\n{}", difference::text(&self.view)),
            FolderTrust::Trusted | FolderTrust::Untrusted | FolderTrust::Undecided => String::new(),
        };
        format!("{}{changes}", page::text(&self.view)).lines().map(str::to_owned).collect()
    }

    /// Whether trust would let something of the folder run.
    pub(crate) fn would_run(&self) -> bool {
        self.view.inventory.announcements.iter().any(|said| said.role.runs())
    }

    /// The answers: a word, and what it means.
    pub(crate) fn answers(&self) -> Vec<(String, String)> {
        let name = |path: Option<&std::path::Path>| {
            path.and_then(std::path::Path::file_name)
                .map(|name| page::visible(&name.to_string_lossy()))
                .unwrap_or_default()
        };
        let folder = self.view.folder.as_path();
        vec![
            ("folder".to_owned(), format!("Trust folder ({})", name(Some(folder)))),
            ("parent".to_owned(), format!("Trust parent folder ({})", name(folder.parent()))),
            ("never".to_owned(), "Don't trust".to_owned()),
        ]
    }

    /// Carries the answer out. No answer decides nothing.
    pub(crate) fn answered(self, folder: &dyn Folder, answer: Option<&str>) -> Result<Settled, Failure> {
        let parent = match answer {
            Some("folder") => false,
            Some("parent") => true,
            Some("never") => {
                folder.deny()?;
                return Ok(Settled { trusted: false, problem: None });
            }
            _ => return Ok(Settled { trusted: false, problem: None }),
        };
        let inventory = &self.view.inventory;
        // What was agreed to is what was on the screen.
        if inventory.excess.is_some() || folder.look()?.inventory.digest != inventory.digest {
            let problem = "The folder cannot be looked over or changed meanwhile; nothing was agreed to.";
            return Ok(Settled { trusted: false, problem: Some(problem) });
        }
        folder.allow(parent, inventory)?;
        Ok(Settled { trusted: folder.look()?.standing.trust.uses_project(), problem: None })
    }
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

/// The paths that changed, as far as they fit on a line.
pub(crate) fn changed_paths(binding: &Binding) -> String {
    const SHOWN: usize = 3;
    match binding {
        Binding::Changed(paths) => {
            let mut named: Vec<String> = paths.iter().take(SHOWN).map(|path| page::visible(path)).collect();
            if paths.len() > SHOWN {
                named.push(format!("{} more", paths.len() - SHOWN));
            }
            named.join(", ")
        }
        Binding::Unclear(why) => page::visible(why),
        Binding::Unbound | Binding::Same | Binding::FirstUse(_) => String::new(),
    }
}

#[cfg(test)]
mod tests;
