//! Runs one program without a shell: input on stdin, separate stdout and stderr, no leftover processes.
//!
//! For a program that exchanges messages while it runs see [`crate::piped_child`].

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pollux_sandbox::Sandbox;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::background::Background;
use crate::child::{self, Child, Start, Starter};
use crate::ending::{Ending, ending_of};
use crate::pipes::{Pipes, pipes};
use crate::starters;

/// How long the pipes are read after the program itself has ended.
const DRAIN_LIMIT: Duration = Duration::from_millis(200);
const KILL_LIMIT: Duration = Duration::from_secs(1);
/// How long a program that reached its limit is looked at once more.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// Default limit of bytes per stream.
const OUTPUT_LIMIT: usize = 1 << 20;

/// A program to start.
#[derive(Debug, Clone)]
pub struct Program {
    pub program: OsString,
    pub arguments: Vec<String>,
    pub directory: PathBuf,
    /// Everything the child sees; see [`crate::environment`].
    pub environment: Vec<(String, String)>,
    /// The input that [`run`] writes to stdin. A piped child is written to while it runs.
    pub input: Vec<u8>,
    /// Time limit for [`run`]. A piped child runs until it is ended.
    pub time_limit: Option<Duration>,
    /// Bytes of stdout and of stderr that [`run`] accepts. The output of a piped child is read by its owner.
    pub output_limit: usize,
    /// The sandbox it runs in.
    pub sandbox: Option<Arc<Sandbox>>,
}

impl Program {
    /// Without input, time limit and sandbox.
    pub fn new(
        program: impl Into<OsString>,
        arguments: Vec<String>,
        directory: impl Into<PathBuf>,
        environment: Vec<(String, String)>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments,
            directory: directory.into(),
            environment,
            input: Vec::new(),
            time_limit: None,
            output_limit: OUTPUT_LIMIT,
            sandbox: None,
        }
    }

    /// What starts it, with these streams.
    pub(crate) fn start(&self, streams: [OwnedFd; 3]) -> Start<'_> {
        Start {
            program: &self.program,
            arguments: self.arguments.iter().map(OsStr::new).collect(),
            directory: &self.directory,
            environment: &self.environment,
            streams,
        }
    }
}

/// The output of a program and how it ended.
#[derive(Debug)]
pub struct ProgramEnd {
    pub ending: ProgramEnding,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnding {
    Exited(i32),
    Signalled(i32),
    Cancelled,
    TimedOut,
    /// It printed more than it may.
    TooMuchOutput,
}

/// How to handle output beyond [`Program::output_limit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// The program is ended.
    Ends,
    /// It is read and dropped: the exit code matters more than the output.
    Dropped,
}

/// Runs a program to its end; whatever it started ends with it.
///
/// Dropping the future kills the whole group. As for [`crate::shell::run`], the calling thread must live
/// as long as the program.
pub async fn run(
    program: &Program,
    background: &Background,
    cancel: &CancellationToken,
) -> io::Result<ProgramEnd> {
    run_with(program, Excess::Ends, background, cancel).await
}

/// Like [`run`], with a choice of how to handle too much output.
pub async fn run_with(
    program: &Program,
    excess: Excess,
    background: &Background,
    cancel: &CancellationToken,
) -> io::Result<ProgramEnd> {
    let (streams, pipes) = pipes()?;
    let start = program.start(streams);
    let (mut child, group) = match background.starter(program.sandbox.as_deref()) {
        Starter::Thread => starters::start(child::plain(start)).await?,
        starter => child::start(start, &starter)?,
    };
    let registered = background.register(&group);
    let mut end = ProgramEnd { ending: ProgramEnding::Cancelled, stdout: Vec::new(), stderr: Vec::new() };
    let deadline = program.time_limit.map(|limit| Instant::now() + limit);
    let ended = {
        let mut talk = pin!(talk(&mut child, pipes, program, excess, &mut end));
        let in_time = async {
            tokio::select! {
                biased;
                ended = &mut talk => ended,
                // After a stop (Ctrl+Z) or a pause of the machine, an answer that came in time is seen together with the
                // limit.
                () = reached(deadline) => timeout(LAST_LOOK, &mut talk).await.unwrap_or(ProgramEnding::TimedOut),
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => ProgramEnding::Cancelled,
            ended = in_time => ended,
        }
    };
    end.ending = ended;
    group.signal(Signal::KILL);
    let _ = timeout(KILL_LIMIT, child.wait()).await;
    drop(registered);
    // All members have been signalled; the id may soon be reused.
    group.release();
    Ok(end)
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Writes, reads and waits concurrently: a program that does all three in turn must not get stuck.
async fn talk(
    child: &mut Child,
    Pipes { mut input, output, errors }: Pipes,
    program: &Program,
    excess: Excess,
    end: &mut ProgramEnd,
) -> ProgramEnding {
    let ProgramEnd { stdout, stderr, .. } = end;
    let limit = program.output_limit;
    let write = async move {
        // A program need not read its input. It ends with this value.
        let _ = input.write_all(&program.input).await;
    };
    let read = async {
        let (first, second) = tokio::join!(
            read_up_to(output, stdout, limit, excess),
            read_up_to(errors, stderr, limit, excess)
        );
        first && second
    };
    tokio::pin!(write, read);
    let mut writing = true;
    loop {
        tokio::select! {
            () = &mut write, if writing => writing = false,
            fits = &mut read => {
                return if fits { ending(child.wait().await) } else { ProgramEnding::TooMuchOutput };
            }
            status = child.wait() => {
                // A grandchild may keep the pipes open for days.
                let fits = timeout_at(Instant::now() + DRAIN_LIMIT, &mut read).await.unwrap_or(true);
                return if fits { ending(status) } else { ProgramEnding::TooMuchOutput };
            }
        }
    }
}

/// Whether to continue: all of it fitted, or the excess may be dropped.
async fn read_up_to(
    mut pipe: impl AsyncRead + Unpin,
    into: &mut Vec<u8>,
    limit: usize,
    excess: Excess,
) -> bool {
    let mut buffer = vec![0; 16 << 10];
    loop {
        match pipe.read(&mut buffer).await {
            Ok(count) if count > 0 => {
                let room = limit.saturating_sub(into.len());
                if count > room && excess == Excess::Ends {
                    return false;
                }
                into.extend_from_slice(buffer.get(..count.min(room)).unwrap_or_default());
            }
            Ok(_) | Err(_) => return true,
        }
    }
}

fn ending(status: io::Result<std::process::ExitStatus>) -> ProgramEnding {
    match ending_of(status) {
        Ending::Exited(code) => ProgramEnding::Exited(code),
        Ending::Signalled(signal) => ProgramEnding::Signalled(signal),
        Ending::Cancelled | Ending::Inactive => ProgramEnding::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(script: &str, change: impl FnOnce(&mut Program)) -> ProgramEnd {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Program {
            program: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            directory: folder.path().to_owned(),
            environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            input: b"in".to_vec(),
            time_limit: None,
            output_limit: 1 << 20,
            sandbox: None,
        };
        change(&mut program);
        let background = Background::new(folder.path().join("logs"));
        run(&program, &background, &CancellationToken::new()).await.unwrap()
    }

    #[tokio::test]
    async fn input_output_and_errors_are_kept_apart() {
        let end = shell("cat; echo bad >&2; exit 3", |_| {}).await;
        assert_eq!(end.ending, ProgramEnding::Exited(3));
        assert_eq!((end.stdout.as_slice(), end.stderr.as_slice()), (b"in".as_slice(), b"bad\n".as_slice()));
    }

    #[tokio::test]
    async fn large_unread_input_does_not_block() {
        let end = shell("echo done", |program| program.input = vec![b'x'; 1 << 20]).await;
        assert_eq!((end.ending, end.stdout.as_slice()), (ProgramEnding::Exited(0), b"done\n".as_slice()));
        let end = shell("cat", |program| program.input = vec![b'x'; 1 << 20]).await;
        assert_eq!(end.stdout.len(), 1 << 20);
    }

    #[tokio::test]
    async fn an_answer_that_came_in_time_counts_although_it_is_seen_late() {
        let stopped = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            std::thread::sleep(Duration::from_millis(700));
        };
        let program =
            shell("echo no; exit 2", |program| program.time_limit = Some(Duration::from_millis(500)));
        let (end, ()) = tokio::join!(program, stopped);
        assert_eq!(end.ending, ProgramEnding::Exited(2));
    }

    #[tokio::test]
    async fn time_and_output_are_limited_and_nothing_is_left_running() {
        let end = shell("echo $$; sleep 1000", |p| p.time_limit = Some(Duration::from_millis(300))).await;
        assert_eq!(end.ending, ProgramEnding::TimedOut);
        let end = shell("yes", |p| p.output_limit = 1000).await;
        assert_eq!(end.ending, ProgramEnding::TooMuchOutput);
        assert!(end.stdout.len() <= 1000);
        let end = shell("ls /proc/self/fd | tr '\\n' ' '", |_| {}).await;
        // The fourth is the folder that `ls` reads.
        assert_eq!(String::from_utf8(end.stdout).unwrap(), "0 1 2 3 ");
        let end = shell("sleep 1000 & echo $!", |_| {}).await;
        assert_eq!(end.ending, ProgramEnding::Exited(0));
        let pid: u32 = String::from_utf8(end.stdout).unwrap().trim().parse().unwrap();
        // Until its new parent collects it, it may still be listed as dead.
        let is_alive = || {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z") && !state.contains(") X")
        };
        for _ in 0..500 {
            if !is_alive() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("process {pid} is still running");
    }
}
