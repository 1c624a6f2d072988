//! The grammar of the command line.
//!
//! clap splits the words; what they mean, and upstream's wording of every refusal, is decided here.

use clap::{Arg, ArgAction, ArgMatches, Command};
use pollux_admin::grammar::{Given, Parsed as Subcommand, Root, approval, command, flag, list, split, text};
use pollux_admin::{Row, TABLE, UsageError, policy, row};
use pollux_domain::id::SessionId;
use pollux_front::reserved;
use pollux_host::request::{RawOutput, Replies, ReplyOrder, Request, Resumed, ScriptedModel, SessionChoice};
use serde_json::Value;

use super::Launch;
use super::help::Topic;

pub(super) const FORMATS: &[&str] = &["text", "json", "stream-json"];
pub(super) const DIALECTS: &[&str] = &["pollux", "gemini-cli"];

/// Commands of later versions. They are named so that a typed command never becomes a prompt.
const LATER_COMMANDS: &[&str] = &["gemma"];

/// A command line taken apart.
pub(super) enum Parsed {
    /// Nothing about the surroundings matters.
    Done(Launch),
    /// A run; whether it is interactive depends on the surroundings.
    Run(Box<RunRequest>),
}

pub(super) struct RunRequest {
    pub(super) options: Request,
    pub(super) source: PromptSource,
    pub(super) action: Action,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptSource {
    None,
    Words,
    Flag,
    InteractiveFlag,
}

pub(super) enum Action {
    Converse,
    ListExtensions,
    ListSessions,
    DeleteSession(String),
}

pub(super) fn parse(words: Vec<String>) -> Result<Parsed, UsageError> {
    let matches = split(grammar, join_dashed_prompts(words))?;
    let given = Given(&matches);
    if given.flag("version")? {
        return Ok(Parsed::Done(Launch::Version));
    }
    match matches.subcommand() {
        None if given.flag("help")? => Ok(Parsed::Done(Launch::Help(Topic::Main))),
        None => run_request(&given).map(|request| Parsed::Run(Box::new(request))),
        Some(("demo", inner)) => demo(&given, inner).map(Parsed::Done),
        Some((name, inner)) => match row(name) {
            Some(row) => subcommand(row, &matches, inner).map(Parsed::Done),
            None => Err(UsageError::CommandUnavailable { name: name.to_owned() }),
        },
    }
}

fn grammar() -> Command {
    let root = Command::new("pollux")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .args_override_self(true)
        .arg(Arg::new("query").num_args(0..).action(ArgAction::Append))
        .args([
            text("prompt").short('p'),
            text("prompt-interactive").short('i'),
            text("model").short('m'),
            text("output-format").short('o'),
            text("output-dialect"),
            text("approval-mode"),
            text("session-id"),
            text("session-file"),
            text("delete-session"),
            text("fake-responses"),
            text("fake-responses-non-strict"),
            text("record-responses"),
        ])
        .args([
            text("resume").short('r').num_args(0..=1).default_missing_value("latest"),
            text("worktree").short('w').num_args(0..=1).default_missing_value(""),
        ])
        .args([
            list("policy"),
            list("admin-policy"),
            list("allowed-tools"),
            list("allowed-mcp-server-names"),
            list("extensions").short('e'),
            list("include-directories"),
        ])
        .args([
            flag("yolo").short('y'),
            flag("sandbox").short('s'),
            flag("skip-trust"),
            flag("list-extensions").short('l'),
            flag("list-sessions"),
            flag("fork"),
            flag("all-projects"),
            flag("screen-reader"),
            flag("acp").alias("experimental-acp"),
            flag("raw-output"),
            flag("accept-raw-output-risk"),
            flag("ignore-env"),
            flag("version").short('v'),
            flag("debug").short('d').global(true),
            flag("help").short('h').global(true),
        ])
        .subcommands(TABLE.iter().map(|row| (row.grammar)()))
        .subcommand(command("demo").args([text("output-format").short('o'), text("output-dialect")]));
    LATER_COMMANDS.iter().fold(root, |root, name| {
        let rest = Arg::new("rest").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
        root.subcommand(command(name).arg(rest))
    })
}

/// Lets a prompt start with a dash: `-p "- first item"` is plainly no flag, since it has spaces.
fn join_dashed_prompts(words: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        let long = match joined.last().map(String::as_str) {
            Some("-p" | "--prompt") => Some("--prompt"),
            Some("-i" | "--prompt-interactive") => Some("--prompt-interactive"),
            _ => None,
        };
        match long {
            Some(long) if word.starts_with('-') && word.contains(char::is_whitespace) => {
                joined.pop();
                joined.push(format!("{long}={word}"));
            }
            _ => joined.push(word),
        }
    }
    joined
}

fn run_request(given: &Given<'_>) -> Result<RunRequest, UsageError> {
    let (prompt, source) = prompt(given)?;
    let mut options = shared_options(given)?;
    options.prompt = prompt;
    options.approval = approval(given)?;
    options.session = session(given)?;
    refuse_unavailable(given)?;
    let action = if given.flag("list-extensions")? {
        Action::ListExtensions
    } else if given.flag("list-sessions")? {
        Action::ListSessions
    } else if let Some(which) = given.text("delete-session") {
        Action::DeleteSession(which.trim().to_owned())
    } else {
        Action::Converse
    };
    Ok(RunRequest { options, source, action })
}

/// What runs and subcommands share.
fn shared_options(given: &Given<'_>) -> Result<Request, UsageError> {
    Ok(Request {
        reserved: reserved(),
        tour: false,
        prompt: None,
        session: SessionChoice::New,
        approval: None,
        overrides: overrides(given)?,
        allowed_tools: given.list("allowed-tools"),
        extensions: given.list("extensions"),
        include_directories: given.list("include-directories"),
        sandbox: given.switch("sandbox")?,
        skip_trust: given.flag("skip-trust")?,
        raw_output: match (given.flag("raw-output")?, given.flag("accept-raw-output-risk")?) {
            (_, true) => RawOutput::RawAccepted,
            (true, false) => RawOutput::Raw,
            (false, false) => RawOutput::Stripped,
        },
        debug: given.flag("debug")?,
        ignore_env: given.flag("ignore-env")?,
        script: script(given),
        remarks: Vec::new(),
    })
}

fn prompt(given: &Given<'_>) -> Result<(Option<String>, PromptSource), UsageError> {
    let words: Option<Vec<&str>> =
        given.0.get_many::<String>("query").map(|words| words.map(String::as_str).collect());
    let flag = given.text("prompt");
    let interactive = given.text("prompt-interactive");
    match (words, flag, interactive) {
        (Some(_), Some(_), _) => Err(UsageError::WordsAndPrompt),
        (_, Some(_), Some(_)) => Err(UsageError::PromptAndInteractive),
        (_, Some(text), None) => Ok((Some(text.to_owned()), PromptSource::Flag)),
        (_, None, Some(text)) => Ok((Some(text.to_owned()), PromptSource::InteractiveFlag)),
        (Some(words), None, None) => Ok((Some(words.join(" ")), PromptSource::Words)),
        (None, None, None) => Ok((None, PromptSource::None)),
    }
}

fn session(given: &Given<'_>) -> Result<SessionChoice, UsageError> {
    let (fork, all_projects) = (given.flag("fork")?, given.flag("all-projects")?);
    if given.text("resume").is_none() && (fork || all_projects) {
        return Err(UsageError::OnlyWithResume(if fork { "--fork" } else { "--all-projects" }));
    }
    match (given.text("resume"), given.text("session-id"), given.path("session-file")) {
        (None, None, None) => Ok(SessionChoice::New),
        (Some(which), None, None) => {
            let which = which.trim();
            let which = if which.is_empty() { "latest" } else { which };
            Ok(SessionChoice::Resume(Resumed { which: which.to_owned(), all_projects, fork }))
        }
        (None, Some(id), None) => Ok(SessionChoice::NewWithId(SessionId::parse(id)?)),
        (None, None, Some(file)) => Ok(SessionChoice::Import(file)),
        _ => Err(UsageError::SeveralSessions),
    }
}

fn overrides(given: &Given<'_>) -> Result<Vec<(String, Value)>, UsageError> {
    let pairs = [
        ("model.name", given.text("model")),
        ("output.format", given.choice("output-format", FORMATS)?),
        ("output.dialect", given.choice("output-dialect", DIALECTS)?),
    ];
    let set = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?))));
    let aloud =
        given.flag("screen-reader")?.then(|| ("ui.accessibility.screenReader".to_owned(), true.into()));
    Ok(set.chain(aloud).chain(policy::overrides(given)).collect())
}

fn script(given: &Given<'_>) -> ScriptedModel {
    let strict = given.path("fake-responses").map(|file| Replies { file, order: ReplyOrder::Strict });
    let fitting =
        given.path("fake-responses-non-strict").map(|file| Replies { file, order: ReplyOrder::FirstFitting });
    ScriptedModel { replies: strict.or(fitting), record: given.path("record-responses") }
}

/// Flags whose silence would be dangerous or puzzling are refused while they can do nothing.
fn refuse_unavailable(given: &Given<'_>) -> Result<(), UsageError> {
    let flag = if given.flag("acp")? {
        "--acp"
    } else if given.text("worktree").is_some() {
        "--worktree"
    } else {
        return Ok(());
    };
    Err(UsageError::FlagUnavailable { flag })
}

fn subcommand(row: &Row, root: &ArgMatches, inner: &ArgMatches) -> Result<Launch, UsageError> {
    let request = || shared_options(&Given(root));
    Ok(match (row.parse)(&Root::new(root, &request), inner)? {
        Subcommand::Help(page) => Launch::Help(Topic::Subcommand { name: row.name, page }),
        Subcommand::Run(command, options) => Launch::Admin { command, options },
    })
}

fn demo(root: &Given<'_>, inner: &ArgMatches) -> Result<Launch, UsageError> {
    let given = Given(inner);
    if given.flag("help")? {
        return Ok(Launch::Help(Topic::Demo));
    }
    let mut options = shared_options(root)?;
    options.debug |= given.flag("debug")?;
    let pairs = [
        ("output.format", given.choice("output-format", FORMATS)?),
        ("output.dialect", given.choice("output-dialect", DIALECTS)?),
    ];
    for (key, value) in pairs {
        if let Some(value) = value {
            options.overrides.retain(|(known, _)| known != key);
            options.overrides.push((key.to_owned(), Value::from(value)));
        }
    }
    Ok(Launch::Demo(Box::new(options)))
}

/// Every command with the commands below it, as the words that name it.
#[cfg(test)]
pub(super) fn command_paths(with_aliases: bool) -> Vec<Vec<String>> {
    fn walk(command: &Command, path: &[String], with_aliases: bool, found: &mut Vec<Vec<String>>) {
        for inner in command.get_subcommands() {
            let aliases = inner.get_all_aliases().filter(|_| with_aliases);
            for name in std::iter::once(inner.get_name()).chain(aliases) {
                let path = [path, &[name.to_owned()]].concat();
                walk(inner, &path, with_aliases, found);
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&grammar(), &[], with_aliases, &mut found);
    found.retain(|path| !LATER_COMMANDS.contains(&path[0].as_str()));
    found
}

#[cfg(test)]
pub(super) fn flag_names() -> Vec<String> {
    grammar().get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}
