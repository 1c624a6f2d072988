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
use pollux_domain::id::SessionId;
use serde_json::Value;

pub(crate) use agents::AgentsCommand;
pub(crate) use extensions::{ExtensionsCommand, NewExtension, SwitchScope};
pub(crate) use help::Topic;
pub(crate) use help::text as help_text;
pub(crate) use help::usage_line;
pub(crate) use mcp::{McpCommand, NewServer, ServerScope, ServerTransport};
pub(crate) use memory::{Forgettable, Lines, MemoryCommand, Question, Reach};
pub(crate) use sessions::{RewindWhat, SessionSource, SessionsCommand, TranscriptFormat, Wanted, Which};
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
        options: Box<Options>,
    },
    ListSessions,
    DeleteSession {
        which: String,
    },
    /// One prompt, then the program ends.
    Headless(Box<Options>),
    /// The terminal interface, maybe with a first prompt.
    Interactive(Box<Options>),
    Config {
        command: ConfigCommand,
        options: Box<Options>,
    },
    Policy {
        command: PolicyCommand,
        options: Box<Options>,
    },
    Agents {
        command: AgentsCommand,
        options: Box<Options>,
    },
    Hooks {
        command: HooksCommand,
        options: Box<Options>,
    },
    Mcp {
        command: McpCommand,
        options: Box<Options>,
    },
    Skills {
        command: SkillsCommand,
        options: Box<Options>,
    },
    Trust {
        command: TrustCommand,
        /// The working directory if none is named.
        folder: Option<PathBuf>,
        options: Box<Options>,
    },
    Sessions {
        command: SessionsCommand,
        options: Box<Options>,
    },
    Memory {
        command: MemoryCommand,
        options: Box<Options>,
    },
    Auth {
        command: AuthCommand,
        options: Box<Options>,
    },
    Demo(Box<Options>),
}

/// Everything a run is told on the command line.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options {
    /// `--prompt`, `--prompt-interactive` or the words without a flag.
    pub(crate) prompt: Option<String>,
    pub(crate) session: SessionChoice,
    /// `--approval-mode` or `--yolo`. Not a settings override: `yolo` may not come from settings.
    pub(crate) approval: Option<ApprovalMode>,
    /// Dotted settings keys with the values that beat every file.
    pub(crate) overrides: Vec<(String, Value)>,
    /// `--allowed-tools`
    pub(crate) allowed_tools: Vec<String>,
    /// `--extensions`: only these; `none` for none.
    pub(crate) extensions: Vec<String>,
    /// `--include-directories`
    pub(crate) include_directories: Vec<String>,
    /// `--sandbox` or `--sandbox=false`.
    pub(crate) sandbox: Option<bool>,
    pub(crate) skip_trust: bool,
    pub(crate) raw_output: RawOutput,
    /// `--debug`, `DEBUG` or `DEBUG_MODE`.
    pub(crate) debug: bool,
    /// `--ignore-env`: plain `.env` files of the project are not read.
    pub(crate) ignore_env: bool,
    pub(crate) script: ScriptedModel,
    /// The run is the tour: what tools do is told, too.
    pub(crate) tour: bool,
    /// Lines for stderr about flags that have no effect yet.
    pub(crate) remarks: Vec<String>,
}

/// Which conversation a run belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum SessionChoice {
    #[default]
    New,
    /// `--session-id`: new, under this id.
    NewWithId(SessionId),
    /// `--resume`
    Resume(Resumed),
    /// `--session-file`: a copy of this file under a fresh id.
    Import(PathBuf),
}

/// The conversation that a run goes on with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resumed {
    /// `latest`, an index, an id or its beginning, trimmed.
    pub(crate) which: String,
    /// Not only this project's sessions.
    pub(crate) all_projects: bool,
    /// In a copy under an id of its own.
    pub(crate) fork: bool,
}

/// What may reach the terminal from the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RawOutput {
    /// Control sequences are removed.
    #[default]
    Stripped,
    /// They pass, and a warning says so.
    Raw,
    /// They pass without a word.
    RawAccepted,
}

/// The hidden test hooks that replace or record the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScriptedModel {
    /// `--fake-responses` or `--fake-responses-non-strict`.
    pub(crate) replies: Option<Replies>,
    /// `--record-responses`
    pub(crate) record: Option<PathBuf>,
}

/// A file of scripted replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replies {
    pub(crate) file: PathBuf,
    pub(crate) order: ReplyOrder,
}

/// How scripted replies are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyOrder {
    /// Line by line, whatever is asked for.
    Strict,
    /// The first line left that fits.
    FirstFitting,
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

/// Which settings file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    User,
    Project,
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
