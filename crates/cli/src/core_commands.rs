//! `pollux core`, `pollux ps`, `pollux web` and `pollux attach`, and sessions that run in the resident core.

use std::io::{self, BufRead as _, IsTerminal, Write as _};
use std::path::PathBuf;

use pollux_admin::columns::columns;
use pollux_config::env::Env;
use pollux_domain::content::Content;
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::{Clock as _, SystemClock, Timestamp};
use pollux_front::front_end::Pending;
use pollux_front::remote::{RemoteSession, RunningSession, SessionProvider};
use pollux_front::signals::Signals;
use pollux_front::{Subcommands, early_style, style};
use pollux_host::browser::{has_screen, open_in_browser};
use pollux_host::request::{Request, Resumed, SessionChoice};
use pollux_host::sessions::saved_sessions;
use pollux_host::{Conversation, Loaded, Prepared, cannot_start};
use pollux_output::Console;
use pollux_resident::commands::{Busy, Turns};
use pollux_resident::wire::{SessionSummary, Status, WebLink};
use pollux_resident::{commands, connect, connect_or_start, open_params, open_remote};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::input::Pipe;
use crate::launch::CoreCommand;
use crate::run::read_prompt;
use crate::signals::{Supervisor, supervise};

/// Runs a future of the core's client.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| cannot_start(&error))?.block_on(future)
}

/// `pollux core`; returns what is printed.
pub(crate) fn run(command: &CoreCommand, env: &Env) -> Result<String, Failure> {
    match command {
        CoreCommand::Start => {
            let (status, started) = block_on(commands::start(env))?;
            let done = if started { "Started the core" } else { "The core is already running" };
            let remark = commands::version_remark(&status).map(|text| format!("{text}\n"));
            Ok(format!("{done} (pid {}).\n{}", status.pid, remark.unwrap_or_default()))
        }
        CoreCommand::Stop { force } => {
            match unless_busy(*force, |turns| block_on(commands::stop(env, turns)))? {
                true => Ok("Stopped the core. Its sessions are saved.\n".to_owned()),
                false => Ok("The core is not running.\n".to_owned()),
            }
        }
        CoreCommand::Restart { force } => {
            let (count, problems) = unless_busy(*force, |turns| block_on(commands::restart(env, turns)))?;
            let lines = problems.iter().map(|problem| format!("could not reopen a session: {problem}\n"));
            Ok(format!("Restarted the core with {}.\n{}", sessions(count), lines.collect::<String>()))
        }
        CoreCommand::Status { json } => {
            let status = block_on(commands::status(env))?.ok_or_else(not_running)?;
            Ok(if *json { format!("{:#}\n", json!(status)) } else { status_text(&status) })
        }
        CoreCommand::Logs { lines } => {
            let (lines, path) = commands::logs(env, *lines)?;
            match lines.is_empty() {
                true => Ok(format!("No log at {}.\n", path.display())),
                false => Ok(lines.join("\n") + "\n"),
            }
        }
    }
}

/// Does it; asks a person at a terminal whether running turns are to be cancelled.
fn unless_busy<T>(
    force: bool,
    run: impl Fn(Turns) -> Result<Result<T, Busy>, Failure>,
) -> Result<T, Failure> {
    let refused = match run(if force { Turns::Cancel } else { Turns::Keep })? {
        Ok(done) => return Ok(done),
        Err(Busy(text)) => text,
    };
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "{refused}. Cancel running turns? [y/N] ");
        let mut answer = String::new();
        let _ = io::stdin().lock().read_line(&mut answer);
        if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
            && let Ok(done) = run(Turns::Cancel)?
        {
            return Ok(done);
        }
    }
    Err(Failure::new(ExitKind::Failure, refused).hint("wait for them, or use `--force` to cancel them"))
}

fn sessions(count: usize) -> String {
    format!("{count} session{}", if count == 1 { "" } else { "s" })
}

fn not_running() -> Failure {
    Failure::new(ExitKind::Failure, "the core is not running").hint("run `pollux core start`")
}

fn status_text(status: &Status) -> String {
    let uptime = Timestamp::parse(&status.started_at).map(ago).unwrap_or_default();
    let remark = commands::version_remark(status).map(|remark| format!(" ({remark})"));
    let idle = match status.idle_exit {
        0 => "never".to_owned(),
        minutes => format!("after {minutes} min without use"),
    };
    let busy = if status.busy > 0 { format!(", {} busy", status.busy) } else { String::new() };
    let rows = [
        ["Version".to_owned(), format!("{}{}", status.program, remark.unwrap_or_default())],
        ["Process".to_owned(), status.pid.to_string()],
        ["Uptime".to_owned(), uptime],
        ["Sessions".to_owned(), format!("{}{busy}", status.sessions)],
        // This command is one of them.
        ["Front ends".to_owned(), status.connections.saturating_sub(1).to_string()],
        ["Exits".to_owned(), idle],
    ];
    columns(rows, &[])
}

/// How long ago something was.
fn ago(then: Timestamp) -> String {
    let seconds = (SystemClock.now().millis() - then.millis()).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `pollux ps`; returns what is printed.
pub(crate) fn list(as_json: bool, env: &Env) -> Result<String, Failure> {
    let sessions = block_on(commands::list(env))?;
    if as_json {
        return Ok(format!("{:#}\n", json!(sessions.unwrap_or_default())));
    }
    let Some(mut sessions) = sessions else { return Ok("The core is not running.\n".to_owned()) };
    if sessions.is_empty() {
        return Ok("No sessions.\n".to_owned());
    }
    sessions.sort_by(|one, other| other.active_at.cmp(&one.active_at));
    let heading = ["SESSION", "STATE", "FRONT ENDS", "ACTIVE", "MODEL", "FOLDER", "TITLE"].map(str::to_owned);
    Ok(columns([heading].into_iter().chain(sessions.iter().map(row)), &[]))
}

fn row(session: &SessionSummary) -> [String; 7] {
    let active = Timestamp::parse(&session.active_at).map(ago).unwrap_or_default();
    [
        session.session.chars().take(8).collect(),
        session.state.clone(),
        session.fronts.join(", "),
        format!("{active} ago"),
        one_line(&session.model),
        one_line(&session.cwd.display().to_string()),
        one_line(session.title.as_deref().unwrap_or_default()),
    ]
}

/// A link to the page for browsers.
pub(crate) fn web_link(watch: bool, env: &Env) -> Result<WebLink, Failure> {
    block_on(commands::web_link(env, watch))
}

/// How long a link works.
pub(crate) fn link_remark(link: &WebLink) -> String {
    format!(
        "The link works once and expires in {} seconds. For a new one, run this command again.",
        link.seconds
    )
}

/// Opens a link, unless no browser would appear. One that does not open is not a failure: the link is on the screen.
pub(crate) fn open_link(link: &WebLink, env: &Env) -> Result<(), Failure> {
    if has_screen(env) {
        block_on(async { Ok(open_in_browser(&link.url, env).await) })?;
    }
    Ok(())
}

/// `pollux attach`
pub(crate) fn attach(
    which: Option<&str>,
    options: &Request,
    env: &Env,
    subcommands: &dyn Subcommands,
) -> Result<ExitKind, Failure> {
    let (id, folder) = block_on(find(which, env))?;
    let mut options = options.clone();
    options.session = SessionChoice::Resume(Resumed { which: id, ..Resumed::default() });
    let env = env.in_folder(folder);
    if options.prompt.is_some() {
        return Ok(headless(&options, &env, None));
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::new(ExitKind::Input, "cannot attach without a terminal")
            .hint("use `-p TEXT` to send a prompt"));
    }
    Ok(pollux_front::run(&options, &env, subcommands, &pollux_screen::Screens, &CoreSessions::FOR_PEOPLE))
}

/// The id and the folder of a session of the core, or of one that is stored.
async fn find(which: Option<&str>, env: &Env) -> Result<(String, PathBuf), Failure> {
    let running = commands::list(env).await?.unwrap_or_default();
    let mut alive: Vec<SessionSummary> = running
        .into_iter()
        .filter(|session| session.state != "crashed" && session.state != "ended")
        .collect();
    alive.sort_by(|one, other| other.active_at.cmp(&one.active_at));
    let Some(which) = which else {
        let own = alive.iter().find(|session| env.cwd().starts_with(&session.cwd));
        let found = own.or(alive.first()).map(|session| (session.session.clone(), session.cwd.clone()));
        return found.ok_or_else(|| {
            Failure::new(ExitKind::Input, "the core has no sessions")
                .hint("run `pollux --attach` to start one, or name a saved session")
        });
    };
    let stored = saved_sessions(env, Some(env.cwd()))?.into_iter().chain(saved_sessions(env, None)?);
    let stored = stored.filter_map(|saved| Some((saved.id, saved.folder?)));
    let all = alive.into_iter().map(|session| (session.session, session.cwd)).chain(stored);
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for (id, folder) in all.filter(|(id, _)| !which.is_empty() && id.starts_with(which)) {
        if id == which {
            return Ok((id, folder));
        }
        if !found.iter().any(|(known, _)| *known == id) {
            found.push((id, folder));
        }
    }
    let fail = |text: String| Err(Failure::new(ExitKind::Input, text).hint("run `pollux ps`"));
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => fail(format!("several sessions match \"{}\"", one_line(which))),
        (None, _) => fail(format!("no session matches \"{}\"", one_line(which))),
    }
}

/// Sessions in the core.
pub(crate) struct CoreSessions {
    /// The kind of front end.
    kind: &'static str,
    /// Whether the settings can ask for the core too. Sessions of other programs run there only by name, because the
    /// core cannot use the program's files, servers and tools.
    by_settings: bool,
}

impl CoreSessions {
    pub(crate) const FOR_PEOPLE: Self = Self { kind: "tui", by_settings: true };
    pub(crate) const FOR_EDITORS: Self = Self { kind: "acp", by_settings: false };
    pub(crate) const FOR_SCRIPTS: Self = Self { kind: "stream", by_settings: false };
}

impl SessionProvider for CoreSessions {
    fn open<'a>(
        &'a self,
        request: &'a Request,
        loaded: &'a Loaded,
        env: &'a Env,
        begin: &'a [Content],
    ) -> Pending<'a, Result<Option<RemoteSession>, Failure>> {
        if !request.attach && !self.by_settings {
            return Box::pin(std::future::ready(Ok(None)));
        }
        Box::pin(open(request, loaded, env, begin, self.kind))
    }

    fn running<'a>(&'a self, env: &'a Env, session: &'a str) -> Pending<'a, Option<RunningSession>> {
        Box::pin(async move {
            // A core that cannot be asked has nothing to attach to.
            let all = commands::list(env).await.ok().flatten()?;
            let found = all.into_iter().find(|summary| summary.session == session)?;
            let is_working = match found.state.as_str() {
                "idle" => false,
                "busy" | "waiting" => true,
                _ => return None,
            };
            Some(RunningSession { folder: found.cwd, is_working })
        })
    }
}

async fn open(
    request: &Request,
    loaded: &Loaded,
    env: &Env,
    begin: &[Content],
    kind: &str,
) -> Result<Option<RemoteSession>, Failure> {
    let mode = loaded.settings.get("core.mode").and_then(|(value, _)| value.as_str());
    let client = match mode {
        _ if request.attach => connect_or_start(env, kind).await?,
        Some("always") => connect_or_start(env, kind).await?,
        // One that cannot be used is as good as none.
        Some("auto") => match connect(env, kind).await {
            Ok(Some(client)) => client,
            Ok(None) | Err(_) => return Ok(None),
        },
        _ => return Ok(None),
    };
    let named = loaded.settings.get("core.environment").and_then(|(value, _)| value.as_array());
    let named = named.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let params = open_params(request, env, &named.collect::<Vec<_>>(), begin);
    open_remote(client, params, env, kind).await.map(Some)
}

/// One prompt in a session of the core, which goes on afterwards.
pub(crate) fn headless(options: &Request, env: &Env, pipe: Option<Pipe>) -> ExitKind {
    let loaded = match pollux_host::load_settings(options, env) {
        Ok(loaded) => loaded,
        Err(failure) => return Console::of_process(early_style(options, env)).fail(&failure),
    };
    let mut console = Console::of_process(style(&loaded.groups.output, options, env));
    let dialect = loaded.groups.output.dialect;
    let done =
        Supervisor::start().map_err(|error| cannot_start(&error)).and_then(
            |mut supervisor| match read_prompt(options, pipe, dialect, &mut supervisor, &mut console)? {
                Ok(prompt) => {
                    let Supervisor { runtime, mut signals } = supervisor;
                    runtime.block_on(prompted(options, &loaded, env, prompt, &mut signals, &mut console))
                }
                Err(received) => Ok((TurnEnd::Cancelled, Some(received))),
            },
        );
    match done {
        Ok((end, signal)) => console.finish(&end, signal),
        Err(failure) => console.fail(&failure),
    }
}

type Ended = (TurnEnd, Option<pollux_domain::exit::Received>);

async fn prompted(
    options: &Request,
    loaded: &Loaded,
    env: &Env,
    prompt: String,
    signals: &mut Signals,
    console: &mut Console,
) -> Result<Ended, Failure> {
    let remote = open(options, loaded, env, &[], "cli").await?.ok_or_else(not_running)?;
    let RemoteSession { link, report, notes, .. } = remote;
    notes.iter().for_each(|line| console.note(line));
    let id = report.id.clone();
    let turn = Prepared::attached(options, loaded, &report);
    let conversation = Conversation::attached(link, &turn, report.file)?;
    let cancel = CancellationToken::new();
    let mut sink = |event: &Event| {
        if let Event::ApprovalWanted(request) = event {
            let tool = one_line(&request.display_name);
            console.note(&format!("{tool} needs approval. To answer: pollux attach {id}"));
        }
        console.take(event)
    };
    let typed = options.prompt.as_deref();
    let work = pollux_host::run_attached_turn(conversation, loaded, prompt, typed, cancel.clone(), &mut sink);
    let (end, signal) = supervise(signals, &cancel, work).await;
    Ok((end?, signal))
}
