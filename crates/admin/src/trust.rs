//! `pollux trust`: what a folder would run, and whether it may.

mod arguments;

use std::io::Write;

use pollux_config::trust::{FolderTrust, TrustReason};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};

use pollux_host::prompter::Prompter;
use pollux_host::trust::{self, TrustedFolder, View, difference, page};

pub use arguments::{TrustAction, TrustArgs, TrustCommand};

use crate::context::Context;

/// Runs the command.
pub fn run(command: &TrustCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let folder = trust::folder(command.folder.as_deref(), context.request, context.env)?;
    let out = &mut *context.out;
    match &command.action {
        TrustAction::Show { json } => {
            let view = folder.look()?;
            let text = if *json {
                format!(
                    "{:#}
",
                    page::json(&view)
                )
            } else {
                page::text(&view)
            };
            print_result(out, &text)
        }
        TrustAction::Diff { json } => difference::print(&folder.look()?, *json, out),
        TrustAction::Allow { parent, yes } => allow(&folder, *parent, *yes, &mut context.prompter, out),
        TrustAction::Deny => {
            folder.deny()?;
            let view = folder.look()?;
            settled(&view, view.standing.trust == FolderTrust::Untrusted, out)
        }
    }
}

fn allow(
    folder: &TrustedFolder,
    parent: bool,
    yes: bool,
    prompter: &mut Prompter<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let view = folder.look()?;
    if let Some(excess) = view.inventory.excess.as_deref().filter(|_| !view.is_home) {
        let text = format!("`{}` cannot be reviewed: {}", view.folder.display(), page::visible(excess));
        return Err(Failure::new(ExitKind::Failure, text)
            .hint("make it smaller, or trust it for one run with `--skip-trust`"));
    }
    if !yes {
        if !prompter.at_terminal {
            let text = "cannot ask whether to trust this folder without a terminal";
            return Err(Failure::new(ExitKind::Input, text)
                .hint("review the folder with `pollux trust show`, then run `pollux trust allow --yes`"));
        }
        let question = if parent { "this folder, its parent and everything in it" } else { "this folder" };
        if !prompter.confirms(&format!("{}\nTrust {question}? [y/N] ", page::text(&view))) {
            return Err(Failure::new(ExitKind::Failure, "Nothing was changed."));
        }
        // What was agreed to is what was on the screen.
        if folder.look()?.inventory.digest != view.inventory.digest {
            return Err(Failure::new(
                ExitKind::Failure,
                "The folder changed in the meantime; it was not trusted.",
            )
            .hint("run `pollux trust show` to review it again"));
        }
    }
    folder.allow(parent, &view.inventory)?;
    let view = folder.look()?;
    settled(&view, view.standing.trust.uses_project(), out)
}

/// Prints the folder's trust, and why it may differ from what was requested.
fn settled(view: &View, as_wished: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let text = format!("{}: {}\n", view.folder.display(), page::standing(view));
    if as_wished {
        return print_result(out, &page::visible_lines(&text));
    }
    match &view.standing.reason {
        TrustReason::Rule(line) => {
            Err(Failure::new(ExitKind::Failure, page::visible(text.trim_end())).hint(format!(
                "the entry for `{}` in `{}` takes precedence",
                page::visible(line),
                view.register.display()
            )))
        }
        TrustReason::Restricted
        | TrustReason::SkipFlag
        | TrustReason::Environment
        | TrustReason::FeatureOff
        | TrustReason::NoRule => {
            let text = format!("The decision was saved, but another setting takes precedence.\n{text}");
            print_result(out, &page::visible_lines(&text))
        }
    }
}

#[cfg(test)]
mod tests;
