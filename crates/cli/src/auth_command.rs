//! `pollux auth`: keys and sign-ins, and which of them is in effect.

pub(crate) mod hidden_line;
mod key;
mod page;

pub(crate) use key::WHERE;

use std::io::{self, Read, Write};

use pollux_config::groups::Secret;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};

use crate::launch::AuthCommand;

/// What to do when the keychain does not answer.
pub(crate) const KEYCHAIN_HINT: &str =
    "unlock the keychain or run this in the desktop session that has it, then try again";

/// Of a pipe no more is read; a key is far shorter.
const MAX_INPUT: u64 = 64 * 1024;

/// Who would be signed in, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// `gemini-api-key`, `vertex-ai`, …; `None` if nobody is.
    pub(crate) kind: Option<String>,
    /// Where the credentials in effect come from.
    pub(crate) source: Option<String>,
    /// Where requests go.
    pub(crate) endpoint: Option<String>,
    /// Why nobody is signed in.
    pub(crate) problem: Option<String>,
    pub(crate) places: Vec<Place>,
    pub(crate) storage: Storage,
    pub(crate) google_account: Option<String>,
}

/// A place that credentials may be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) in_effect: bool,
}

/// Where new keys go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Storage {
    /// `keychain` or `encrypted_file`; upstream's words.
    pub(crate) backend: &'static str,
    pub(crate) file: Option<String>,
    /// Why it is the file.
    pub(crate) reason: Option<String>,
}

/// Something that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// `API key`, `MCP server`, …
    pub(crate) kind: &'static str,
    pub(crate) place: String,
    pub(crate) plain_text: bool,
    pub(crate) server_url: Option<String>,
    /// ISO times.
    pub(crate) expires: Option<String>,
    pub(crate) stored: Option<String>,
    pub(crate) renewable: bool,
}

/// What the command is about.
pub(crate) trait SignIns {
    fn status(&self) -> Status;

    fn list(&self) -> Result<Reached<Vec<Row>>, Failure>;

    /// Stores a key; says where, and what keeps it from being used.
    fn store_key(&self, key: &Secret) -> Result<Stored, Failure>;

    /// Whether there was one.
    fn forget_key(&self) -> Result<Reached<bool>, Failure>;

    /// What was removed.
    fn forget_all(&self) -> Result<Reached<Vec<Row>>, Failure>;

    /// What still signs in without anything stored, if anything does.
    fn left(&self) -> Option<String>;
}

/// What was found or done in the places that could be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reached<T> {
    pub(crate) result: T,
    /// Why the keychain could not be asked, if it may hold something.
    pub(crate) keychain_missing: Option<String>,
}

/// A stored key.
pub(crate) struct Stored {
    pub(crate) place: String,
    pub(crate) notes: Vec<String>,
}

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
