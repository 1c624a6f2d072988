//! What the subcommands `core` and `ps` do.

use std::collections::VecDeque;
use std::io::{self, BufRead as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_host::VERSION;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Client, Unusable};
use crate::daemon;
use crate::open::failure;
use crate::place::CorePlace;
use crate::wire::{OpenParams, SessionSummary, ShutdownParams, Status, Stopped, WebLink, WebParams, code};

/// The front end that the subcommands are.
const KIND: &str = "cli";
/// How long a core may take to end.
const ENDING: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// The code of a method that the core does not know.
const NO_SUCH_METHOD: i32 = -32601;

/// How `pollux core run` was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Started in the background: leave the terminal.
    pub detached: bool,
    /// Seconds, in place of the settings.
    pub idle_exit: Option<u64>,
    pub unload: Option<u64>,
}

/// What is to happen to turns that are running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turns {
    /// Refuse to stop while there are any.
    Keep,
    Cancel,
}

/// The core did not stop, because turns are running.
#[derive(Debug)]
pub struct Busy(pub String);

/// Starts the core unless it runs; returns its status and whether it was started.
pub async fn start(env: &Env) -> Result<(Status, bool), Failure> {
    let (mut client, started) = daemon::start(env, KIND).await?;
    Ok((status_of(&mut client).await?, started))
}

/// The status of the core; `None` if it does not run.
pub async fn status(env: &Env) -> Result<Option<Status>, Failure> {
    match daemon::connect(env, KIND).await? {
        Some(mut client) => status_of(&mut client).await.map(Some),
        None => Ok(None),
    }
}

async fn status_of(client: &mut Client) -> Result<Status, Failure> {
    client.call("core/status", &json!({})).await.map_err(|error| failure(&error))
}

/// The sessions of the core; `None` if it does not run.
pub async fn list(env: &Env) -> Result<Option<Vec<SessionSummary>>, Failure> {
    let Some(mut client) = daemon::connect(env, KIND).await? else { return Ok(None) };
    sessions(&mut client).await.map(Some)
}

/// The sessions of the core.
pub async fn sessions(client: &mut Client) -> Result<Vec<SessionSummary>, Failure> {
    #[derive(Deserialize)]
    struct List {
        sessions: Vec<SessionSummary>,
    }
    let list: List = client.call("session/list", &json!({})).await.map_err(|error| failure(&error))?;
    Ok(list.sessions)
}

/// A link to the page for browsers. Starts the core unless it runs.
pub async fn web_link(env: &Env, watch: bool) -> Result<WebLink, Failure> {
    let (mut client, _) = daemon::start(env, KIND).await?;
    let program = client.welcome.program.clone();
    client.call("web/link", &WebParams { watch }).await.map_err(|error| match error.code {
        NO_SUCH_METHOD => {
            let text = format!("the core (pollux {program}) does not support `pollux web`");
            Failure::new(ExitKind::Failure, text).hint("run `pollux core restart`")
        }
        _ => failure(&error),
    })
}

/// Stops the core; false if it did not run.
pub async fn stop(env: &Env, turns: Turns) -> Result<Result<bool, Busy>, Failure> {
    let stopped = shut_down(env, ShutdownParams { force: turns == Turns::Cancel, restart: false }).await?;
    Ok(stopped.map(|sessions| sessions.is_some()))
}

/// Stops the core and starts this program's, with the same sessions. Returns their number, and what went wrong.
pub async fn restart(env: &Env, turns: Turns) -> Result<Result<(usize, Vec<String>), Busy>, Failure> {
    let shutdown = ShutdownParams { force: turns == Turns::Cancel, restart: true };
    let sessions = match shut_down(env, shutdown).await? {
        Ok(sessions) => sessions.unwrap_or_default(),
        Err(busy) => return Ok(Err(busy)),
    };
    drop(daemon::start(env, KIND).await?);
    let reopened = join_all(sessions.iter().map(|params| reopen(env, params))).await;
    let problems: Vec<String> = reopened.into_iter().filter_map(Result::err).collect();
    Ok(Ok((sessions.len() - problems.len(), problems)))
}

async fn reopen(env: &Env, params: &OpenParams) -> Result<(), String> {
    let client = daemon::connect(env, KIND).await.map_err(|failure| failure.message())?;
    let mut client = client.ok_or("the core exited again")?;
    let opened = client.call::<Value>("session/open", params).await;
    opened.map(drop).map_err(|error| error.message)
}

/// Ends the core and waits until it is gone; returns what reopens its sessions, `None` if it did not run.
async fn shut_down(
    env: &Env,
    params: ShutdownParams,
) -> Result<Result<Option<Vec<OpenParams>>, Busy>, Failure> {
    let place = CorePlace::of(env)?;
    let mut client = match Client::connect(&place, KIND).await {
        Ok(Some(client)) => client,
        Ok(None) => return Ok(Ok(None)),
        // It speaks another protocol, so it gets a signal. Its front ends open their sessions again.
        Err(Unusable { pid: Some(pid), .. }) => {
            terminate(pid).await?;
            return Ok(Ok(Some(Vec::new())));
        }
        Err(Unusable { failure, pid: None }) => return Err(failure),
    };
    let pid = i32::try_from(client.welcome.pid).unwrap_or_default();
    match client.call::<Stopped>("core/shutdown", &params).await {
        Ok(stopped) => {
            drop(client);
            gone(pid).await?;
            Ok(Ok(Some(stopped.sessions)))
        }
        Err(error) if error.code == code::BUSY => Ok(Err(Busy(error.message))),
        Err(error) => Err(failure(&error)),
    }
}

async fn terminate(pid: i32) -> Result<(), Failure> {
    if let Some(process) = Pid::from_raw(pid) {
        let _ = kill_process(process, Signal::TERM);
    }
    gone(pid).await
}

/// Waits until a process is gone.
async fn gone(pid: i32) -> Result<(), Failure> {
    let Some(process) = Pid::from_raw(pid) else { return Ok(()) };
    let began = Instant::now();
    while test_kill_process(process).is_ok() && !is_zombie(pid) {
        if began.elapsed() > ENDING {
            let text = format!("the core (pid {pid}) did not stop");
            return Err(Failure::new(ExitKind::Failure, text).hint(format!("run `kill {pid}`")));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Whether it has ended and only its parent does not know yet.
fn is_zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

/// The last lines of the log, and its path.
pub fn logs(env: &Env, most: usize) -> Result<(Vec<String>, PathBuf), Failure> {
    let path = CorePlace::of(env)?.log_file();
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), path)),
        Err(error) => {
            let text = format!("could not read `{}`", path.display());
            return Err(Failure::new(ExitKind::Failure, text).because(&error));
        }
    };
    let mut last = VecDeque::new();
    for line in io::BufReader::new(file).lines().map_while(Result::ok) {
        if last.len() == most {
            last.pop_front();
        }
        last.push_back(line);
    }
    Ok((last.into(), path))
}

/// A remark about a core of another version.
pub fn version_remark(status: &Status) -> Option<String> {
    (status.program != VERSION).then(|| format!("to use version {VERSION}, run `pollux core restart`"))
}
