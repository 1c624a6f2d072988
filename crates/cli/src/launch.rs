//! What a command line asks for, decided without touching anything.
//!
//! [`plan`] takes the arguments, what the standard streams are, and the environment, and returns a
//! [`Launch`]; every rule about flags is in this file and `launch/`, and is tested with tables.

mod args;
mod help;

use std::ffi::OsString;

use pollux_admin::extensions::ExtensionsCommand;
use pollux_config::env::Env;
use pollux_host::request::Request;

pub(crate) use help::Topic;
pub(crate) use help::text as help_text;
pub(crate) use help::usage_line;
pub(crate) use pollux_admin::UsageError;

/// What the standard streams are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) stdin_tty: bool,
    pub(crate) stdout_tty: bool,
}

/// What the program is to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Launch {
    Version,
    Help(Topic),
    /// A subcommand.
    Admin {
        command: pollux_admin::Command,
        options: Box<Request>,
    },
    ListSessions,
    DeleteSession {
        which: String,
    },
    /// One prompt, then the program ends.
    Headless(Box<Request>),
    /// The terminal interface, maybe with a first prompt.
    Interactive(Box<Request>),
    Demo(Box<Request>),
}

/// Decides what a command line asks for. `args` come without the program's name.
pub(crate) fn plan(
    args: impl Iterator<Item = OsString>,
    facts: &Terminal,
    env: &Env,
) -> Result<Launch, UsageError> {
    let args: Vec<OsString> = args.collect();
    // The commonest questions are answered before anything is built.
    if let [only] = args.as_slice() {
        match only.to_str() {
            Some("--version" | "-v") => return Ok(Launch::Version),
            Some("--help" | "-h") => return Ok(Launch::Help(Topic::Main)),
            _ => {}
        }
    }
    let words = args
        .into_iter()
        .enumerate()
        .map(|(index, arg)| arg.into_string().map_err(|raw| UsageError::not_utf8(index + 1, &raw)))
        .collect::<Result<Vec<String>, UsageError>>()?;
    match args::parse(words)? {
        args::Parsed::Done(launch) => Ok(launch),
        args::Parsed::Run(request) => route(*request, facts, env),
    }
}

/// Joins what was asked with where it was asked.
fn route(request: args::RunRequest, facts: &Terminal, env: &Env) -> Result<Launch, UsageError> {
    let args::RunRequest { mut options, source, action } = request;
    options.debug |= env.is_true("DEBUG") || env.is_true("DEBUG_MODE");
    let options = Box::new(options);
    match action {
        args::Action::ListExtensions => {
            return Ok(Launch::Admin { command: ExtensionsCommand::Names.into(), options });
        }
        args::Action::ListSessions => return Ok(Launch::ListSessions),
        args::Action::DeleteSession(which) => return Ok(Launch::DeleteSession { which }),
        args::Action::Converse => {}
    }
    match source {
        args::PromptSource::InteractiveFlag if !facts.stdin_tty => Err(UsageError::InteractivePiped),
        args::PromptSource::InteractiveFlag => Ok(Launch::Interactive(options)),
        args::PromptSource::Flag => Ok(Launch::Headless(options)),
        args::PromptSource::Words | args::PromptSource::None => {
            let at_terminal = facts.stdin_tty && facts.stdout_tty && !runs_unattended(env);
            Ok(if at_terminal { Launch::Interactive(options) } else { Launch::Headless(options) })
        }
    }
}

/// Whether a build server runs us; upstream's own test rig says it does not count.
fn runs_unattended(env: &Env) -> bool {
    let says_true = |name: &str| env.get(name) == Some("true");
    !says_true("GEMINI_CLI_INTEGRATION_TEST") && (says_true("CI") || says_true("GITHUB_ACTIONS"))
}

#[cfg(test)]
mod tests;
