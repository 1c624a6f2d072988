//! What clap refused, in our words.

use std::error::Error;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::lookup::{foreign_command, mistyped_command, nearest_command, nearest_option, path};
use super::values::Expected;
use crate::usage::UsageError;

/// The refusal of words that clap could not read; `root` is the whole tree.
pub(super) fn usage_error(error: &clap::Error, root: &Command, words: &[String]) -> UsageError {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    // clap writes `--prompt <text>` and `[agent]`; the name alone is enough.
    let argument = text(ContextKind::InvalidArg);
    let name = argument.trim_start_matches('[').split([' ', '=', '[', ']']).next();
    let name = name.unwrap_or(argument).to_owned();
    match error.kind() {
        ErrorKind::UnknownArgument => mistyped_command(root, words)
            .or_else(|| foreign_command(root, words))
            .unwrap_or_else(|| unknown(argument, root, words)),
        ErrorKind::InvalidSubcommand => {
            let given = text(ContextKind::InvalidSubcommand);
            mistyped_command(root, words).unwrap_or_else(|| unknown(given, root, words))
        }
        ErrorKind::MissingSubcommand => {
            UsageError::MissingSubcommand(path(root, words).last().cloned().unwrap_or_default())
        }
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            let given = text(ContextKind::InvalidValue);
            match error.get(ContextKind::ValidValue) {
                _ if given.is_empty() => UsageError::MissingValue(name),
                Some(ContextValue::Strings(choices)) if *choices == ["true", "false"] => {
                    bad_value(name, &Expected::new("`true` or `false`"), given)
                }
                Some(ContextValue::Strings(choices)) => UsageError::NotAChoice {
                    argument: name.trim_start_matches('-').trim_matches(['<', '>']).to_owned(),
                    given: given.to_owned(),
                    choices: choices.clone(),
                },
                _ => UsageError::Malformed(in_short(error)),
            }
        }
        ErrorKind::ValueValidation => match error.source().and_then(|source| source.downcast_ref()) {
            Some(expected) => bad_value(name, expected, text(ContextKind::InvalidValue)),
            None => UsageError::Malformed(in_short(error)),
        },
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(names)) if names.len() > 1 => {
                UsageError::MissingArguments(names.clone())
            }
            Some(ContextValue::Strings(names)) => UsageError::MissingArgument(names.concat()),
            _ => UsageError::MissingArgument(name),
        },
        _ => UsageError::Malformed(in_short(error)),
    }
}

/// A word or an option that the command at hand does not have.
fn unknown(given: &str, root: &Command, words: &[String]) -> UsageError {
    let path = path(root, words);
    let command = path.iter().fold(root, |command, name| command.find_subcommand(name).unwrap_or(command));
    if !given.starts_with('-') && command.has_subcommands() {
        let with_path =
            |name: &str| path.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(" ");
        let nearest = nearest_command(command, given).map(with_path);
        return UsageError::UnknownSubcommand { given: with_path(given), nearest };
    }
    let option = given.split('=').next().unwrap_or(given);
    let nearest = nearest_option(command, option).filter(|_| option.starts_with('-'));
    UsageError::Unknown {
        given: option.trim_start_matches('-').to_owned(),
        nearest: nearest.map(|name| format!("--{name}")),
    }
}

fn bad_value(name: String, expected: &Expected, given: &str) -> UsageError {
    let Expected { what, shows_given } = expected;
    let given = shows_given.then(|| given.to_owned());
    UsageError::BadValue { name, given, expected: what.clone() }
}

/// The first line of clap's own text.
fn in_short(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}
