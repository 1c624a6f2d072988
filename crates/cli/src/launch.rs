//! What a command line asks for, decided without touching anything.
//!
//! [`plan`] takes the arguments, what the standard streams are, and the environment, and returns a
//! [`Launch`]; every rule about flags is in this file and `launch/`, and is tested with tables.

mod agents;
mod args;
mod extensions;
mod help;
mod mcp;
mod memory;
mod sessions;
mod skills;
mod usage;

use std::ffi::OsString;
use std::path::PathBuf;

use pollux_config::env::Env;
use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_host::extension_set::{NewExtension, SwitchScope};
use pollux_host::request::{
    RawOutput, Replies, ReplyOrder, Request, Resumed, Scope, ScriptedModel, SessionChoice,
};

pub(crate) use agents::AgentsCommand;
pub(crate) use extensions::ExtensionsCommand;
pub(crate) use help::Topic;
pub(crate) use help::text as help_text;
pub(crate) use help::usage_line;
pub(crate) use mcp::{McpCommand, NewServer, ServerScope, ServerTransport};
pub(crate) use memory::{Forgettable, Lines, MemoryCommand, Question, Reach};
pub(crate) use sessions::{RewindWhat, SessionsCommand, TranscriptFormat};
pub(crate) use skills::{SkillScope, SkillSource, SkillsCommand};
pub(crate) use usage::UsageError;

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
    Extensions {
        command: ExtensionsCommand,
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
    Config {
        command: ConfigCommand,
        options: Box<Request>,
    },
    Policy {
        command: PolicyCommand,
        options: Box<Request>,
    },
    Agents {
        command: AgentsCommand,
        options: Box<Request>,
    },
    Hooks {
        command: HooksCommand,
        options: Box<Request>,
    },
    Mcp {
        command: McpCommand,
        options: Box<Request>,
    },
    Skills {
        command: SkillsCommand,
        options: Box<Request>,
    },
    Trust {
        command: TrustCommand,
        /// The working directory if none is named.
        folder: Option<PathBuf>,
        options: Box<Request>,
    },
    Sessions {
        command: SessionsCommand,
        options: Box<Request>,
    },
    Memory {
        command: MemoryCommand,
        options: Box<Request>,
    },
    Auth {
        command: AuthCommand,
        options: Box<Request>,
    },
    Demo(Box<Request>),
}

/// `pollux config …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigCommand {
    Show { origin: bool, json: bool },
    Get { key: String },
    Set { key: String, value: String, scope: Scope },
}

/// `pollux policy …`
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PolicyCommand {
    Explain {
        call: PolicyCall,
        json: bool,
    },
    /// Every rule in force.
    List {
        view: PolicyView,
        json: bool,
    },
    /// The calls of past sessions through the rules.
    Replay {
        /// Without any: all of this project, or of all projects.
        sessions: Vec<String>,
        all_projects: bool,
        view: PolicyView,
        json: bool,
    },
    /// Without files: everything that a run would load.
    Lint {
        files: Vec<PathBuf>,
    },
    Test {
        file: PathBuf,
    },
}

/// `pollux hooks …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HooksCommand {
    List {
        json: bool,
    },
    Enable {
        name: String,
        scope: Scope,
    },
    Disable {
        name: String,
        scope: Scope,
    },
    /// From Claude Code's settings.
    Migrate,
    /// One event, for a try.
    Run {
        event: String,
        /// A file, or `-` for stdin; a sample if left out.
        input: Option<String>,
        json: bool,
    },
}

/// `pollux trust …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrustCommand {
    Show {
        json: bool,
    },
    Allow {
        /// The folder above, with all that is in it.
        parent: bool,
        /// Do not ask.
        yes: bool,
    },
    Deny,
    Diff {
        json: bool,
    },
}

/// `pollux auth …`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthCommand {
    Login {
        /// The key comes on standard input.
        stdin: bool,
    },
    Logout {
        /// Sign-ins at servers, too.
        all: bool,
    },
    Status {
        json: bool,
    },
    List {
        json: bool,
    },
}

/// A call that nobody makes: what would happen with it?
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PolicyCall {
    pub(crate) tool: String,
    pub(crate) args: JsonObject,
    pub(crate) view: PolicyView,
}

/// The kind of run that a question about rules is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PolicyView {
    /// `None` for the mode a run would have.
    pub(crate) mode: Option<ApprovalMode>,
    /// Nobody can be asked.
    pub(crate) headless: bool,
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
            return Ok(Launch::Extensions { command: ExtensionsCommand::Names, options });
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
