//! `pollux auth`: keys and sign-ins, and which of them is in effect.

mod arguments;
mod page;

use std::io::{self, Read, Write};

use pollux_config::groups::Secret;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Colour, Failure, print_result};

use pollux_host::auth::{CredentialRow, KEYCHAIN_HINT, Reached, SignIns, Status, key, sign_ins};
use pollux_host::prompter::{Prompter, hidden_line};

pub use arguments::{AuthArgs, AuthCommand};

use crate::context::Context;

/// Of a pipe no more is read; a key is far shorter.
const MAX_INPUT: u64 = 64 * 1024;

/// Runs the command.
pub fn run(command: &AuthCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let sign_ins = sign_ins(context.request, context.env)?;
    match command {
        AuthCommand::Login { stdin } => login(*stdin, &sign_ins, context),
        AuthCommand::Logout { all: true } => {
            Removed::all(sign_ins.remove_all()).print(sign_ins.left(), context.out, context.err)
        }
        AuthCommand::Logout { all: false } => {
            Removed::key(sign_ins.remove_key()).print(sign_ins.left(), context.out, context.err)
        }
        AuthCommand::List { json } => listed(&sign_ins.list(), *json, context),
        AuthCommand::Status { json } => stood(&sign_ins.status(), *json, context.out),
    }
}

fn listed(rows: &Reached<Vec<CredentialRow>>, json: bool, context: &mut Context<'_>) -> Result<(), Failure> {
    if let Some(reason) = &rows.keychain_missing {
        // A closed stderr cannot be reported.
        let _ = writeln!(context.err, "{}", page::not_listed(reason));
    }
    let failure = rows.unread_failure();
    if json || failure.is_none() || !rows.result.is_empty() {
        print_result(context.out, &page::list(&rows.result, json))?;
    }
    failure.map_or(Ok(()), Err)
}

/// Prints the credentials in use; being signed out is a failure.
fn stood(status: &Status, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    print_result(out, &page::status(status, json))?;
    match status.problem {
        None => Ok(()),
        Some(_) => Err(Failure::new(ExitKind::Auth, "not signed in")),
    }
}

fn login(stdin: bool, sign_ins: &SignIns, context: &mut Context<'_>) -> Result<(), Failure> {
    let typed = typed(stdin, &mut context.prompter)?;
    let stored = sign_ins.keep(typed.reveal())?;
    for note in &stored.notes {
        // A closed stderr cannot be reported.
        let _ = writeln!(context.err, "{note}");
    }
    print_result(
        context.out,
        &format!(
            "API key stored in {}.
",
            stored.place
        ),
    )
}

/// The key from a pipe or from a person.
fn typed(stdin: bool, prompter: &mut Prompter<'_>) -> Result<Secret, Failure> {
    if stdin && !prompter.at_terminal { piped(prompter.input) } else { asked(prompter) }
}

pub(crate) fn piped(input: &mut dyn Read) -> Result<Secret, Failure> {
    let failed = |error: io::Error| {
        Failure::new(ExitKind::Input, "could not read the key from standard input").because(&error)
    };
    let mut bytes = Vec::new();
    input.take(MAX_INPUT).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Secret::new(String::from_utf8_lossy(&bytes).into_owned()))
}

fn asked(prompter: &mut Prompter<'_>) -> Result<Secret, Failure> {
    if !prompter.at_terminal {
        return Err(Failure::new(ExitKind::Input, "cannot ask for the key without a terminal")
            .hint("use `pollux auth login --api-key-stdin` to read it from standard input"));
    }
    let failed = |error: io::Error| Failure::new(ExitKind::Input, "could not read the key").because(&error);
    let question = format!("{}\nAPI key (not shown): ", key::WHERE);
    let line = hidden_line::ask(&question, prompter.screen, prompter.input);
    match line.map_err(failed)? {
        Some(line) => Ok(line),
        None => Err(Failure::new(ExitKind::Cancelled, "nothing was stored")),
    }
}

/// What a logout did.
pub(crate) struct Removed {
    text: String,
    /// What may be left in a keychain that could not be reached.
    what: &'static str,
    keychain_missing: Option<String>,
    /// Files that may still contain something.
    unread: Option<Failure>,
}

impl Removed {
    fn key(removed: Reached<bool>) -> Self {
        Self::one_key(removed, "The stored key was removed.\n", "No key was stored.\n")
    }

    /// With what to say if a key was removed, and if certainly none was stored.
    pub(crate) fn one_key(removed: Reached<bool>, was_removed: &str, none: &str) -> Self {
        let unread = removed.unread_failure();
        let text = match (removed.result, &removed.keychain_missing, &unread) {
            (true, _, _) => was_removed,
            (false, None, None) => none,
            (false, _, _) => "",
        };
        Self { text: text.to_owned(), what: "a key", keychain_missing: removed.keychain_missing, unread }
    }

    fn all(removed: Reached<Vec<CredentialRow>>) -> Self {
        let unread = removed.unread_failure();
        let line = |row: &CredentialRow| format!("Removed: {} `{}` from {}\n", row.kind, row.name, row.place);
        let mut text: String = removed.result.iter().map(line).collect();
        if removed.result.is_empty() && removed.keychain_missing.is_none() && unread.is_none() {
            text.push_str("Nothing was stored.\n");
        }
        Self { text, what: "keys and sign-ins", keychain_missing: removed.keychain_missing, unread }
    }

    /// Says it; fails if something may be left in a keychain that could not be reached or a file that could not be read.
    pub(crate) fn print(
        self,
        left: Option<String>,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<(), Failure> {
        let Self { mut text, what, keychain_missing, unread } = self;
        if let Some(left) = left {
            text.push_str(&format!("Still in effect: {left}\n"));
        }
        print_result(out, &text)?;
        let unreached = keychain_missing.map(|reason| {
            let text = format!("could not reach the keychain, where {what} may still be stored: {reason}");
            Failure::new(ExitKind::Failure, text).hint(KEYCHAIN_HINT)
        });
        match (unreached, unread) {
            (None, None) => Ok(()),
            (Some(failure), None) | (None, Some(failure)) => Err(failure),
            (Some(unreached), Some(unread)) => {
                // A closed stderr cannot be reported.
                let _ = unread.print(err, Colour::None);
                Err(unreached)
            }
        }
    }
}

#[cfg(test)]
mod tests;
