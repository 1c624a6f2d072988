//! A child process, however it was started: by this program, or by the holder of a sandbox.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitStatus;
#[cfg(target_os = "linux")]
use std::sync::Arc;

#[cfg(target_os = "linux")]
use pollux_sandbox::Guard;
use pollux_sandbox::Sandbox;
use pollux_sandbox::new_session::lead_new_session;
use tokio::process::Command;

use crate::group::Group;

/// A program to start as the leader of its own session, with exactly this environment.
pub(crate) struct Start<'a> {
    pub(crate) program: &'a OsStr,
    pub(crate) arguments: Vec<&'a OsStr>,
    pub(crate) directory: &'a Path,
    pub(crate) environment: &'a [(String, String)],
    /// Input, output, errors. The child gets them, and nobody else keeps them.
    pub(crate) streams: [OwnedFd; 3],
}

/// What starts a program and ends what it leaves behind.
#[derive(Clone)]
pub(crate) enum Starter<'a> {
    Sandbox(&'a Sandbox),
    #[cfg(target_os = "linux")]
    Guard(Arc<Guard>),
    /// Nothing: on Linux, the program is bound to the *thread* that starts it.
    Thread,
}

/// A child of this program, or of a holder.
#[derive(Debug)]
pub(crate) enum Child {
    Own(Box<tokio::process::Child>),
    #[cfg(target_os = "linux")]
    Held(Held),
}

/// A child of a holder, which reports its end.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Held {
    status: tokio::net::UnixStream,
    ended: Option<ExitStatus>,
}

impl Child {
    /// Waits for its end. Can be dropped and called again.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Self::Own(child) => child.wait().await,
            #[cfg(target_os = "linux")]
            Self::Held(held) => held.wait().await,
        }
    }
}

#[cfg(target_os = "linux")]
impl Held {
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(status) = self.ended {
            return Ok(status);
        }
        loop {
            self.status.readable().await?;
            let mut raw = [0; 4];
            // All of it is written at once.
            let status = match self.status.try_read(&mut raw) {
                Ok(4) => i32::from_le_bytes(raw),
                // It ended with its holder.
                Ok(_) => libc::SIGKILL,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let status = ExitStatus::from_raw(status);
            self.ended = Some(status);
            return Ok(status);
        }
    }
}

/// Starts a program.
#[cfg(target_os = "linux")]
pub(crate) fn start(start: Start<'_>, starter: &Starter<'_>) -> io::Result<(Child, Group)> {
    use std::os::fd::AsFd as _;
    if matches!(starter, Starter::Thread) {
        return started(&mut plain(start));
    }
    let Start { program, arguments, directory, environment, streams } = start;
    let [input, output, errors] = &streams;
    let streams = [input.as_fd(), output.as_fd(), errors.as_fd()];
    let request = pollux_sandbox::holder::Start { program, arguments, directory, environment, streams };
    let (held, watch) = match starter {
        Starter::Sandbox(sandbox) => {
            let (held, watch) = sandbox.start(&request)?;
            (held, Some(watch))
        }
        Starter::Guard(guard) => (guard.start(&request)?, None),
        Starter::Thread => return Err(io::ErrorKind::Unsupported.into()),
    };
    let group = Group::held(held.id(), held.own_id(), watch);
    let status = held.into_status();
    status.set_nonblocking(true)?;
    Ok((Child::Held(Held { status: tokio::net::UnixStream::from_std(status)?, ended: None }), group))
}

/// Starts a program.
#[cfg(not(target_os = "linux"))]
pub(crate) fn start(start: Start<'_>, starter: &Starter<'_>) -> io::Result<(Child, Group)> {
    let Starter::Sandbox(sandbox) = starter else { return started(&mut plain(start)) };
    let Start { program, arguments, directory, environment, streams } = start;
    let command = sandbox.command(program, &arguments, directory, environment);
    started(&mut with_streams(Command::from(command), streams))
}

/// The command of a program without a sandbox.
pub(crate) fn plain(start: Start<'_>) -> Command {
    let Start { program, arguments, directory, environment, streams } = start;
    let mut command = Command::new(program);
    let variables = environment.iter().map(|(name, value)| (name, value));
    command.args(arguments).current_dir(directory).env_clear().envs(variables);
    with_streams(command, streams)
}

fn with_streams(mut command: Command, streams: [OwnedFd; 3]) -> Command {
    let [input, output, errors] = streams;
    command.stdin(input).stdout(output).stderr(errors);
    lead_new_session(command.as_std_mut());
    command
}

/// Starts a command that leads its own session.
pub(crate) fn started(command: &mut Command) -> io::Result<(Child, Group)> {
    let child = command.spawn()?;
    let group = Group::led_by(&child)?;
    Ok((Child::Own(Box::new(child)), group))
}
