//! From the flags that were typed to a [`Launch`].

use std::time::Duration;

use clap::{ArgMatches, FromArgMatches};
use pollux_a2a_server::ServeOptions;
use pollux_admin::command_line::{self, Reading, RootOptions, items, mistyped_command};
use pollux_admin::{UsageError, mcp, subcommand};
use pollux_config::budget::{LimitSyntaxError, key, read_flag, read_limit};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::budget::Unit;
use pollux_domain::id::SessionId;
use pollux_front::reserved;
use pollux_host::request::{
    RawOutput, Replies, ReplyOrder, Request, Resumed, ResumedModel, ScriptedModel, SessionChoice,
};
use pollux_resident::commands::RunOptions;
use pollux_stream::StreamOptions;
use serde_json::Value;

use super::CoreCommand;
use super::Launch;
use super::args::{
    A2aArgs, A2aCommand, ApprovalArgs, AttachArgs, BudgetArgs, CompletionsArgs, CoreAction, CoreArgs,
    DemoArgs, FormatArgs, ManArgs, OtherArgs, PromptArgs, PsArgs, RootArgs, ScriptedArgs, SessionArgs,
    StreamArgs, WebArgs, tree,
};
use command_line::Purpose;

/// A command line that was read.
pub(super) enum Parsed {
    /// The surroundings do not matter.
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
    /// `--acp`
    Serve,
    /// `--input-format stream-json`
    Stream(StreamOptions),
    ListExtensions,
    ListSessions,
    DeleteSession(String),
}

/// `pollux acp` takes the flags of a run, so it is read as the flag.
pub(super) fn acp_as_flag(mut words: Vec<String>) -> Vec<String> {
    let wants_help = words.iter().any(|word| word == "--help" || word == "-h");
    if let Some(first) = words.first_mut().filter(|first| *first == "acp" && !wants_help) {
        "--acp".clone_into(first);
    }
    words
}

pub(super) fn parse(words: Vec<String>) -> Result<Parsed, UsageError> {
    if let Some(path) = help_path(&words) {
        return Ok(Parsed::Done(Launch::Help(path)));
    }
    let words = mcp::server_words_last(tree, join_dashed_prompts(words));
    let matches = match command_line::read(tree, &words)? {
        Reading::Matches(matches) => matches,
        Reading::Help(path) => return Ok(Parsed::Done(Launch::Help(path))),
    };
    let root: RootArgs = typed(&matches)?;
    if root.other.version {
        return Ok(Parsed::Done(Launch::Version));
    }
    let Some((name, inner)) = matches.subcommand() else {
        let request = run_request(root)?;
        let mistake = (request.source == PromptSource::Words)
            .then(|| mistyped_command(&tree(Purpose::Show), &words))
            .flatten();
        return mistake.map_or_else(|| Ok(Parsed::Run(Box::new(request))), Err);
    };
    if let ("mcp", Some(("serve", args))) = (name, inner.subcommand()) {
        let (mode, args) = (approval(&root.approvals)?, typed(args)?);
        return Ok(Parsed::Done(Launch::McpServe { flags: flags_before_commands(words), mode, args }));
    }
    launch(root, name, inner).map(Parsed::Done)
}

/// What was given before the names of commands.
fn flags_before_commands(mut words: Vec<String>) -> Vec<String> {
    let first = command_line::positions(&command_line::built(tree), &words).first().copied();
    words.truncate(first.unwrap_or_default());
    words
}

fn launch(root: RootArgs, name: &str, inner: &ArgMatches) -> Result<Launch, UsageError> {
    match name {
        "demo" => match typed::<DemoArgs>(inner)? {
            args if args.format.output_dialect.as_deref() == Some("claude") => Err(needs_stream()),
            args => Ok(Launch::Demo(Box::new(demo(&root, args)))),
        },
        "core" => Ok(core(typed::<CoreArgs>(inner)?)),
        "ps" => Ok(Launch::Ps { json: typed::<PsArgs>(inner)?.json }),
        "attach" => {
            let AttachArgs { session, prompt } = typed(inner)?;
            let options = Request { prompt, attach: true, ..shared_options(&root) };
            Ok(Launch::Attach { which: session, options: Box::new(options) })
        }
        "web" => {
            let WebArgs { watch, no_open } = typed(inner)?;
            Ok(Launch::Web { watch, opens: !no_open })
        }
        // Only for its help, and after other flags.
        "acp" => route_acp(root),
        "a2a" => route_a2a(root, typed::<A2aArgs>(inner)?),
        "completions" => Ok(Launch::Completions(typed::<CompletionsArgs>(inner)?.shell)),
        "schema" => Ok(Launch::Schema),
        "man" => Ok(Launch::Man(typed::<ManArgs>(inner)?.folder)),
        _ => {
            let Some(subcommand) = subcommand(name) else {
                return Err(UsageError::CommandUnavailable { name: name.to_owned() });
            };
            let options =
                RootOptions { request: shared_options(&root), approval: approval(&root.approvals)? };
            let (command, options) = subcommand.resolve(inner, options)?;
            Ok(Launch::Admin { command, options: Box::new(options) })
        }
    }
}

fn core(args: CoreArgs) -> Launch {
    Launch::Core(match args.action.unwrap_or(CoreAction::Status { json: false }) {
        CoreAction::Start => CoreCommand::Start,
        CoreAction::Stop { force } => CoreCommand::Stop { force },
        CoreAction::Restart { force } => CoreCommand::Restart { force },
        CoreAction::Status { json } => CoreCommand::Status { json },
        CoreAction::Logs { lines } => CoreCommand::Logs { lines },
        CoreAction::Run { detached, idle_exit, unload } => {
            return Launch::RunCore(RunOptions { detached, idle_exit, unload });
        }
    })
}

fn route_acp(mut root: RootArgs) -> Result<Launch, UsageError> {
    root.other.acp = true;
    Ok(Launch::Acp(Box::new(run_request(root)?.options)))
}

fn route_a2a(root: RootArgs, args: A2aArgs) -> Result<Launch, UsageError> {
    let A2aCommand::Serve(args) = args.command;
    let max_micro_usd = args.max_usd.map(|given| amount("--max-usd", Unit::Usd, &given)).transpose()?;
    let serve = ServeOptions {
        host: args.host,
        port: args.port,
        store: args.store,
        workspace_root: args.workspace_root,
        token_file: args.token_file,
        no_token: args.no_token,
        replica_id: args.replica_id,
        behind_proxy: args.behind_proxy,
        public_url: args.public_url,
        audit_log: args.audit_log,
        allow_network: args.allow_network,
        max_tasks: args.max_tasks,
        max_tokens: args.max_tokens,
        max_micro_usd,
        max_disk: args.max_disk,
        tls_cert: args.tls_cert,
        tls_key: args.tls_key,
        push: args.push,
        oidc_issuer: args.oidc_issuer,
        oidc_audience: args.oidc_audience,
        jwks: args.jwks,
        signing_key: args.signing_key,
        resume_tasks: args.resume_tasks,
    };
    Ok(Launch::A2aServe(Box::new(run_request(root)?.options), Box::new(serve)))
}

/// An amount that a flag gives.
fn amount(name: &str, unit: Unit, given: &str) -> Result<u64, UsageError> {
    unit.typed(given).ok_or_else(|| UsageError::BadValue {
        name: name.to_owned(),
        given: Some(given.to_owned()),
        expected: "a non-negative number".to_owned(),
    })
}

/// What clap read, as its derived type. It cannot fail, because the tree is built from the same type.
fn typed<T: FromArgMatches>(matches: &ArgMatches) -> Result<T, UsageError> {
    T::from_arg_matches(matches).map_err(|error| UsageError::Malformed(error.to_string()))
}

/// `pollux help`, alone or with the name of a command; anything else is a prompt that begins with "help".
fn help_path(words: &[String]) -> Option<Vec<String>> {
    let (first, names) = words.split_first()?;
    if first != "help" {
        return None;
    }
    if names.is_empty() {
        return Some(Vec::new());
    }
    let path = command_line::path(&command_line::built(tree), names);
    (path.len() == names.len()).then_some(path)
}

/// Lets a prompt start with a dash: `-p "- first item"` has spaces, so it is not a flag.
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

fn run_request(root: RootArgs) -> Result<RunRequest, UsageError> {
    let streams = root.output.stream.input_format.as_deref() == Some("stream-json");
    if root.output.format.output_dialect.as_deref() == Some("claude") {
        return Err(needs_stream());
    }
    let stream = stream(&root.output.stream, root.output.format.output_format.as_deref())?;
    let mut options = shared_options(&root);
    options.overrides.extend(budget(&root.output.budget)?);
    let (prompt, source) = prompt(root.prompt)?;
    if root.other.acp && prompt.is_some() {
        return Err(UsageError::Malformed("`--acp` takes no prompt; the editor sends prompts".to_owned()));
    }
    options.prompt = prompt;
    options.approval = approval(&root.approvals)?;
    let (list_sessions, delete_session) = (root.session.list_sessions, root.session.delete_session.clone());
    options.attach = root.session.attach;
    options.session = session(root.session)?;
    // Flags whose silence would be dangerous or puzzling are refused while they can do nothing.
    if root.other.worktree.is_some() {
        return Err(UsageError::FlagUnavailable { flag: "--worktree" });
    }
    let actions = [root.other.list_extensions, list_sessions, delete_session.is_some()];
    if actions.into_iter().filter(|wanted| *wanted).count() > 1 {
        return Err(UsageError::SeveralActions);
    }
    let action = match delete_session {
        _ if root.other.list_extensions => Action::ListExtensions,
        _ if list_sessions => Action::ListSessions,
        Some(which) => Action::DeleteSession(which.trim().to_owned()),
        None if root.other.acp => Action::Serve,
        None if streams => Action::Stream(stream),
        None => Action::Converse,
    };
    Ok(RunRequest { options, source, action })
}

/// The dialect of Claude Code's SDKs exists in both directions only.
fn needs_stream() -> UsageError {
    UsageError::Malformed("`--output-dialect claude` requires `--input-format stream-json`".to_owned())
}

/// How a program drives the session.
fn stream(args: &StreamArgs, output: Option<&str>) -> Result<StreamOptions, UsageError> {
    let streams = args.input_format.as_deref() == Some("stream-json");
    let needs = |flag: &str, other: &str| Err(UsageError::Malformed(format!("`{flag}` requires `{other}`")));
    if streams && output != Some("stream-json") {
        return needs("--input-format stream-json", "--output-format stream-json");
    }
    if !streams && args.approval_timeout.is_some() {
        return needs("--approval-timeout", "--input-format stream-json");
    }
    if !streams && args.include_partial {
        return needs("--include-partial", "--input-format stream-json");
    }
    Ok(StreamOptions {
        includes_partial: args.include_partial,
        approval_timeout: args.approval_timeout.map(Duration::from_secs),
        claude: None,
    })
}

/// The options that runs and subcommands share.
fn shared_options(root: &RootArgs) -> Request {
    Request {
        reserved: reserved(),
        tour: false,
        prompt: None,
        session: SessionChoice::New,
        attach: false,
        resumed_model: ResumedModel::UnlessNamed,
        approval: None,
        overrides: overrides(root),
        allowed_tools: root.approvals.policy.allowed_tools(),
        excluded_tools: Vec::new(),
        confirmed_tools: Vec::new(),
        extensions: items(&root.other.extensions),
        include_directories: items(&root.approvals.include_directories),
        sandbox: root.approvals.sandbox.clone(),
        sandbox_allow: root.approvals.sandbox_allow.clone(),
        sandbox_report: root.approvals.sandbox_report.clone(),
        receipt: root.output.receipt.clone(),
        hidden_places: Vec::new(),
        skip_trust: root.approvals.skip_trust,
        ignores_project_settings: false,
        raw_output: match (root.output.raw_output, root.output.accept_raw_output_risk) {
            (_, true) => RawOutput::RawAccepted,
            (true, false) => RawOutput::Raw,
            (false, false) => RawOutput::Stripped,
        },
        api_key_env: root.output.api_key_env.clone(),
        debug: root.global.debug,
        ignore_env: root.other.ignore_env,
        script: script(&root.scripted),
        client_servers: Vec::new(),
        client_links: Vec::new(),
        shared_servers: None,
        only_client_servers: false,
        client_tools: None,
        client_files: None,
        client_terminals: None,
        client_hooks: None,
        client_instructions: None,
        without_questions: false,
        remarks: Vec::new(),
    }
}

fn prompt(args: PromptArgs) -> Result<(Option<String>, PromptSource), UsageError> {
    let words = (!args.words.is_empty()).then(|| args.words.join(" "));
    match (words, args.prompt, args.prompt_interactive) {
        (Some(_), Some(_), _) => Err(UsageError::WordsAndPrompt),
        (_, Some(_), Some(_)) => Err(UsageError::PromptAndInteractive),
        (_, Some(text), None) => Ok((Some(text), PromptSource::Flag)),
        (_, None, Some(text)) => Ok((Some(text), PromptSource::InteractiveFlag)),
        (Some(words), None, None) => Ok((Some(words), PromptSource::Words)),
        (None, None, None) => Ok((None, PromptSource::None)),
    }
}

fn approval(args: &ApprovalArgs) -> Result<Option<ApprovalMode>, UsageError> {
    match (args.yolo, args.approval_mode) {
        (true, Some(_)) => Err(UsageError::YoloAndMode),
        (true, None) => Ok(Some(ApprovalMode::Yolo)),
        (false, mode) => Ok(mode),
    }
}

fn session(args: SessionArgs) -> Result<SessionChoice, UsageError> {
    let SessionArgs { resume, resume_or_new: or_new, fork, all_projects, session_id, session_file, .. } =
        args;
    let resume = resume.or_else(|| or_new.then(|| "latest".to_owned()));
    if resume.is_none() && (fork || all_projects) {
        return Err(UsageError::OnlyWithResume(if fork { "--fork" } else { "--all-projects" }));
    }
    match (resume, session_id, session_file) {
        (None, None, None) => Ok(SessionChoice::New),
        (Some(which), None, None) => {
            let which = which.trim();
            let which = if which.is_empty() { "latest" } else { which };
            Ok(SessionChoice::Resume(Resumed { which: which.to_owned(), all_projects, fork, or_new }))
        }
        (None, Some(id), None) => Ok(SessionChoice::NewWithId(SessionId::parse_new(&id)?)),
        (None, None, Some(file)) => Ok(SessionChoice::Import(file)),
        _ => Err(UsageError::SeveralSessions),
    }
}

fn overrides(root: &RootArgs) -> Vec<(String, Value)> {
    let model = root.output.model.iter().map(|name| ("model.name".to_owned(), Value::from(name.as_str())));
    let effort =
        root.output.effort.iter().map(|level| ("model.effort".to_owned(), Value::from(level.as_str())));
    let fallback = items(&root.output.fallback);
    let fallback = (!fallback.is_empty()).then(|| ("model.fallback".to_owned(), Value::from(fallback)));
    let aloud =
        root.other.screen_reader.then(|| ("ui.accessibility.screenReader".to_owned(), Value::from(true)));
    let formats = formats(&root.output.format);
    let settings = deprecated(&root.other);
    model
        .chain(effort)
        .chain(fallback)
        .chain(formats)
        .chain(aloud)
        .chain(settings)
        .chain(root.approvals.policy.overrides())
        .collect()
}

/// The settings of flags that gemini-cli has given up.
fn deprecated(args: &OtherArgs) -> impl Iterator<Item = (String, Value)> {
    let switches = [
        ("general.checkpointing.enabled", args.checkpointing),
        ("telemetry.enabled", args.telemetry),
        ("telemetry.logPrompts", args.telemetry_log_prompts),
    ];
    let switches = switches.into_iter().filter(|(_, on)| *on).map(|(key, _)| (key.to_owned(), true.into()));
    let outfile = args.telemetry_outfile.iter();
    switches.chain(outfile.map(|file| ("telemetry.outfile".to_owned(), file.as_str().into())))
}

fn formats(args: &FormatArgs) -> impl Iterator<Item = (String, Value)> {
    let pairs = [("output.format", &args.output_format), ("output.dialect", &args.output_dialect)];
    let pairs = pairs.into_iter();
    pairs.filter_map(|(key, value)| Some((key.to_owned(), Value::from(value.as_deref()?))))
}

/// Limits as settings; the short flags win over the list.
fn budget(args: &BudgetArgs) -> Result<Vec<(String, Value)>, UsageError> {
    let bad = |name: &str, error: LimitSyntaxError| UsageError::BadValue {
        name: name.to_owned(),
        given: Some(error.got),
        expected: error.expected.to_string(),
    };
    let list = args.budget.as_deref().map(read_flag).transpose().map_err(|error| bad("--budget", error))?;
    let mut limits: Vec<(String, Value)> = list.unwrap_or_default();
    let flags = [
        ("--max-budget-usd", Unit::Usd, &args.max_budget_usd),
        ("--max-tokens-total", Unit::Tokens, &args.max_tokens_total),
        ("--max-requests", Unit::Requests, &args.max_requests),
    ];
    for (name, unit, given) in flags {
        let Some(given) = given else { continue };
        let limit = read_limit(unit, given).map_err(|error| bad(name, error))?;
        let key = key("session", unit);
        limits.retain(|(known, _)| *known != key);
        limits.push((key, limit));
    }
    Ok(limits)
}

fn script(args: &ScriptedArgs) -> ScriptedModel {
    let replies = |file: &Option<std::path::PathBuf>, order| file.clone().map(|file| Replies { file, order });
    let strict = replies(&args.fake_responses, ReplyOrder::Strict);
    let fitting = replies(&args.fake_responses_non_strict, ReplyOrder::FirstFitting);
    ScriptedModel { replies: strict.or(fitting), record: args.record_responses.clone() }
}

fn demo(root: &RootArgs, args: DemoArgs) -> Request {
    let mut options = shared_options(root);
    for (key, value) in formats(&args.format) {
        options.overrides.retain(|(known, _)| *known != key);
        options.overrides.push((key, value));
    }
    if let Some(model) = args.model {
        options.overrides.retain(|(key, _)| key != "model.name");
        options.overrides.push(("model.name".to_owned(), model.into()));
    }
    options
}
