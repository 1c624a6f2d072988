//! `pollux auth`: keys and sign-ins, and which of them is in effect.

mod key;
mod page;

pub(crate) use key::WHERE;

use std::io::{self, Read, Write};

use pollux_config::groups::Secret;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};

pub(crate) use pollux_host::auth::{KEYCHAIN_HINT, Reached, Row, SignIns, Status, Stored};

use pollux_host::prompter::hidden_line;

use crate::launch::AuthCommand;

/// Of a pipe no more is read; a key is far shorter.
const MAX_INPUT: u64 = 64 * 1024;

/// Whoever gives the key.
pub(crate) struct Owner<'a> {
    pub(crate) at_terminal: bool,
    pub(crate) input: &'a mut dyn Read,
    /// Where questions and notes go.
    pub(crate) screen: &'a mut dyn Write,
}

/// Runs the command; the result goes to `out`.
pub(crate) fn run(
    command: &AuthCommand,
    sign_ins: &dyn SignIns,
    owner: &mut Owner<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match command {
        AuthCommand::Login { stdin } => login(*stdin, sign_ins, owner, out),
        AuthCommand::Logout { all } => logout(*all, sign_ins, out),
        AuthCommand::List { json } => {
            let listed = sign_ins.list()?;
            if let Some(reason) = &listed.keychain_missing {
                let note = format!(
                    "Note: entries in the keychain are not listed; it could not be reached: {reason}"
                );
                // Nobody can be told when stderr is gone.
                let _ = writeln!(owner.screen, "{note}");
            }
            print_result(out, &page::list(&listed.result, *json))
        }
        AuthCommand::Status { json } => {
            let status = sign_ins.status();
            print_result(out, &page::status(&status, *json))?;
            match status.problem {
                None => Ok(()),
                Some(_) => Err(Failure::new(ExitKind::Auth, "nobody is signed in")),
            }
        }
    }
}

fn login(
    stdin: bool,
    sign_ins: &dyn SignIns,
    owner: &mut Owner<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let typed = if stdin && !owner.at_terminal { piped(owner.input)? } else { asked(owner)? };
    let stored = keep(typed.reveal(), sign_ins)?;
    for note in &stored.notes {
        // Nobody can be told when stderr is gone.
        let _ = writeln!(owner.screen, "{note}");
    }
    print_result(out, &format!("The key is stored in {}.\n", stored.place))
}

/// Stores what was typed, if it can be a key.
pub(crate) fn keep(typed: &str, sign_ins: &dyn SignIns) -> Result<Stored, Failure> {
    let key = key::check(typed).map_err(|problem| {
        Failure::new(ExitKind::Input, format!("this is no key: {problem}")).hint(key::WHERE)
    })?;
    sign_ins.store_key(&key)
}

fn piped(input: &mut dyn Read) -> Result<Secret, Failure> {
    let failed = |error: io::Error| {
        Failure::new(ExitKind::Input, "could not read the key from standard input").because(&error)
    };
    let mut bytes = Vec::new();
    input.take(MAX_INPUT).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Secret::new(String::from_utf8_lossy(&bytes).into_owned()))
}

fn asked(owner: &mut Owner<'_>) -> Result<Secret, Failure> {
    if !owner.at_terminal {
        return Err(Failure::new(ExitKind::Input, "there is no terminal to ask for the key at")
            .hint("`pollux auth login --api-key-stdin` reads it from standard input"));
    }
    let failed = |error: io::Error| Failure::new(ExitKind::Input, "could not read the key").because(&error);
    let question = format!("{}\nAPI key (not shown): ", key::WHERE);
    let line = hidden_line::ask(&question, owner.screen, owner.input);
    match line.map_err(failed)? {
        Some(line) => Ok(line),
        None => Err(Failure::new(ExitKind::Cancelled, "nothing was stored")),
    }
}

/// Removes what is stored; fails if something may be left in a keychain that could not be reached.
fn logout(all: bool, sign_ins: &dyn SignIns, out: &mut dyn Write) -> Result<(), Failure> {
    let mut text = String::new();
    let (missing, what) = if all {
        let Reached { result: removed, keychain_missing } = sign_ins.forget_all()?;
        if removed.is_empty() && keychain_missing.is_none() {
            text.push_str("Nothing was stored.\n");
        }
        for row in &removed {
            text.push_str(&format!("Removed: {} `{}` from {}\n", row.kind, row.name, row.place));
        }
        (keychain_missing, "keys and sign-ins")
    } else {
        let Reached { result: removed, keychain_missing } = sign_ins.forget_key()?;
        if removed {
            text.push_str("The stored key was removed.\n");
        } else if keychain_missing.is_none() {
            text.push_str("No key was stored.\n");
        }
        (keychain_missing, "a key")
    };
    if let Some(left) = sign_ins.left() {
        text.push_str(&format!("Still in effect: {left}\n"));
    }
    print_result(out, &text)?;
    match missing {
        None => Ok(()),
        Some(reason) => {
            let text = format!("could not reach the keychain, where {what} may still be stored: {reason}");
            Err(Failure::new(ExitKind::Failure, text).hint(KEYCHAIN_HINT))
        }
    }
}

#[cfg(test)]
mod tests;
