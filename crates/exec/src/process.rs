//! One child process with everything it starts: spawning, signalling, finding leftovers.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::sandbox::Sandbox;

/// How long a group may take to end after SIGTERM; upstream's value.
const TERM_GRACE: Duration = Duration::from_millis(200);
/// How long we read what the direct child left in the pipe while others keep writing to it.
const DRAIN_LIMIT: Duration = Duration::from_millis(100);
/// How long we wait for the kernel to take away a process after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(1);
/// Fewer wake-ups for commands that print much.
const PIPE_BYTES: i32 = 1 << 20;

/// A process group that was started here. Killed when dropped, unless released.
#[derive(Debug)]
pub(crate) struct Group {
    id: i32,
    armed: bool,
}

/// A running child: the leader of its own session and process group.
pub(crate) struct Running {
    group: Group,
    child: Child,
    /// stdout and stderr share one pipe, so their order is exact. `None` once it is at its end.
    output: Option<pipe::Receiver>,
}

/// One step in the life of a child.
pub(crate) enum Step {
    Output(usize),
    OutputEnded,
    Exited(io::Result<ExitStatus>),
}

impl Group {
    /// The group of a child that leads it.
    pub(crate) fn led_by(child: &Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { id, armed: true })
    }

    /// The group's number, which is its leader's process id.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Whether any process of the group is alive, or dead but not yet collected.
    pub(crate) fn exists(&self) -> bool {
        signal_group(self.id, 0)
    }

    /// Sends a signal to every member.
    pub(crate) fn signal(&self, number: i32) {
        signal_group(self.id, number);
    }

    /// The members that no other member started: the background jobs of a shell that is gone.
    pub(crate) fn orphans(&self) -> Vec<u32> {
        let members: Vec<ProcessEntry> = processes().into_iter().filter(|p| p.group == self.id).collect();
        members
            .iter()
            .filter(|p| p.is_alive && !members.iter().any(|other| other.id == p.parent))
            .filter_map(|p| u32::try_from(p.id).ok())
            .collect()
    }

    /// Lets the group live on.
    pub(crate) fn release(mut self) {
        self.armed = false;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.armed {
            self.signal(libc::SIGKILL);
        }
    }
}

impl Running {
    /// Starts `program` with `arguments` in `directory`, with exactly this environment and no input.
    pub(crate) fn start(
        program: &str,
        arguments: &[&str],
        directory: &Path,
        environment: &[(String, String)],
        sandbox: Option<&Sandbox>,
    ) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        enlarge(&reader);
        let mut command = command(sandbox, OsStr::new(program), arguments, directory, environment)?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The command holds the write end; the pipe would never end while it lives.
        drop(command);
        let group = Group::led_by(&child)?;
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        Ok(Self { group, child, output: Some(output) })
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
            read = output.read(buffer) => match read {
                Ok(count) if count > 0 => Step::Output(count),
                Ok(_) | Err(_) => {
                    self.output = None;
                    Step::OutputEnded
                }
            },
            status = self.child.wait() => Step::Exited(status),
        }
    }

    /// Reads what is in the pipe now. Never waits for its end, which a grandchild may hold open for days.
    pub(crate) fn drain(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
        let Some(output) = self.output.as_ref() else { return };
        // Past the runtime, which may not have heard yet that there is something to read.
        let Ok(descriptor) = output.as_fd().try_clone_to_owned() else { return };
        let mut pipe = io::PipeReader::from(descriptor);
        let deadline = Instant::now() + DRAIN_LIMIT;
        while Instant::now() < deadline {
            match pipe.read(buffer) {
                Ok(0) => {
                    self.output = None;
                    return;
                }
                Ok(count) => take(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Ends the whole group and all descendants: SIGTERM, a short grace, SIGKILL.
    pub(crate) async fn end(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
        // Before anyone dies: descendants that left the group can be told by their parents only now.
        let strays = strays_of(self.group.id);
        self.group.signal(libc::SIGTERM);
        signal_each(&strays, libc::SIGTERM);
        let deadline = Instant::now() + TERM_GRACE;
        let mut exited = false;
        while !exited {
            match tokio::time::timeout_at(deadline, self.step(buffer)).await {
                Ok(Step::Output(count)) => take(buffer.get(..count).unwrap_or_default()),
                Ok(Step::OutputEnded) => {}
                Ok(Step::Exited(_)) => exited = true,
                Err(_) => break,
            }
        }
        // The leader may be gone while others still clean up.
        while self.group.exists() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.group.signal(libc::SIGKILL);
        signal_each(&strays, libc::SIGKILL);
        if !exited {
            let _ = tokio::time::timeout(KILL_LIMIT, self.child.wait()).await;
        }
        self.drain(buffer, take);
    }

    /// Gives up the child, which has exited; its group and the pipe may still be in use.
    pub(crate) fn into_leftovers(self) -> (Group, Option<pipe::Receiver>) {
        (self.group, self.output)
    }
}

/// A command that will lead its own session, in its sandbox if it has one, with exactly this environment.
pub(crate) fn command<A: AsRef<OsStr>>(
    sandbox: Option<&Sandbox>,
    program: &OsStr,
    arguments: &[A],
    directory: &Path,
    environment: &[(String, String)],
) -> io::Result<Command> {
    if let Some(sandbox) = sandbox {
        return sandbox.command(program, arguments, directory, environment);
    }
    let mut command = Command::new(program);
    let variables = environment.iter().map(|(name, value)| (name, value));
    command.args(arguments).current_dir(directory).env_clear().envs(variables);
    lead_new_session(&mut command);
    Ok(command)
}

/// Makes the child the leader of a new session, and lets the kernel end it with us.
pub(crate) fn lead_new_session(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        #[expect(unsafe_code, reason = "the standard library has no stable way to call setsid and prctl")]
        // SAFETY: runs between fork and exec; setsid, prctl, getppid and _exit are async-signal-safe,
        // take no pointers, and nothing here allocates.
        unsafe {
            if libc::setsid() == -1 {
                return Err(io::Error::last_os_error());
            }
            #[cfg(target_os = "linux")]
            {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // We may have died before prctl took effect.
                if u32::try_from(libc::getppid()) != Ok(parent) {
                    libc::_exit(127);
                }
            }
            #[cfg(not(target_os = "linux"))]
            let _ = parent;
        }
        Ok(())
    };
    #[expect(unsafe_code, reason = "pre_exec is unsafe because of what the closure may do")]
    // SAFETY: the closure only makes async-signal-safe calls and captures a number.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Lets the child inherit nothing but its three streams: not what whoever started us left open.
pub(crate) fn keep_standard_streams_only(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        let close = || {
            #[expect(unsafe_code, reason = "the standard library cannot close a range of descriptors")]
            // SAFETY: a system call with three numbers, between fork and exec. It marks descriptors to be
            // closed by exec. Old kernels do not know it; then those descriptors stay, as they did before.
            unsafe {
                libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            }
            Ok(())
        };
        #[expect(unsafe_code, reason = "pre_exec is unsafe because of what the closure may do")]
        // SAFETY: the closure makes one async-signal-safe call and captures nothing.
        unsafe {
            command.pre_exec(close);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

fn enlarge(pipe: &io::PipeReader) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        #[expect(unsafe_code, reason = "the standard library cannot set the size of a pipe")]
        // SAFETY: the descriptor is open for the duration of the call, and the argument is a number.
        // A refusal (the user's pipe quota) leaves the default size, which works as well.
        unsafe {
            libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pipe, PIPE_BYTES);
}

/// Whether the signal could be sent to at least one member.
fn signal_group(group: i32, number: i32) -> bool {
    // 0 and 1 would mean our own group and everyone.
    group > 1 && send(-group, number)
}

fn signal_each(processes: &[i32], number: i32) {
    for &id in processes.iter().filter(|id| **id > 1) {
        send(id, number);
    }
}

#[expect(unsafe_code, reason = "the standard library can signal neither groups nor foreign processes")]
fn send(target: i32, number: i32) -> bool {
    // SAFETY: kill takes two numbers and touches no memory of ours.
    unsafe { libc::kill(target, number) == 0 }
}

/// A row of the process table.
#[derive(Debug)]
struct ProcessEntry {
    id: i32,
    parent: i32,
    group: i32,
    is_alive: bool,
}

/// Descendants of a group's leader that are in other groups.
fn strays_of(leader: i32) -> Vec<i32> {
    let table = processes();
    let mut family = vec![leader];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        next += 1;
        let children = table.iter().filter(|p| p.parent == parent && !family.contains(&p.id));
        let children: Vec<i32> = children.map(|p| p.id).collect();
        family.extend(children);
    }
    table.iter().filter(|p| p.group != leader && family.contains(&p.id)).map(|p| p.id).collect()
}

/// All processes; empty where the system has no `/proc`.
fn processes() -> Vec<ProcessEntry> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            parse_stat(id, &stat)
        })
        .collect()
}

/// Reads `pid (name) state ppid pgrp …`; the name may hold spaces and parentheses.
fn parse_stat(id: i32, stat: &str) -> Option<ProcessEntry> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(ProcessEntry { id, parent, group, is_alive: !matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_forge_its_parents() {
        let entry = parse_stat(7, "7 (evil) R 1 1 ) S 42 43 43 0 -1").unwrap();
        assert_eq!((entry.parent, entry.group, entry.is_alive), (42, 43, true));
        assert!(!parse_stat(7, "7 (x) Z 1 2 3").unwrap().is_alive);
        assert!(parse_stat(7, "nonsense").is_none());
    }

    #[test]
    fn dangerous_group_numbers_are_never_signalled() {
        assert!(!signal_group(0, 0));
        assert!(!signal_group(1, 0));
        assert!(!signal_group(-1, 0));
    }
}
