//! One child process with everything it starts: spawning, signalling, finding leftovers.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
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
const PIPE_BYTES: usize = 1 << 20;

/// A process group that was started here. Killed when dropped, unless released.
#[derive(Debug)]
pub(crate) struct Group {
    id: i32,
    armed: bool,
    /// What lasts as long as the group.
    #[cfg(target_os = "linux")]
    _watched: Option<crate::sandbox::Armed>,
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
        Ok(Self {
            id,
            armed: true,
            #[cfg(target_os = "linux")]
            _watched: None,
        })
    }

    /// Keeps a watch as long as the group is known.
    #[cfg(target_os = "linux")]
    pub(crate) fn watched_by(self, watch: crate::sandbox::Armed) -> Self {
        let mut group = self;
        group._watched = Some(watch);
        group
    }

    /// The group's number, which is its leader's process id.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Whether any process of the group is alive, or dead but not yet collected.
    pub(crate) fn exists(&self) -> bool {
        group_id(self.id).is_some_and(|id| rustix::process::test_kill_process_group(id).is_ok())
    }

    /// Sends a signal to every member.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = group_id(self.id) {
            let _ = rustix::process::kill_process_group(id, signal);
        }
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
            self.signal(Signal::KILL);
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
        // The command holds the write end, so it must not outlive this: the pipe would never end.
        let (child, group) = match sandbox {
            Some(sandbox) => sandbox.start(command)?,
            None => {
                let child = command.spawn()?;
                drop(command);
                let group = Group::led_by(&child)?;
                (child, group)
            }
        };
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
        self.group.signal(Signal::TERM);
        signal_each(&strays, Signal::TERM);
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
        self.group.signal(Signal::KILL);
        signal_each(&strays, Signal::KILL);
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

/// Makes the child the leader of a new session, lets the kernel end it with us, and lets it inherit nothing
/// but its three streams.
pub(crate) fn lead_new_session(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // We may have died before that took effect.
            let is_ours = |id: Pid| u32::try_from(id.as_raw_nonzero().get()) == Ok(parent);
            if !rustix::process::getppid().is_some_and(is_ours) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = parent;
        Ok(())
    };
    #[expect(unsafe_code, reason = "pre_exec is unsafe because of what the closure may do")]
    // SAFETY: the closure makes system calls that take numbers, and neither allocates nor locks.
    unsafe {
        command.pre_exec(prepare);
    }
    keep_standard_streams_only(command.as_std_mut());
}

/// Lets the child inherit nothing but its three streams: not what was left open for this program.
///
/// Where the kernel cannot do it here, the marks that the program set at its start have to do.
pub(crate) fn keep_standard_streams_only(command: &mut std::process::Command) {
    #[cfg(target_os = "linux")]
    {
        let mark = || {
            crate::own_process::mark_all_descriptors();
            Ok(())
        };
        #[expect(unsafe_code, reason = "pre_exec is unsafe because of what the closure may do")]
        // SAFETY: the closure makes one async-signal-safe call and captures nothing.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(command, mark);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Fewer wake-ups for commands that print much. A refusal (the user's pipe quota) leaves the default size.
fn enlarge(pipe: &io::PipeReader) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
    #[cfg(not(target_os = "linux"))]
    let _ = (pipe, PIPE_BYTES);
}

/// A group that can be signalled: 0 and 1 would mean our own group and everyone.
fn group_id(group: i32) -> Option<Pid> {
    if group > 1 { Pid::from_raw(group) } else { None }
}

fn signal_each(processes: &[i32], signal: Signal) {
    for id in processes.iter().filter_map(|id| group_id(*id)) {
        let _ = rustix::process::kill_process(id, signal);
    }
}

/// A row of the process table.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only its sandboxes look at all of it"))]
pub(crate) struct ProcessEntry {
    pub(crate) id: i32,
    pub(crate) parent: i32,
    group: i32,
    pub(crate) is_alive: bool,
    /// When it began, in the kernel's ticks.
    pub(crate) started: u64,
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
pub(crate) fn processes() -> Vec<ProcessEntry> {
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

/// Reads `pid (name) state ppid pgrp … starttime …`; the name may hold spaces and parentheses.
fn parse_stat(id: i32, stat: &str) -> Option<ProcessEntry> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Sixteen fields about the terminal, faults, times and priority stand between.
    let started = fields.nth(16).and_then(|ticks| ticks.parse().ok()).unwrap_or_default();
    Some(ProcessEntry { id, parent, group, is_alive: !matches!(state, "Z" | "X"), started })
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
        let own = i32::try_from(std::process::id()).unwrap();
        let table = processes();
        let (us, first) = (table.iter().find(|p| p.id == own).unwrap(), table.iter().find(|p| p.id == 1));
        assert!(us.started > 0 && first.is_none_or(|first| first.started <= us.started), "{us:?} {first:?}");
    }

    #[test]
    fn dangerous_group_numbers_are_never_signalled() {
        assert_eq!([-1, 0, 1].map(group_id), [None; 3]);
        assert!(group_id(2).is_some());
    }
}
