//! What the grammars of all subcommands are made of, and upstream's reading of values.
//!
//! clap splits the words; what they mean, and upstream's wording of every refusal, is decided by whoever parses.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use pollux_domain::approval::ApprovalMode;
use pollux_host::request::{Request, Scope};

use crate::usage::UsageError;

pub const MODES: &[&str] = &["default", "auto_edit", "yolo", "plan"];
pub(crate) const SCOPES: &[&str] = &["user", "project"];

/// The command line around a subcommand.
pub struct Root<'a> {
    /// What stands before it.
    pub(crate) given: Given<'a>,
    request: &'a dyn Fn() -> Result<Request, UsageError>,
}

impl<'a> Root<'a> {
    /// `request` reads the options that all runs share; it is asked last, so that a mistake of the subcommand comes first.
    pub fn new(matches: &'a ArgMatches, request: &'a dyn Fn() -> Result<Request, UsageError>) -> Self {
        Self { given: Given(matches), request }
    }

    /// What runs and subcommands share, with what every subcommand takes itself.
    pub(crate) fn request(&self, given: &Given<'_>) -> Result<Request, UsageError> {
        let mut request = (self.request)()?;
        request.debug |= given.flag("debug")?;
        Ok(request)
    }
}

/// A subcommand taken apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed<T> {
    /// This page of its help.
    Help(&'static str),
    Run(T, Box<Request>),
}

/// The command below a subcommand; `None` when help is wanted.
pub(crate) fn leaf<'a>(
    noun: &'static str,
    inner: &'a ArgMatches,
) -> Result<Option<(&'a str, &'a ArgMatches)>, UsageError> {
    match inner.subcommand() {
        Some((_, matches)) if Given(matches).flag("help")? => Ok(None),
        Some(found) => Ok(Some(found)),
        None if Given(inner).flag("help")? => Ok(None),
        None => Err(UsageError::MissingSubcommand(noun)),
    }
}

/// clap misses required arguments before anyone sees `--help`, so a line without them is split once more.
pub fn split(grammar: impl Fn() -> Command, words: Vec<String>) -> Result<ArgMatches, UsageError> {
    let error = match grammar().try_get_matches_from(&words) {
        Ok(matches) => return Ok(matches),
        Err(error) => error,
    };
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Ok(matches) = nothing_required(grammar()).try_get_matches_from(&words)
        && wants_help(&matches)
    {
        return Ok(matches);
    }
    Err(refusal(&error))
}

fn nothing_required(command: Command) -> Command {
    command.mut_args(|arg| arg.required(false)).mut_subcommands(nothing_required)
}

fn wants_help(matches: &ArgMatches) -> bool {
    matches
        .subcommand()
        .map_or_else(|| Given(matches).flag("help").unwrap_or(false), |(_, inner)| wants_help(inner))
}

pub fn command(name: &'static str) -> Command {
    Command::new(name).disable_help_flag(true).args_override_self(true)
}

/// An option with a value; the last one given wins.
pub fn text(name: &'static str) -> Arg {
    Arg::new(name).long(name).num_args(1).action(ArgAction::Set)
}

/// An option that may be repeated and may hold several items separated by commas.
pub fn list(name: &'static str) -> Arg {
    Arg::new(name).long(name).num_args(1).action(ArgAction::Append)
}

/// `--name` or `--name=false`.
pub fn flag(name: &'static str) -> Arg {
    text(name).num_args(0..=1).require_equals(true).default_missing_value("true")
}

/// What was given, with upstream's reading of values.
pub struct Given<'a>(pub &'a ArgMatches);

impl Given<'_> {
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get_one::<String>(name).map(String::as_str)
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    pub fn switch(&self, name: &str) -> Result<Option<bool>, UsageError> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(given) => Err(UsageError::NotBoolean { flag: format!("--{name}"), given: given.to_owned() }),
        }
    }

    pub fn flag(&self, name: &str) -> Result<bool, UsageError> {
        Ok(self.switch(name)?.unwrap_or(false))
    }

    pub fn choice(
        &self,
        argument: &'static str,
        choices: &'static [&'static str],
    ) -> Result<Option<&str>, UsageError> {
        match self.text(argument) {
            Some(given) if !choices.contains(&given) => {
                Err(UsageError::NotAChoice { argument, given: given.to_owned(), choices })
            }
            given => Ok(given),
        }
    }

    /// Items trimmed and empty ones dropped; a lone empty value stays, as upstream keeps it.
    pub fn list(&self, name: &str) -> Vec<String> {
        let Some(values) = self.0.get_many::<String>(name) else { return Vec::new() };
        let values: Vec<&String> = values.collect();
        if let [only] = values.as_slice()
            && only.is_empty()
        {
            return vec![String::new()];
        }
        let items = values.iter().flat_map(|value| value.split(','));
        items.map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }
}

pub fn approval(given: &Given<'_>) -> Result<Option<ApprovalMode>, UsageError> {
    let mode = given.choice("approval-mode", MODES)?;
    match (given.flag("yolo")?, mode) {
        (true, Some(_)) => Err(UsageError::YoloAndMode),
        (true, None) => Ok(Some(ApprovalMode::Yolo)),
        (false, mode) => Ok(mode.and_then(|mode| mode.parse().ok())),
    }
}

/// `--scope user|project`; the user's settings unless said otherwise.
pub(crate) fn scope(given: &Given<'_>) -> Result<Scope, UsageError> {
    let project = given.choice("scope", SCOPES)? == Some("project");
    Ok(if project { Scope::Project } else { Scope::User })
}

/// Says in our words what clap refused.
fn refusal(error: &clap::Error) -> UsageError {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let argument = context(ContextKind::InvalidArg);
    // clap writes `--prompt <prompt>`; the name alone is enough.
    let name = argument.split([' ', '=', '[', '<']).next().unwrap_or(argument);
    match error.kind() {
        ErrorKind::UnknownArgument => UsageError::UnknownFlag(name.trim_start_matches('-').to_owned()),
        ErrorKind::InvalidSubcommand => {
            UsageError::UnknownFlag(context(ContextKind::InvalidSubcommand).to_owned())
        }
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues
            if context(ContextKind::InvalidValue).is_empty() =>
        {
            UsageError::MissingValue(name.to_owned())
        }
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(names)) => UsageError::MissingArgument(names.join(" ")),
            _ => UsageError::MissingArgument(name.to_owned()),
        },
        _ => UsageError::Malformed(error.to_string().trim().to_owned()),
    }
}
