//! Does what was planned.
//!
//! Questions about the program are answered here at once. A headless run is [`prepare`]d step by step, in
//! an order that decides which of several mistakes is reported, and then [`converse`]s.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::{Dialect, Output, OutputFormat};
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::{Colour, Failure, print_result};
use pollux_domain::id::SessionId;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_domain::time::SystemClock;
use pollux_host::VERSION;
use pollux_host::request::{RawOutput, Replies, ReplyOrder, Request};
use pollux_output::telemetry::{Configuration, Identity};
use pollux_output::{Console, Style};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::demo::{self, DemoWorkspace, ProseTo};
use crate::input::{self, Pipe};
use crate::launch::{
    AuthCommand, ExtensionsCommand, Launch, McpCommand, MemoryCommand, SessionsCommand, SkillsCommand,
    help_text,
};
use crate::sessions_command::Streams;
use crate::signals::Signals;
use crate::trust_command::Person;
use crate::{
    agents_command, auth_command, config_command, extensions_command, hooks_command, interactive,
    mcp_command, memory_command, policy_command, sessions_command, skills_command, trust_command, wire,
};

/// Does it, and says how the program is to exit.
pub(crate) fn dispatch(launch: &Launch, env: &Env) -> ExitKind {
    let done = match launch {
        Launch::Version => say(&format!("{VERSION}\n")),
        Launch::Help(topic) => say(help_text(*topic)),
        Launch::Extensions { command, options } => extensions(command, options, env),
        Launch::ListSessions => wire::list_sessions(env).and_then(|(text, notes)| {
            note(&notes);
            say(&text)
        }),
        Launch::DeleteSession { which } => wire::delete_session(which, env).and_then(|text| say(&text)),
        Launch::Config { command, options } => wire::settings(options, env).and_then(|mut settings| {
            note(settings.notes());
            config_command::run(command, &mut *settings, &mut io::stdout())
        }),
        Launch::Policy { command, options } => wire::rules(options, env).and_then(|rules| {
            note(rules.notes());
            policy_command::run(command, &*rules, env.cwd(), &mut io::stdout())
        }),
        Launch::Agents { command, options } => wire::agent_set(options, env).and_then(|mut agents| {
            note(agents.notes());
            agents_command::run(command, &mut *agents, &mut io::stdout())
        }),
        Launch::Hooks { command, options } => wire::hook_set(options, env).and_then(|mut hooks| {
            note(hooks.notes());
            hooks_command::run(command, &mut *hooks, env.cwd(), &mut io::stdout())
        }),
        Launch::Mcp { command, options } => mcp(command, options, env),
        Launch::Skills { command, options } => skills(command, options, env),
        Launch::Trust { command, folder, options } => {
            wire::folder(folder.as_deref(), options, env).and_then(|folder| {
                let mut person = Person {
                    at_terminal: io::stdin().is_terminal() && io::stderr().is_terminal(),
                    input: &mut io::stdin().lock(),
                    screen: &mut io::stderr(),
                };
                trust_command::run(command, &*folder, &mut person, &mut io::stdout())
            })
        }
        Launch::Sessions { command, options } => sessions(command, options, env),
        Launch::Memory { command, options } => memory(command, options, env),
        Launch::Auth { command, options } => auth(command, options, env),
        Launch::Interactive(options) => return interactive::run(options, env),
        Launch::Demo(options) => return tour(options, env),
        Launch::Headless(options) => {
            let piped = !io::stdin().is_terminal();
            let pipe = piped.then(Pipe::of_process);
            return headless(options, env, pipe).exit;
        }
    };
    match done {
        Ok(()) => ExitKind::Success,
        Err(failure) if failure.exit == ExitKind::Success => ExitKind::Success,
        Err(failure) => {
            let _ = failure.print(&mut io::stderr(), stderr_colour(env));
            failure.exit
        }
    }
}

/// `pollux sessions`
fn sessions(command: &SessionsCommand, options: &Request, env: &Env) -> Result<(), Failure> {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let (terminal, watched) = (out.is_terminal(), err.is_terminal());
    let mut archive = wire::archive(options, env, watched)?;
    let mut person = Person {
        at_terminal: io::stdin().is_terminal() && watched,
        input: &mut io::stdin().lock(),
        screen: &mut io::stderr(),
    };
    let bold = terminal && env.get("NO_COLOR").is_none_or(str::is_empty);
    let mut streams = Streams { out: &mut out, err: &mut err, terminal, bold };
    sessions_command::run(command, &mut *archive, &mut person, &mut streams)
}

/// `pollux extensions`
fn extensions(command: &ExtensionsCommand, options: &Request, env: &Env) -> Result<(), Failure> {
    let mut set = wire::extension_set(options, env)?;
    note(set.notes());
    let mut asking = extensions_command::Prompter {
        at_terminal: io::stdin().is_terminal() && io::stderr().is_terminal(),
        input: &mut io::stdin().lock(),
        screen: &mut io::stderr(),
    };
    extensions_command::run(command, &mut *set, &mut asking, env.cwd(), &mut io::stdout(), &mut io::stderr())
}

/// `pollux mcp`
fn mcp(command: &McpCommand, options: &Request, env: &Env) -> Result<(), Failure> {
    let mut servers = wire::server_set(options, env)?;
    note(servers.notes());
    let mut somebody = mcp_command::Somebody {
        at_terminal: io::stdin().is_terminal() && io::stderr().is_terminal(),
        screen: &mut io::stderr(),
    };
    mcp_command::run(command, &mut *servers, &mut somebody, &mut io::stdout(), &mut io::stderr())
}

/// `pollux skills`
fn skills(command: &SkillsCommand, options: &Request, env: &Env) -> Result<(), Failure> {
    let mut skills = wire::skill_set(options, env)?;
    note(skills.notes());
    let mut asked = skills_command::Asked { input: &mut io::stdin().lock(), screen: &mut io::stderr() };
    skills_command::run(command, &mut *skills, env.cwd(), &mut asked, &mut io::stdout())
}

/// `pollux auth`
fn auth(command: &AuthCommand, options: &Request, env: &Env) -> Result<(), Failure> {
    let sign_ins = wire::sign_ins(options, env)?;
    let mut owner = auth_command::Owner {
        at_terminal: io::stdin().is_terminal() && io::stderr().is_terminal(),
        input: &mut io::stdin().lock(),
        screen: &mut io::stderr(),
    };
    auth_command::run(command, &*sign_ins, &mut owner, &mut io::stdout())
}

/// `pollux memory`
fn memory(command: &MemoryCommand, options: &Request, env: &Env) -> Result<(), Failure> {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let (terminal, watched) = (out.is_terminal(), err.is_terminal());
    let mut notebook = wire::notebook(options, env)?;
    let mut person = Person {
        at_terminal: io::stdin().is_terminal() && watched,
        input: &mut io::stdin().lock(),
        screen: &mut io::stderr(),
    };
    let mut streams = Streams { out: &mut out, err: &mut err, terminal, bold: false };
    memory_command::run(command, &mut *notebook, &mut person, &mut streams)
}

/// Prints a result.
fn say(text: &str) -> Result<(), Failure> {
    print_result(&mut io::stdout(), &plain(text))
}

/// Lines beside the result. Nobody can be told when stderr is gone.
fn note(lines: &[String]) {
    let mut err = io::stderr();
    for line in lines {
        let _ = writeln!(err, "{}", redacted(&plain(line)));
    }
}

pub(crate) fn stderr_colour(env: &Env) -> Colour {
    Colour::for_stderr(io::stderr().is_terminal(), env.get("NO_COLOR"))
}

/// What a headless run left.
struct Ended {
    exit: ExitKind,
    session: Option<SessionId>,
    session_file: Option<PathBuf>,
}

impl From<ExitKind> for Ended {
    fn from(exit: ExitKind) -> Self {
        Self { exit, session: None, session_file: None }
    }
}

/// One prompt from start to end.
fn headless(options: &Request, env: &Env, pipe: Option<Pipe>) -> Ended {
    let loaded = match wire::load_settings(options, env) {
        Ok(loaded) => loaded,
        Err(failure) => return Console::of_process(early_style(options, env)).fail(&failure).into(),
    };
    let style = style(&loaded.groups.output, options, env);
    let mut console = Console::of_process(style);
    options.remarks.iter().chain(&loaded.notes).for_each(|line| console.note(line));
    let ready = wire::prepare(options, &loaded, &mut |line| console.note(line))
        .and_then(|turn| Ok((read_prompt(options, pipe, loaded.groups.output.dialect, &mut console)?, turn)));
    match ready {
        Ok((prompt, turn)) => {
            let sandbox = turn.sandbox.in_force(&loaded.env).to_json();
            console.set_conditions(turn.permission.approval, sandbox);
            open_telemetry(&turn, false, &mut console);
            let ended = converse(turn, prompt, console);
            if let Some(session) = &ended.session {
                wire::tidy_up(&loaded, session);
            }
            ended
        }
        Err(failure) => console.fail(&failure).into(),
    }
}

fn read_prompt(
    options: &Request,
    pipe: Option<Pipe>,
    dialect: Dialect,
    console: &mut Console,
) -> Result<String, Failure> {
    let piped = pipe.map(|pipe| pipe.read(input::STDIN_LIMIT)).unwrap_or_default();
    if let Some(warning) = &piped.warning {
        console.note(warning);
    }
    input::combine(&piped.text, options.prompt.as_deref()).ok_or_else(|| match dialect {
        Dialect::GeminiCli => Failure::new(ExitKind::Input, input::NO_INPUT),
        Dialect::Pollux => {
            Failure::new(ExitKind::Input, "no prompt given").hint("use -p TEXT, or pipe text into pollux")
        }
    })
}

/// Tells telemetry, if it is on, whose session this is and how it is set up.
pub(crate) fn open_telemetry(turn: &wire::Prepared<'_>, interactive: bool, console: &mut Console) {
    let wire::Prepared { request: options, loaded, session, credentials, permission, sandbox } = turn;
    let groups = &loaded.groups;
    let identity = Identity {
        session: session.id.as_str().to_owned(),
        installation: loaded.installation.clone(),
        version: VERSION.to_owned(),
        interactive,
        auth_type: credentials.auth_type.clone(),
    };
    let configuration = Configuration {
        model: groups.model.name.clone(),
        sandbox: sandbox.borders.is_some(),
        core_tools: groups.tools.core.clone().unwrap_or_default(),
        approval_mode: permission.approval.to_string(),
        api_key: credentials.api_key,
        vertex: credentials.vertex,
        respect_git_ignore: groups.context.filtering.respect_git_ignore,
        debug: options.debug,
        output_format: groups.output.format.as_str().to_owned(),
    };
    console.open_telemetry(&groups.telemetry, identity, &credentials.secrets, &configuration);
}

/// Runs the turn, with signals answered and events printed.
fn converse(turn: wire::Prepared<'_>, prompt: String, mut console: Console) -> Ended {
    let session = turn.session.id.clone();
    // One thread is enough for waiting, and the cheapest to start.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return console.fail(&cannot_start(&error)).into(),
    };
    let (result, signal) = runtime.block_on(supervised(turn, prompt, &mut console));
    // Whatever still blocks a thread has nothing left to say.
    runtime.shutdown_background();
    match result {
        Ok(done) => Ended {
            exit: console.finish(&done.end, signal),
            session: Some(session),
            session_file: done.session_file,
        },
        Err(failure) => console.fail(&failure).into(),
    }
}

async fn supervised(
    turn: wire::Prepared<'_>,
    prompt: String,
    console: &mut Console,
) -> (Result<wire::Done, Failure>, Option<Received>) {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return (Err(cannot_start(&error)), None),
    };
    let cancel = CancellationToken::new();
    let mut sink = |event: &pollux_domain::event::Event| console.take(event);
    signals.supervise(&cancel, wire::run_turn(turn, prompt, cancel.clone(), &mut sink)).await
}

pub(crate) fn cannot_start(error: &io::Error) -> Failure {
    Failure::new(ExitKind::Failure, "could not start the event loop").because(error)
}

pub(crate) fn style(output: &Output, options: &Request, env: &Env) -> Style {
    Style {
        format: output.format,
        dialect: output.dialect,
        raw: options.raw_output != RawOutput::Stripped,
        colour: stderr_colour(env),
        clock: Arc::new(SystemClock),
        shows_calls: options.tour,
        debug: options.debug,
    }
}

/// The style as far as the command line and the environment tell, for failures before settings are read.
pub(crate) fn early_style(options: &Request, env: &Env) -> Style {
    let flag = |key: &str| {
        let found = options.overrides.iter().find(|(known, _)| known == key);
        found.and_then(|(_, value)| Value::as_str(value))
    };
    let format = OutputFormat::named(flag("output.format"));
    let dialect = Dialect::named(flag("output.dialect").or(env.get("POLLUX_OUTPUT_DIALECT")));
    style(&Output { format, dialect }, options, env)
}

/// `pollux demo`
fn tour(options: &Request, env: &Env) -> ExitKind {
    let prose = ProseTo::with(early_style(options, env).format);
    let laid_out = tempfile::Builder::new().prefix("pollux-demo-").tempdir().and_then(|dir| {
        // Kept: the tour ends with commands that work in it.
        demo::prepare(&dir.keep())
    });
    let workspace = match laid_out {
        Ok(workspace) => workspace,
        Err(error) => {
            let failure = Failure::new(ExitKind::Failure, "could not lay out the tour").because(&error);
            return Console::of_process(early_style(options, env)).fail(&failure);
        }
    };
    tell(prose, &demo::introduction(&workspace));
    let ended = headless(&tour_options(options, &workspace), &tour_env(env, &workspace), None);
    if let Some(session) = &ended.session {
        let diff = workspace.diff().unwrap_or_default();
        tell(prose, &demo::conclusion(&workspace, &diff, session.as_str(), ended.session_file.as_deref()));
    }
    ended.exit
}

fn tell(prose: ProseTo, text: &str) {
    // A tour that nobody listens to any more may go on in silence.
    let _ = match prose {
        ProseTo::Stdout => io::stdout().write_all(text.as_bytes()),
        ProseTo::Stderr => io::stderr().write_all(text.as_bytes()),
    };
}

fn tour_options(given: &Request, workspace: &DemoWorkspace) -> Request {
    let mut options = Request {
        prompt: Some(demo::PROMPT.to_owned()),
        approval: Some(demo::APPROVAL),
        overrides: given.overrides.clone(),
        allowed_tools: demo::ALLOWED_TOOLS.iter().map(|tool| (*tool).to_owned()).collect(),
        skip_trust: true,
        reserved: given.reserved,
        debug: given.debug,
        tour: true,
        ..Request::default()
    };
    options.script.replies =
        Some(Replies { file: workspace.replies.clone(), order: ReplyOrder::FirstFitting });
    options
}

/// The user's environment without anything that steers or pays for a model.
fn tour_env(env: &Env, workspace: &DemoWorkspace) -> Env {
    let foreign = |name: &str| name.starts_with("GEMINI_") || name.starts_with("GOOGLE_");
    let kept = env.iter().filter(|(name, _)| !foreign(name));
    let mut vars: Vec<(String, String)> =
        kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    vars.push(("GEMINI_CLI_HOME".to_owned(), workspace.home.display().to_string()));
    // The scripted model asks for no key, the check before it does.
    vars.push(("GEMINI_API_KEY".to_owned(), "none-needed".to_owned()));
    Env::new(vars, workspace.project.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn env(vars: &[(&str, &str)]) -> Env {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Env::new(vars, PathBuf::from("/w"))
    }

    #[test]
    fn failures_before_the_settings_use_what_the_command_line_says() {
        let options =
            Request { overrides: vec![("output.format".to_owned(), json!("json"))], ..Request::default() };
        let style = early_style(&options, &env(&[("POLLUX_OUTPUT_DIALECT", "gemini-cli")]));
        assert_eq!((style.format, style.dialect), (OutputFormat::Json, Dialect::GeminiCli));
        let plain = early_style(&Request::default(), &env(&[]));
        assert_eq!((plain.format, plain.dialect), (OutputFormat::Text, Dialect::Pollux));
    }

    #[test]
    fn the_tour_sees_nothing_of_the_users_account() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = demo::prepare(dir.path()).unwrap();
        let env =
            tour_env(&env(&[("GEMINI_API_KEY", "real"), ("GOOGLE_X", "y"), ("PATH", "/bin")]), &workspace);
        assert_eq!(env.get("PATH"), Some("/bin"));
        assert_eq!(env.get("GOOGLE_X"), None);
        assert_eq!(env.get("GEMINI_API_KEY"), Some("none-needed"));
        assert_eq!(env.cwd(), workspace.project);
        let options = tour_options(&Request { sandbox: Some(true), ..Request::default() }, &workspace);
        assert_eq!(options.script.replies.unwrap().file, workspace.replies);
        assert!(options.skip_trust);
    }
}
