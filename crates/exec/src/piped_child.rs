//! A long-running child with pipes to all three of its streams, such as an MCP server.
//!
//! Use it for a program that exchanges messages while it runs; for a single run see [`crate::program`]. The
//! child and its process group are killed when the value is dropped.

use std::io;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::timeout;

use crate::background::{Background, Registered};
use crate::child::{self, Child};
use crate::ending::{Ending, ending_of};
use crate::group::Group;
pub use crate::pipes::Pipes;
use crate::pipes::pipes;
use crate::program::Program;

/// How long it may take to exit once its input is closed, where its last words and its code are reported.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// The same where nobody wants to know. A server may save its state then, but not every server heeds the end of its
/// input, and the end of a run waits for it.
const QUIET_GRACE: Duration = Duration::from_secs(2);
/// How long it may take to exit after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(1);
const KILL_LIMIT: Duration = Duration::from_secs(1);

/// A running program and its descendants. Killed when dropped.
pub struct PipedChild {
    child: Child,
    group: Group,
    _registered: Registered,
}

/// Starts a program as the leader of its own group, with no descriptor but its three streams.
///
/// The calling thread must live as long as the program: the kernel ends it with the thread.
pub fn start(program: &Program, background: &Background) -> io::Result<(PipedChild, Pipes)> {
    let (streams, pipes) = pipes()?;
    let (child, group) =
        child::start(program.start(streams), &background.starter(program.sandbox.as_deref()))?;
    let registered = background.register(&group);
    Ok((PipedChild { child, group, _registered: registered }, pipes))
}

impl PipedChild {
    /// Waits until the program itself has ended. Can be dropped and called again.
    pub async fn ended(&mut self) -> Ending {
        ending_of(self.child.wait().await)
    }

    /// Ends it with all its descendants. Its input should be closed by now; a cooperative program needs no
    /// signal.
    pub async fn end(self) -> Ending {
        self.end_within(CLOSE_GRACE).await
    }

    /// The same for a program whose end is not reported.
    pub async fn end_quietly(self) {
        self.end_within(QUIET_GRACE).await;
    }

    async fn end_within(mut self, grace: Duration) -> Ending {
        let mut status = timeout(grace, self.child.wait()).await;
        if status.is_err() {
            self.group.signal(Signal::TERM);
            status = timeout(TERM_GRACE, self.child.wait()).await;
        }
        self.group.signal(Signal::KILL);
        match status {
            Ok(status) => ending_of(status),
            Err(_) => timeout(KILL_LIMIT, self.child.wait()).await.map_or(Ending::Cancelled, ending_of),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn shell(script: &str) -> (tempfile::TempDir, Program) {
        let folder = tempfile::tempdir().unwrap();
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        let environment = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        let program = Program::new("/bin/sh", arguments, folder.path(), environment);
        (folder, program)
    }

    #[tokio::test]
    async fn a_piped_child_answers_and_exits_when_its_input_closes() {
        let (folder, program) = shell("read line; echo \"got $line\"; cat >/dev/null; exit 3");
        let background = Background::new(folder.path().join("logs"));
        let (mut child, mut pipes) = start(&program, &background).unwrap();
        pipes.input.write_all(b"word\n").await.unwrap();
        let mut answer = [0; 9];
        pipes.output.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"got word\n");
        drop(pipes.input);
        // However long that takes on a busy machine.
        assert_eq!(child.ended().await, Ending::Exited(3));
        assert_eq!(child.end().await, Ending::Exited(3));
    }

    #[tokio::test]
    async fn a_child_may_save_its_state_and_costs_no_more_time_than_it_takes() {
        let script = "trap 'exit 9' TERM; echo ready; cat >/dev/null; sleep 0.3; echo state > saved";
        let (folder, program) = shell(script);
        let background = Background::new(folder.path().join("logs"));
        let (child, mut pipes) = start(&program, &background).unwrap();
        pipes.output.read_exact(&mut [0; 6]).await.unwrap();
        drop(pipes.input);
        let began = std::time::Instant::now();
        let limit = Duration::from_secs(600);
        assert_eq!(child.end_within(limit).await, Ending::Exited(0));
        assert!(began.elapsed() < limit / 2);
        assert!(folder.path().join("saved").exists());
    }

    #[tokio::test]
    async fn a_child_that_ignores_eof_and_sigterm_is_killed_with_its_children() {
        let (folder, program) = shell("trap '' TERM; sleep 1000 & echo $!; wait; wait; sleep 1000");
        let background = Background::new(folder.path().join("logs"));
        let (child, mut pipes) = start(&program, &background).unwrap();
        let mut pid = vec![0; 32];
        let count = pipes.output.read(&mut pid).await.unwrap();
        let pid: i32 = String::from_utf8_lossy(&pid[..count]).trim().parse().unwrap();
        drop(pipes.input);
        assert_eq!(child.end().await, Ending::Signalled(libc::SIGKILL));
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
