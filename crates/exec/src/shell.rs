//! Runs one shell command to its end, with cancellation, an inactivity limit and bounded output.
//!
//! Does not decide whether the command may run, and does not interpret its output.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::terminals::{CommandInput, CommandTerminal};
use pollux_sandbox::Sandbox;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::background::Background;
use crate::capture::Captured;
pub use crate::ending::Ending;
use crate::ending::ending_of;
use crate::live::LiveFeed;
use crate::process::{Running, Step, Streams};
use crate::screen_feed::ScreenFeed;
use crate::view::View;

const READ_BYTES: usize = 256 << 10;

/// A command for `bash -c`.
#[derive(Debug, Clone)]
pub struct ShellCommand {
    pub text: String,
    pub directory: PathBuf,
    /// Everything the child sees; see [`crate::environment`].
    pub environment: Vec<(String, String)>,
    /// Kills the command after this time without output.
    pub inactivity: Option<Duration>,
    /// Moves the command to the background if it still runs after this time.
    pub background_after: Option<Duration>,
    /// The sandbox it runs in.
    pub sandbox: Option<Arc<Sandbox>>,
}

/// The result of a command.
#[derive(Debug)]
pub enum ShellEnd {
    Finished(Finished),
    /// It continues in the background under this process id.
    MovedToBackground {
        pid: u32,
    },
}

/// A command that no longer runs.
#[derive(Debug)]
pub struct Finished {
    pub ending: Ending,
    pub output: Captured,
    /// The process id, which is also its group's, as the command itself sees it.
    pub pid: u32,
    /// Processes left running in the background with `&`.
    pub background_pids: Vec<u32>,
}

/// A command that did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("could not enter the working directory `{}`: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("could not start `{shell}`: {source}")]
    Shell { shell: &'static str, source: io::Error },
}

/// Runs a command to its end, or until it is moved to the background. It has no input; `watcher` gets what it prints.
///
/// The result comes as soon as the shell itself exits; what it started in the background may hold the
/// pipe open and lives on under `background`. Dropping the future kills the whole group.
///
/// On Linux a child without sandbox and guard is bound to the calling *thread*: call this from a task on a runtime thread that
/// lives as long as the program, not from a blocking pool.
pub async fn run(
    command: &ShellCommand,
    background: &Background,
    watcher: &(dyn Fn(&str) + Send + Sync),
    cancel: &CancellationToken,
) -> Result<ShellEnd, StartError> {
    let view = View::Pipe { captured: Captured::default(), feed: Box::new(LiveFeed::new(watcher)) };
    run_with(command, view, Streams::Pipe, background, cancel).await
}

/// The same in a terminal of its own. Its output is the text that the terminal showed.
pub async fn run_in_terminal(
    command: &ShellCommand,
    background: &Background,
    terminal: &CommandTerminal,
    cancel: &CancellationToken,
) -> Result<ShellEnd, StartError> {
    let size = terminal.size();
    let view = View::Terminal(Box::new(ScreenFeed::new(terminal, size)));
    run_with(command, view, Streams::Terminal(size), background, cancel).await
}

async fn run_with(
    command: &ShellCommand,
    mut view: View<'_>,
    streams: Streams,
    background: &Background,
    cancel: &CancellationToken,
) -> Result<ShellEnd, StartError> {
    let mut running = start(command, streams, background)?;
    let registered = background.register(running.group());
    let mut buffer = vec![0; READ_BYTES];
    let why = supervise(command, &mut running, &mut buffer, &mut view, cancel).await;
    let ending = match why {
        Why::Exited(ending) => {
            running.drain(&mut buffer, |bytes| drop(view.push(bytes))).await;
            ending
        }
        Why::Stopped(ending) => {
            running.end(&mut buffer, |bytes| view.push_unseen(bytes)).await;
            ending
        }
        Why::Moved => {
            let so_far = view.finish();
            let pid = background.adopt(running, registered, &command.text, &so_far);
            return Ok(ShellEnd::MovedToBackground { pid });
        }
    };
    let output = view.finish();
    let pid = pid_of(&running);
    let (group, leftover_output) = running.into_leftovers();
    let background_pids = if group.exists() { group.orphans() } else { Vec::new() };
    background.leave(group, registered, leftover_output);
    Ok(ShellEnd::Finished(Finished { ending, output, pid, background_pids }))
}

/// Why a command is no longer watched.
enum Why {
    Exited(Ending),
    Stopped(Ending),
    /// It continues in the background.
    Moved,
}

async fn supervise(
    command: &ShellCommand,
    running: &mut Running,
    buffer: &mut [u8],
    view: &mut View<'_>,
    cancel: &CancellationToken,
) -> Why {
    let move_at = command.background_after.map(|delay| Instant::now() + delay);
    let mut last_activity = Instant::now();
    loop {
        let silent_at = command.inactivity.map(|limit| last_activity + limit);
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Why::Stopped(Ending::Cancelled),
            () = at(move_at) => return Why::Moved,
            input = view.next_input() => {
                last_activity = Instant::now();
                match input {
                    CommandInput::Typed(bytes) => running.write(&bytes.0),
                    CommandInput::Resized(size) => {
                        running.resize(size);
                        view.resize(size);
                    }
                    CommandInput::MoveToBackground => return Why::Moved,
                }
            }
            step = running.step(buffer) => match step {
                Step::Output(count) => {
                    let answer = view.push(buffer.get(..count).unwrap_or_default());
                    running.write(&answer);
                    last_activity = Instant::now();
                }
                Step::OutputEnded | Step::InputTaken => {}
                Step::Exited(status) => return Why::Exited(ending_of(status)),
            },
            () = at(silent_at) => return Why::Stopped(Ending::Inactive),
            () = at(view.due()) => view.flush(),
        }
    }
}

/// Waits for a moment; never returns if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn start(command: &ShellCommand, streams: Streams, background: &Background) -> Result<Running, StartError> {
    check_directory(&command.directory)?;
    // No startup file is read, which bash would do if it seems to be started by ssh; and options that change
    // the meaning of patterns are off.
    let bash = [
        "--noprofile",
        "--norc",
        "+O",
        "promptvars",
        "+O",
        "nullglob",
        "+O",
        "extglob",
        "+O",
        "nocaseglob",
        "+O",
        "dotglob",
        "-c",
        &command.text,
    ];
    let (directory, environment) = (&command.directory, &command.environment);
    let starter = background.starter(command.sandbox.as_deref());
    match Running::start(bash_program(), &bash, directory, environment, streams, &starter) {
        // Small systems do not have bash.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Running::start("/bin/sh", &["-c", &command.text], directory, environment, streams, &starter)
                .map_err(|source| StartError::Shell { shell: "sh", source })
        }
        result => result.map_err(|source| StartError::Shell { shell: "bash", source }),
    }
}

/// The system's own bash, if there is one: `PATH` may begin with folders that a repository controls.
fn bash_program() -> &'static str {
    let of_system = ["/bin/bash", "/usr/bin/bash"];
    let is_linux = cfg!(target_os = "linux");
    of_system.into_iter().find(|path| is_linux && Path::new(path).is_file()).unwrap_or("bash")
}

fn check_directory(path: &Path) -> Result<(), StartError> {
    let problem = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => io::Error::from(io::ErrorKind::NotADirectory),
        Err(error) => error,
    };
    Err(StartError::Directory { path: path.to_owned(), source: problem })
}

fn pid_of(running: &Running) -> u32 {
    running.group().own_id()
}
