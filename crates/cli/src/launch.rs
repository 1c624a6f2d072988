//! What a command line asks for, decided without touching anything.
//!
//! [`plan`] takes the arguments, what the standard streams are, and the environment, and returns a
//! [`Launch`]. The flags are derived in `args`; every rule about them is in this file and `request`, and is tested with tables.

mod args;
mod claude;
mod request;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use clap_complete::Shell;
use pollux_a2a_server::ServeOptions;
use pollux_admin::command_line::{self, Purpose};
use pollux_admin::extensions::ExtensionsCommand;
use pollux_admin::mcp::McpServeArgs;
use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_host::request::Request;
use pollux_resident::commands::RunOptions;
use pollux_stream::StreamOptions;

use claude::ClaudeFlags;

pub(crate) use args::tree;
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
    /// The help page of the command with this path; the main one for none.
    Help(Vec<String>),
    /// Completions for a shell.
    Completions(Shell),
    /// Manual pages, into a folder; only the main one, on stdout, without a folder.
    Man(Option<PathBuf>),
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
    /// An editor drives the program over the Agent Client Protocol.
    Acp(Box<Request>),
    /// Other agents give the program tasks over A2A.
    A2aServe(Box<Request>, Box<ServeOptions>),
    /// Another agent uses the program as an MCP server.
    McpServe {
        /// Flags of every session.
        flags: Vec<String>,
        /// The approval mode among them.
        mode: Option<ApprovalMode>,
        args: McpServeArgs,
    },
    /// A program drives the session over standard input and output.
    Stream(Box<Request>, StreamOptions),
    /// Why a program that drives sessions with an SDK of Claude Code cannot drive this one.
    RefusedToSdk(String),
    /// The schema of that protocol.
    Schema,
    Demo(Box<Request>),
    /// Runs the resident core in this process.
    RunCore(RunOptions),
    /// Asks the resident core.
    Core(CoreCommand),
    /// Its sessions.
    Ps {
        json: bool,
    },
    /// A link to the page that shows its sessions in a browser.
    Web {
        /// Without prompts and answers.
        watch: bool,
        opens: bool,
    },
    /// A session of the core, maybe with a prompt.
    Attach {
        which: Option<String>,
        options: Box<Request>,
    },
}

impl Launch {
    /// Whether it works on the current directory, which may have been deleted.
    pub(crate) fn needs_folder(&self) -> bool {
        let only_prints = matches!(
            self,
            Self::Version | Self::Help(_) | Self::Completions(_) | Self::Man(None) | Self::Schema
        );
        !only_prints
    }
}

/// `pollux core`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CoreCommand {
    Start,
    Stop { force: bool },
    Restart { force: bool },
    Status { json: bool },
    Logs { lines: usize },
}

/// Decides what a command line asks for. `args` come without the program's name.
pub(crate) fn plan(
    args: impl Iterator<Item = OsString>,
    facts: &Terminal,
    env: &Env,
) -> Result<Launch, UsageError> {
    let args: Vec<OsString> = args.collect();
    // The commonest questions are answered before the tree of commands is built.
    if let [only] = args.as_slice() {
        match only.to_str() {
            Some("--version" | "-v") => return Ok(Launch::Version),
            Some("--help" | "-h") => return Ok(Launch::Help(Vec::new())),
            _ => {}
        }
    }
    let words = args
        .into_iter()
        .enumerate()
        .map(|(index, arg)| arg.into_string().map_err(|raw| UsageError::not_utf8(index + 1, &raw)))
        .collect::<Result<Vec<String>, UsageError>>()?;
    if claude::is_spoken(&words, env) {
        // Its SDK shows what is on stdout, and not what is on stderr.
        let launch = ClaudeFlags::read(words, env).and_then(|flags| driven_by_claude_sdk(flags, facts, env));
        return Ok(launch.unwrap_or_else(|error| Launch::RefusedToSdk(error.to_string())));
    }
    match request::parse(request::acp_as_flag(words))? {
        request::Parsed::Done(launch) => Ok(launch),
        request::Parsed::Run(run) => route(*run, facts, env),
    }
}

/// A run that an SDK of Claude Code drives.
fn driven_by_claude_sdk(mut flags: ClaudeFlags, facts: &Terminal, env: &Env) -> Result<Launch, UsageError> {
    let words = std::mem::take(&mut flags.words);
    match request::parse(words)? {
        request::Parsed::Done(launch) => Ok(launch),
        request::Parsed::Run(mut run) => {
            let claude = flags.apply(&mut run.options);
            if let request::Action::Stream(stream) = &mut run.action {
                stream.claude = Some(claude);
            }
            route(*run, facts, env)
        }
    }
}

/// The main help page as it is rendered for [`PAGE_WIDTH`] columns. Rendering takes longer than the rest of a start; a
/// test compares the two.
const MAIN_PAGE: &str = include_str!("launch/main_help.txt");

/// How wide help pages are where there is room.
const PAGE_WIDTH: u16 = 100;

/// The help page of the command with this path.
pub(crate) fn help_page(path: &[String]) -> Cow<'static, str> {
    if !path.is_empty() {
        return command_line::help_page(command_line::built(tree), path).into();
    }
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
    if (1..PAGE_WIDTH).contains(&columns) {
        command_line::help_page(tree(Purpose::Show), path).into()
    } else {
        MAIN_PAGE.into()
    }
}

/// The path of the command that these arguments are for.
pub(crate) fn path_of(args: &[OsString]) -> Vec<String> {
    let words: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    command_line::path(&command_line::built(tree), &words)
}

/// How the command with this path is written.
pub(crate) fn usage_line(path: &[String]) -> String {
    command_line::usage_line(command_line::built(tree), path)
}

/// Joins what was asked with where it was asked.
fn route(run: request::RunRequest, facts: &Terminal, env: &Env) -> Result<Launch, UsageError> {
    let request::RunRequest { mut options, source, action } = run;
    options.debug |= env.is_true("DEBUG") || env.is_true("DEBUG_MODE");
    let options = Box::new(options);
    match action {
        request::Action::ListExtensions => {
            return Ok(Launch::Admin { command: ExtensionsCommand::Names.into(), options });
        }
        request::Action::ListSessions => return Ok(Launch::ListSessions),
        request::Action::DeleteSession(which) => return Ok(Launch::DeleteSession { which }),
        request::Action::Serve => return Ok(Launch::Acp(options)),
        request::Action::Stream(_) if source == request::PromptSource::InteractiveFlag => {
            return Err(UsageError::InteractivePiped);
        }
        request::Action::Stream(stream) => return Ok(Launch::Stream(options, stream)),
        request::Action::Converse => {}
    }
    match source {
        request::PromptSource::InteractiveFlag if !facts.stdin_tty => Err(UsageError::InteractivePiped),
        request::PromptSource::InteractiveFlag => Ok(Launch::Interactive(options)),
        request::PromptSource::Flag => Ok(Launch::Headless(options)),
        request::PromptSource::Words | request::PromptSource::None => {
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
