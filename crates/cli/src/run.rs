//! Runs what was planned.
//!
//! Questions about the program are answered here at once. A headless run is [`prepare`]d step by step, in
//! an order that decides which of several mistakes is reported, and then [`converse`]s.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::rc::Rc;

use pollux_admin::Context;
use pollux_admin::mcp::McpServeArgs;
use pollux_config::env::Env;
use pollux_config::groups::Dialect;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::id::SessionId;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_front::remote::SessionProvider;
use pollux_front::stdio::private_streams;
use pollux_front::{Captured, Ports, Subcommands, early_style, open_telemetry, stderr_colour, style};
use pollux_host::prompter::Prompter;
use pollux_host::request::{Replies, ReplyOrder, Request};
use pollux_host::{VERSION, cannot_start};
use pollux_mcp_server::{HttpOptions, ToolChoice};
use pollux_output::Console;
use pollux_web::WebPages;
use tokio_util::sync::CancellationToken;

use crate::core_commands::{self, CoreSessions};
use crate::demo::{self, DemoWorkspace, ProseTo};
use crate::input::{self, Pipe};
use crate::launch::{Launch, help_page};
use crate::reference;
use crate::signals::{Supervisor, supervise};

/// Runs it, and returns how the program exits.
pub(crate) fn dispatch(launch: &Launch, env: &Env) -> ExitKind {
    let done = match launch {
        Launch::Version => say(&format!("{VERSION}\n")),
        Launch::Help(path) => say(&help_page(path)),
        Launch::Completions(shell) => say(&reference::completions(*shell)),
        Launch::Man(None) => reference::main_page().and_then(|page| say(&page)),
        Launch::Man(Some(folder)) => reference::write_pages(folder, env).and_then(|text| say(&text)),
        Launch::Admin { command, options } => admin(command, options, env),
        Launch::ListSessions => pollux_host::list_sessions(env).and_then(|(text, notes)| {
            note(&notes);
            say(&text)
        }),
        Launch::DeleteSession { which } => {
            pollux_host::delete_session(which, env).and_then(|text| say(&text))
        }
        Launch::Interactive(options) => {
            return pollux_front::run(
                options,
                env,
                &Admin,
                &pollux_screen::Screens,
                &CoreSessions::FOR_PEOPLE,
            );
        }
        Launch::RunCore(options) => {
            match pollux_resident::run_core(options, env, Rc::new(WebPages::default())) {
                Ok(exit) => return exit,
                Err(failure) => Err(failure),
            }
        }
        Launch::Core(command) => core_commands::run(command, env).and_then(|text| say(&text)),
        Launch::Ps { json } => core_commands::list(*json, env).and_then(|text| say(&text)),
        Launch::Web { watch, opens } => core_commands::web_link(*watch, env).and_then(|link| {
            say(&format!("{}\n", link.url))?;
            note(&[core_commands::link_remark(&link)]);
            if *opens { core_commands::open_link(&link, env) } else { Ok(()) }
        }),
        Launch::Attach { which, options } => {
            match core_commands::attach(which.as_deref(), options, env, &Admin) {
                Ok(exit) => return exit,
                Err(failure) => Err(failure),
            }
        }
        Launch::Acp(options) => return pollux_acp::run(options, env, ports(&CoreSessions::FOR_EDITORS)),
        Launch::A2aServe(options, serve) => {
            match pollux_a2a_server::run(serve, options, env, Box::new(|line| note(&[line.to_owned()]))) {
                Ok(exit) => return exit,
                Err(failure) => Err(failure),
            }
        }
        Launch::Stream(options, stream) => {
            return pollux_stream::run(options, stream, env, ports(&CoreSessions::FOR_SCRIPTS));
        }
        Launch::McpServe { flags, mode, args } => match serve_mcp(flags, *mode, args, env) {
            Ok(exit) => return exit,
            Err(failure) => Err(failure),
        },
        Launch::RefusedToSdk(why) => say(&pollux_stream::claude_refusal(why))
            .and_then(|()| Err(Failure::new(ExitKind::Failure, why.as_str()))),
        Launch::Schema => say(&format!("{:#}\n", pollux_stream::schema())),
        Launch::Demo(options) => return run_demo(options, env),
        Launch::Headless(options) if options.attach => {
            let pipe = (!io::stdin().is_terminal()).then(Pipe::of_process);
            return core_commands::headless(options, env, pipe);
        }
        Launch::Headless(options) => {
            let piped = !io::stdin().is_terminal();
            let pipe = piped.then(Pipe::of_process);
            return headless(options, env, pipe).exit;
        }
    };
    match done {
        Ok(()) => ExitKind::Success,
        Err(failure) if matches!(failure.exit, ExitKind::Success | ExitKind::Program(_)) => failure.exit,
        Err(failure) => {
            let _ = failure.print(&mut io::stderr(), stderr_colour(env));
            failure.exit
        }
    }
}

/// A subcommand, on the streams of the process.
fn admin(command: &pollux_admin::Command, options: &Request, env: &Env) -> Result<(), Failure> {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let (out_is_terminal, err_is_terminal) = (out.is_terminal(), err.is_terminal());
    let (mut input, mut screen) = (io::stdin().lock(), io::stderr());
    let at_terminal = io::stdin().is_terminal() && err_is_terminal;
    command.run(&mut Context {
        request: options,
        env,
        out: &mut out,
        err: &mut err,
        out_is_terminal,
        err_is_terminal,
        shows_notes: true,
        prompter: Prompter { at_terminal, input: &mut input, screen: &mut screen },
    })
}

/// What a conversation of another program gets from this one.
fn ports(sessions: &'static dyn SessionProvider) -> Ports<'static> {
    Ports { subcommands: &Admin, screens: &pollux_screen::Screens, sessions }
}

/// Serves another agent on the streams of the process, or others over HTTP.
fn serve_mcp(
    flags: &[String],
    mode: Option<ApprovalMode>,
    args: &McpServeArgs,
    env: &Env,
) -> Result<ExitKind, Failure> {
    let executable = std::env::current_exe().map_err(|error| cannot_start(&error))?;
    let flags = flags.iter().map(Into::into).collect();
    let (folder, depth) = (env.cwd().to_path_buf(), env.get("POLLUX_DEPTH"));
    let program = pollux_mcp_server::Program::new(executable, flags, mode, folder, depth)
        .map_err(|reason| Failure::new(ExitKind::Failure, reason))?;
    let program = program.with_tools(args.tools.as_deref().map(ToolChoice::read).unwrap_or_default());
    if args.http {
        let token_file = args.token_file.as_ref().map(|file| env.cwd().join(file));
        let options = HttpOptions { port: args.port.unwrap_or_default(), token_file };
        // A closed stderr cannot be reported.
        let tell = |line: &str| drop(writeln!(io::stderr(), "{line}"));
        return pollux_mcp_server::serve_http(program, &options, &tell);
    }
    let (input, output) = private_streams().map_err(|error| cannot_start(&error))?;
    pollux_mcp_server::serve(program, input, output).map_err(|error| cannot_start(&error))
}

/// The subcommands, as conversations use them.
pub(crate) struct Admin;

impl Subcommands for Admin {
    fn run(&self, words: &[&str], request: &Request, env: &Env, prompter: Prompter<'_>) -> Captured {
        let pollux_admin::Captured { out, err, result } =
            pollux_admin::run_line(words, request, env, prompter);
        Captured { out, err, result }
    }
}

/// Prints a result.
fn say(text: &str) -> Result<(), Failure> {
    print_result(&mut io::stdout(), &plain(text))
}

/// Prints lines on stderr; a closed stderr cannot be reported.
fn note(lines: &[String]) {
    let mut err = io::stderr();
    for line in lines {
        let _ = writeln!(err, "{}", redacted(&plain(line)));
    }
}

/// The end of a headless run.
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
    let mut loaded = match pollux_host::load_settings(options, env) {
        Ok(loaded) => loaded,
        Err(failure) => return Console::of_process(early_style(options, env)).fail(&failure).into(),
    };
    let style = style(&loaded.groups.output, options, env);
    let mut console = Console::of_process(style);
    options.remarks.iter().chain(&loaded.notes).for_each(|line| console.note(line));
    let dialect = loaded.groups.output.dialect;
    let ready = pollux_host::prepare_headless(options, &mut loaded, &mut |line| console.note(line)).and_then(
        |turn| {
            let mut supervisor = Supervisor::start().map_err(|error| cannot_start(&error))?;
            Ok((read_prompt(options, pipe, dialect, &mut supervisor, &mut console)?, turn, supervisor))
        },
    );
    match ready {
        Ok((Ok(prompt), turn, supervisor)) => {
            let loaded = turn.loaded;
            let sandbox = turn.sandbox.in_force(&loaded.env).to_json();
            console.set_conditions(turn.permission.approval, sandbox);
            if let Some(line) = open_telemetry(&turn, false, &mut console) {
                console.note(&line);
            }
            let ended = converse(turn, prompt, supervisor, console);
            if let Some(session) = &ended.session {
                pollux_host::tidy_up(loaded, session);
            }
            ended
        }
        Ok((Err(received), ..)) => console.finish(&TurnEnd::Cancelled, Some(received)).into(),
        Err(failure) => console.fail(&failure).into(),
    }
}

/// The prompt of a headless run, or the signal that ended the wait for it.
pub(crate) fn read_prompt(
    options: &Request,
    pipe: Option<Pipe>,
    dialect: Dialect,
    supervisor: &mut Supervisor,
    console: &mut Console,
) -> Result<Result<String, Received>, Failure> {
    let piped = match pipe {
        Some(pipe) if pipe.may_wait() => {
            match supervisor.unless_signalled(move || pipe.read(input::STDIN_LIMIT)) {
                Ok(piped) => piped.unwrap_or_default(),
                Err(received) => return Ok(Err(received)),
            }
        }
        pipe => pipe.map(|pipe| pipe.read(input::STDIN_LIMIT)).unwrap_or_default(),
    };
    if let Some(warning) = &piped.warning {
        console.note(warning);
    }
    input::combine(&piped.text, options.prompt.as_deref()).map(Ok).ok_or_else(|| match dialect {
        Dialect::GeminiCli => Failure::new(ExitKind::Input, input::NO_INPUT),
        Dialect::Pollux => {
            let summary = if options.prompt.is_some() { "the prompt is empty" } else { "no prompt given" };
            Failure::new(ExitKind::Input, summary).hint("use `-p TEXT`, or pipe text into `pollux`")
        }
    })
}

/// Runs the turn, with signals answered and events printed.
fn converse(
    turn: pollux_host::Prepared<'_>,
    prompt: String,
    supervisor: Supervisor,
    mut console: Console,
) -> Ended {
    let session = turn.session.id.clone();
    let Supervisor { runtime, mut signals } = supervisor;
    let (result, signal) = runtime.block_on(async {
        let cancel = CancellationToken::new();
        let mut sink = |event: &Event| console.take(event);
        let work = pollux_host::run_turn(turn, prompt, cancel.clone(), &mut sink);
        supervise(&mut signals, &cancel, work).await
    });
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

/// `pollux demo`
fn run_demo(options: &Request, env: &Env) -> ExitKind {
    let prose = ProseTo::with(early_style(options, env).format);
    let laid_out = tempfile::Builder::new().prefix("pollux-demo-").tempdir().and_then(|dir| {
        // Kept: the demo ends with commands that work in it.
        demo::prepare(&dir.keep())
    });
    let workspace = match laid_out {
        Ok(workspace) => workspace,
        Err(error) => {
            let failure =
                Failure::new(ExitKind::Failure, "could not create the demo project").because(&error);
            return Console::of_process(early_style(options, env)).fail(&failure);
        }
    };
    let real = match real_model(options, env, &workspace) {
        Ok(real) => real,
        Err(failure) => return Console::of_process(early_style(options, env)).fail(&failure),
    };
    if real.is_none() && prose == ProseTo::Stdout && io::stdin().is_terminal() && io::stdout().is_terminal() {
        return demo_on_screen(options, env, &workspace);
    }
    tell(prose, &demo::introduction(&workspace, real.as_deref()));
    let began = std::time::Instant::now();
    let options = demo_options(options, &workspace, real.as_deref());
    let ended = headless(&options, &demo_env(env, &workspace), None);
    if let Some(session) = &ended.session {
        let diff = workspace.diff().unwrap_or_default();
        if let Some(model) = real {
            let seconds = began.elapsed().as_secs();
            let file = ended.session_file.as_deref();
            tell(prose, &demo::local::report(&model, file, !diff.is_empty(), seconds));
        }
        tell(prose, &demo::conclusion(&workspace, &diff, session.as_str(), ended.session_file.as_deref()));
    }
    ended.exit
}

/// The demo as a person meets the program: on the screen, with one change to approve.
fn demo_on_screen(options: &Request, env: &Env, workspace: &DemoWorkspace) -> ExitKind {
    tell(ProseTo::Stdout, &demo::screen_introduction(workspace));
    let mut options = demo_options(options, workspace, None);
    options.approval = Some(ApprovalMode::Default);
    let env = demo_env(env, workspace);
    let exit = pollux_front::run(&options, &env, &Admin, &pollux_screen::Screens, &CoreSessions::FOR_PEOPLE);
    tell(ProseTo::Stdout, &demo::screen_conclusion(workspace, &workspace.diff().unwrap_or_default()));
    exit
}

/// The real model of a demo, if `--model` asks for one, with the settings that it needs.
fn real_model(options: &Request, env: &Env, workspace: &DemoWorkspace) -> Result<Option<String>, Failure> {
    let wanted = options.overrides.iter().find(|(key, _)| key == "model.name");
    let Some(wanted) = wanted.and_then(|(_, name)| name.as_str()) else { return Ok(None) };
    let model = demo::local::find(wanted, env)?;
    workspace.settings(&model.settings).map_err(|error| {
        Failure::new(ExitKind::Failure, "could not create the demo project").because(&error)
    })?;
    Ok(Some(model.name))
}

fn tell(prose: ProseTo, text: &str) {
    // The demo also runs when its output is closed.
    let _ = match prose {
        ProseTo::Stdout => io::stdout().write_all(text.as_bytes()),
        ProseTo::Stderr => io::stderr().write_all(text.as_bytes()),
    };
}

fn demo_options(given: &Request, workspace: &DemoWorkspace, real: Option<&str>) -> Request {
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
    match real {
        Some(model) => {
            options.overrides.retain(|(key, _)| key != "model.name");
            options.overrides.push(("model.name".to_owned(), model.into()));
        }
        None => {
            options.script.replies =
                Some(Replies { file: workspace.replies.clone(), order: ReplyOrder::FirstFitting });
        }
    }
    options
}

/// The user's environment without anything that steers or pays for a model.
fn demo_env(env: &Env, workspace: &DemoWorkspace) -> Env {
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

    fn env(vars: &[(&str, &str)]) -> Env {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Env::new(vars, PathBuf::from("/w"))
    }

    #[test]
    fn the_demo_sees_nothing_of_the_users_account() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = demo::prepare(dir.path()).unwrap();
        let env =
            demo_env(&env(&[("GEMINI_API_KEY", "real"), ("GOOGLE_X", "y"), ("PATH", "/bin")]), &workspace);
        assert_eq!(env.get("PATH"), Some("/bin"));
        assert_eq!(env.get("GOOGLE_X"), None);
        assert_eq!(env.get("GEMINI_API_KEY"), Some("none-needed"));
        assert_eq!(env.cwd(), workspace.project);
        let options = demo_options(
            &Request { sandbox: Some("true".to_owned()), ..Request::default() },
            &workspace,
            None,
        );
        assert_eq!(options.script.replies.unwrap().file, workspace.replies);
        assert!(options.skip_trust);
    }
}
