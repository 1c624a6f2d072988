//! A child process and its descendants: spawning, signalling, finding leftovers.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use pollux_domain::terminal_screen::TerminalSize;
use pollux_sandbox::process_table::strays_of;
use rustix::process::Signal;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use crate::child::{self, Child, Start, Starter};
use crate::group::{Group, signal_each};
use crate::pty::{Pty, PtyStep};

/// How long a group may take to end after SIGTERM; upstream's value.
const TERM_GRACE: Duration = Duration::from_millis(200);
/// How long to read what the direct child left in the pipe while others keep writing to it. What a pipe can hold is read
/// however long it takes: on a busy machine this process may not run in that time.
const DRAIN_LIMIT: Duration = Duration::from_millis(100);
/// How long to wait for the kernel to remove a process after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(1);
const PIPE_BYTES: usize = 1 << 20;

/// A running child that leads its own session and process group.
pub(crate) struct Running {
    group: Group,
    child: Child,
    /// `None` once it is at its end.
    output: Option<Output>,
}

/// Where the output of a child arrives.
pub(crate) enum Output {
    /// stdout and stderr share one pipe, so their order is exact.
    Pipe(pipe::Receiver),
    Terminal(Pty),
}

/// What a child has as input, output and errors.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Streams {
    /// No input, and a pipe.
    Pipe,
    Terminal(TerminalSize),
}

/// One step in the life of a child.
pub(crate) enum Step {
    Output(usize),
    OutputEnded,
    /// It read some of what was typed.
    InputTaken,
    Exited(io::Result<ExitStatus>),
}

impl Running {
    /// Starts `program` with `arguments` for a command, with exactly its environment.
    pub(crate) fn start(
        program: &str,
        arguments: &[&str],
        directory: &Path,
        environment: &[(String, String)],
        streams: Streams,
        starter: &Starter<'_>,
    ) -> io::Result<Self> {
        let (output, streams) = match streams {
            Streams::Pipe => pipe_streams()?,
            Streams::Terminal(size) => {
                let (pty, streams) = Pty::open(size)?;
                (Output::Terminal(pty), streams)
            }
        };
        let arguments = arguments.iter().map(OsStr::new).collect();
        let start = Start { program: OsStr::new(program), arguments, directory, environment, streams };
        let (child, group) = child::start(start, starter)?;
        Ok(Self { group, child, output: Some(output) })
    }

    /// Types into the terminal, if there is one.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Some(Output::Terminal(pty)) = &mut self.output {
            pty.write(bytes);
        }
    }

    pub(crate) fn resize(&self, size: TerminalSize) {
        if let Some(Output::Terminal(pty)) = &self.output {
            pty.resize(size);
        }
    }

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// Waits for output or for the end of the direct child. Can be dropped and called again.
    pub(crate) async fn step(&mut self, buffer: &mut [u8]) -> Step {
        let Some(output) = self.output.as_mut() else {
            return Step::Exited(self.child.wait().await);
        };
        tokio::select! {
            step = output.step(buffer) => {
                if matches!(step, Step::OutputEnded) {
                    self.output = None;
                }
                step
            }
            status = self.child.wait() => Step::Exited(status),
        }
    }

    /// Reads what the direct child has printed. Does not wait for the end of the output, which a grandchild may keep
    /// open for days.
    pub(crate) async fn drain(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
        let deadline = Instant::now() + DRAIN_LIMIT;
        match &mut self.output {
            None => {}
            Some(Output::Pipe(output)) => {
                // Bypasses the runtime, which may not have noticed yet that data is available.
                let Ok(descriptor) = output.as_fd().try_clone_to_owned() else { return };
                let mut pipe = io::PipeReader::from(descriptor);
                let mut drained = 0;
                while drained <= PIPE_BYTES || Instant::now() < deadline {
                    match pipe.read(buffer) {
                        Ok(0) => {
                            self.output = None;
                            return;
                        }
                        Ok(count) => {
                            drained += count;
                            take(buffer.get(..count).unwrap_or_default());
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => return,
                    }
                }
            }
            // The kernel moves the output of a terminal a moment later, but always before it reports the end.
            Some(Output::Terminal(pty)) => loop {
                match tokio::time::timeout_at(deadline, pty.step(buffer)).await {
                    Ok(PtyStep::Output(count)) => take(buffer.get(..count).unwrap_or_default()),
                    Ok(PtyStep::Written) => {}
                    Ok(PtyStep::Ended) => {
                        self.output = None;
                        return;
                    }
                    Err(_) => break,
                }
            },
        }
        self.drain_terminal(buffer, take);
    }

    /// Reads what is in the terminal now, without the runtime, whose timers may come first after a pause.
    fn drain_terminal(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
        let Some(Output::Terminal(pty)) = &self.output else { return };
        let mut drained = 0;
        while drained <= PIPE_BYTES {
            match pty.read_waiting(buffer) {
                Some(PtyStep::Output(count)) => {
                    drained += count;
                    take(buffer.get(..count).unwrap_or_default());
                }
                Some(PtyStep::Ended) => {
                    self.output = None;
                    return;
                }
                Some(PtyStep::Written) | None => return,
            }
        }
    }

    /// Kills the complete group and all descendants: SIGTERM, a short grace period, SIGKILL.
    pub(crate) async fn end(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
        // Before any process dies: descendants that left the group can only be found through their parents
        // now.
        let strays = strays_of(self.group.id());
        self.group.signal(Signal::TERM);
        signal_each(&strays, Signal::TERM);
        let deadline = Instant::now() + TERM_GRACE;
        let mut exited = false;
        while !exited {
            match tokio::time::timeout_at(deadline, self.step(buffer)).await {
                Ok(Step::Output(count)) => take(buffer.get(..count).unwrap_or_default()),
                Ok(Step::OutputEnded | Step::InputTaken) => {}
                Ok(Step::Exited(_)) => exited = true,
                Err(_) => break,
            }
        }
        // The leader may have exited while others still clean up.
        while self.group.exists() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.group.signal(Signal::KILL);
        signal_each(&strays, Signal::KILL);
        if !exited {
            let _ = tokio::time::timeout(KILL_LIMIT, self.child.wait()).await;
        }
        self.drain(buffer, take).await;
    }

    /// Releases the child, which has exited; its group and its output may still be in use.
    pub(crate) fn into_leftovers(self) -> (Group, Option<Output>) {
        (self.group, self.output)
    }
}

impl Output {
    /// Waits for output. Can be dropped and called again.
    pub(crate) async fn step(&mut self, buffer: &mut [u8]) -> Step {
        match self {
            Self::Pipe(pipe) => match pipe.read(buffer).await {
                Ok(count) if count > 0 => Step::Output(count),
                Ok(_) | Err(_) => Step::OutputEnded,
            },
            Self::Terminal(pty) => match pty.step(buffer).await {
                PtyStep::Output(count) => Step::Output(count),
                PtyStep::Written => Step::InputTaken,
                PtyStep::Ended => Step::OutputEnded,
            },
        }
    }
}

fn pipe_streams() -> io::Result<(Output, [OwnedFd; 3])> {
    let (reader, writer) = io::pipe()?;
    enlarge(&reader);
    let writer = OwnedFd::from(writer);
    let streams = [File::open("/dev/null")?.into(), writer.try_clone()?, writer];
    Ok((Output::Pipe(pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?), streams))
}

/// Fewer wake-ups for commands that print much. A refusal (the user's pipe quota) leaves the default size.
fn enlarge(pipe: &io::PipeReader) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
    #[cfg(not(target_os = "linux"))]
    let _ = (pipe, PIPE_BYTES);
}
