//! `pollux providers`: model providers, their keys, and what their models can do.

mod arguments;
mod page;

use std::io;

use pollux_config::groups::Secret;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_host::prompter::{Prompter, hidden_line};
use pollux_host::providers::set::{NewProvider, ProbeResult, ProviderSet, provider_set};

pub use arguments::{ProvidersArgs, ProvidersCommand};

use crate::auth::{self, AuthCommand};
use crate::context::Context;

/// Runs the command.
pub fn run(command: &ProvidersCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    // Google's key is stored by `pollux auth`.
    match command {
        ProvidersCommand::Login { id } if id == "gemini" => {
            return auth::run(&AuthCommand::Login { stdin: true }, context);
        }
        ProvidersCommand::Logout { id } if id == "gemini" => {
            return auth::run(&AuthCommand::Logout { all: false }, context);
        }
        _ => {}
    }
    let set = provider_set(context.request, context.env)?;
    context.note(&set.notes());
    match command {
        ProvidersCommand::List { json, check } => {
            let mut rows = set.rows();
            if *check {
                set.check(&mut rows)?;
            }
            print_result(context.out, &page::list(&rows, *json))
        }
        ProvidersCommand::Add(new) => add(new, &set, context),
        ProvidersCommand::Login { id } => login(id, &set, context),
        ProvidersCommand::Logout { id } => logout(id, &set, context),
        ProvidersCommand::Test { id, model, json } => test(id, model.as_deref(), *json, &set, context),
    }
}

fn add(new: &NewProvider, set: &ProviderSet, context: &mut Context<'_>) -> Result<(), Failure> {
    let (file, existed) = set.add(new)?;
    let done = if existed { "updated" } else { "added" };
    let id = &new.id;
    let mut text = format!("Provider `{id}` {done} in {}.\n", file.display());
    if !existed {
        let key = match &new.env_key {
            Some(variable) => format!("set {variable}, or run `pollux providers login {id}`"),
            None => format!("run `pollux providers login {id}` if it needs a key"),
        };
        text.push_str(&format!("Next: {key}; then `pollux -m {id}/MODEL`.\n"));
    }
    print_result(context.out, &text)
}

fn login(id: &str, set: &ProviderSet, context: &mut Context<'_>) -> Result<(), Failure> {
    set.can_login(id)?;
    let typed = typed(id, &mut context.prompter)?;
    let stored = set.login(id, typed.reveal())?;
    context.warn(&stored.notes);
    print_result(context.out, &format!("Stored the key for `{id}` in {}.\n", stored.place))
}

/// The key from a person at the terminal, or from a pipe.
fn typed(id: &str, prompter: &mut Prompter<'_>) -> Result<Secret, Failure> {
    if !prompter.at_terminal {
        return auth::piped(prompter.input);
    }
    let failed = |error: io::Error| Failure::new(ExitKind::Input, "could not read the key").because(&error);
    let note = match id {
        "openai" => "An API key is required; ChatGPT subscriptions are not supported.\n",
        "anthropic" => "An API key is required; Claude subscriptions are not supported.\n",
        _ => "",
    };
    let question = format!("{note}API key for `{id}` (not shown): ");
    match hidden_line::ask(&question, prompter.screen, prompter.input).map_err(failed)? {
        Some(line) => Ok(line),
        None => Err(Failure::new(ExitKind::Cancelled, "nothing was stored")),
    }
}

fn logout(id: &str, set: &ProviderSet, context: &mut Context<'_>) -> Result<(), Failure> {
    let was_removed = format!("Removed the stored key for `{id}`.\n");
    let none = format!("No key is stored for `{id}`.\n");
    let removed = auth::Removed::one_key(set.logout(id)?, &was_removed, &none);
    removed.print(set.key_left(id), context.out, context.err)
}

fn test(
    id: &str,
    model: Option<&str>,
    json: bool,
    set: &ProviderSet,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let probe = set.test(id, model)?;
    print_result(context.out, &page::probe(&probe, json))?;
    match probe.stream {
        ProbeResult::Works(_) => Ok(()),
        ProbeResult::Lacks(_) | ProbeResult::Unknown(_) => {
            let text = format!("no reply from `{}/{}`; nothing was stored", probe.provider, probe.model);
            Err(Failure::new(ExitKind::Failure, text))
        }
    }
}

#[cfg(test)]
mod tests;
