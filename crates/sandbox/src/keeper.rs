//! The keeper: a small unconfined process per session that protects files which mounts and rules cannot, and removes
//! the session's temporary files.
//!
//! A mount cannot cover a name that does not exist, and a placeholder would be visible to everyone who lists the folder.
//! Landlock has no exceptions inside a folder that can be written. So protected files are looked at while commands run:
//! a new one is renamed, a changed one restored. That happens in a process of its own, because it must also happen
//! when this program is killed: the keeper sees the end of its socket, waits for the end of the commands, and looks
//! once more.
//!
//! Does not confine anything; see [`crate::holder`].

mod aside;
mod disarm;
mod exemptions;
mod kept;
mod names;
mod process;
mod repositories;
mod scratch;
mod watched;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pollux_domain::sync::Locked as _;

use crate::ending::wait_or_kill;
use crate::new_session::keep_standard_streams_only;
use crate::tripped::{TripAction, Tripped};
use crate::wire::{self, Reader, Writer};

pub(crate) use process::run;

/// The first argument of a keeper's command line.
pub(crate) const ARGUMENT: &str = "__sandbox-keeper";

/// Requests; each is answered.
const OPEN: u32 = 1;
const ARM: u32 = 2;
const DISARM: u32 = 3;
const PERMIT: u32 = 4;
const COLLECT: u32 = 5;
const FOLLOW: u32 = 6;

const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long its own end may take: it waits for that of the commands.
const END_LIMIT: Duration = Duration::from_secs(12);

/// What a keeper is told first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    /// Where to create the session's temporary folder, if it has its own.
    pub(crate) scratch_in: Option<PathBuf>,
    /// Whether existing protected files are mounted read-only.
    pub(crate) is_mounted: bool,
    pub(crate) roots: Vec<PathBuf>,
    /// The workspace's own repositories: not to be renamed.
    pub(crate) pinned: Vec<PathBuf>,
    /// Changes to these are reported.
    pub(crate) watched: Vec<PathBuf>,
}

/// What one set of rights protects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) protected: Vec<PathBuf>,
    /// Protected names that this set of rights may write.
    pub(crate) exempt: Vec<PathBuf>,
}

/// A keeper's process.
#[derive(Debug)]
pub(crate) struct Keeper {
    socket: Option<Mutex<UnixStream>>,
    process: Mutex<Child>,
    scratch: Option<PathBuf>,
    followed: Mutex<Vec<i32>>,
}

/// A group of confined processes that is alive.
#[derive(Debug)]
pub struct Armed {
    keeper: Arc<Keeper>,
    number: u32,
}

impl Keeper {
    pub(crate) fn start(charge: &Charge) -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(ARGUMENT).env_clear().current_dir("/");
        command.stdin(OwnedFd::from(far)).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        keep_standard_streams_only(&mut command);
        let process = command.spawn()?;
        drop(command);
        near.set_read_timeout(Some(ANSWER_LIMIT))?;
        let (socket, process) = (Some(Mutex::new(near)), Mutex::new(process));
        let mut keeper = Self { socket, process, scratch: None, followed: Mutex::default() };
        let answer = keeper.ask(&charge.write())?;
        let made = Reader { bytes: &answer }.path()?;
        keeper.scratch = (!made.as_os_str().is_empty()).then_some(made);
        Ok(keeper)
    }

    /// The folder that commands see as `/tmp`. The real one contains sockets of agents, displays and terminals.
    pub(crate) fn scratch(&self) -> Option<&Path> {
        self.scratch.as_deref()
    }

    /// Call it before a command starts; keep the value as long as its group.
    pub(crate) fn arm(self: &Arc<Self>, watch: &Watch) -> io::Result<Armed> {
        let mut body = Writer::default();
        body.number(ARM);
        write_paths(&watch.protected, &mut body);
        write_paths(&watch.exempt, &mut body);
        let answer = self.ask(&body.bytes)?;
        let number = Reader { bytes: &answer }.number()?;
        Ok(Armed { keeper: Arc::clone(self), number })
    }

    /// Names the process that adopts what commands leave behind, and the one that ends after all of them.
    pub(crate) fn follow(&self, holder: i32, last: u32) -> io::Result<()> {
        let mut followed = self.followed.locked();
        if followed.contains(&holder) {
            return Ok(());
        }
        followed.push(holder);
        let mut body = Writer::default();
        body.number(FOLLOW);
        body.number(holder.cast_unsigned());
        body.number(last);
        self.ask(&body.bytes).map(drop)
    }

    /// Permits a name for a moment: the program itself is about to write it.
    pub(crate) fn permit(&self, path: &Path) {
        let mut body = Writer::default();
        body.number(PERMIT);
        body.text(path.as_os_str());
        // A keeper that is gone protects nothing; the next command fails.
        let _ = self.ask(&body.bytes);
    }

    /// Checks now, and returns what was found since the last call.
    pub(crate) fn collect(&self) -> Vec<Tripped> {
        let mut body = Writer::default();
        body.number(COLLECT);
        self.ask(&body.bytes).and_then(|answer| read_tripped(&answer)).unwrap_or_default()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.process.locked().try_wait().is_ok_and(|status| status.is_none())
    }

    fn ask(&self, body: &[u8]) -> io::Result<Vec<u8>> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the sandbox's keeper has exited");
        let socket = self.socket.as_ref().ok_or_else(gone)?.locked();
        wire::send(&socket, body, &[])?;
        wire::receive(&socket)?.map(|message| message.body).ok_or_else(gone)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.socket.take());
        wait_or_kill(&mut self.process.locked(), Instant::now() + END_LIMIT);
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let mut body = Writer::default();
        body.number(DISARM);
        body.number(self.number);
        let _ = self.keeper.ask(&body.bytes);
    }
}

impl Charge {
    fn write(&self) -> Vec<u8> {
        let mut body = Writer::default();
        body.number(OPEN);
        body.text(self.scratch_in.as_deref().map_or(OsStr::new(""), Path::as_os_str));
        body.flag(self.is_mounted);
        for paths in [&self.roots, &self.pinned, &self.watched] {
            write_paths(paths, &mut body);
        }
        body.bytes
    }

    fn read(body: &mut Reader<'_>) -> io::Result<Self> {
        let scratch_in = body.path()?;
        Ok(Self {
            scratch_in: (!scratch_in.as_os_str().is_empty()).then_some(scratch_in),
            is_mounted: body.flag()?,
            roots: read_paths(body)?,
            pinned: read_paths(body)?,
            watched: read_paths(body)?,
        })
    }
}

fn write_paths(paths: &[PathBuf], body: &mut Writer) {
    body.number(u32::try_from(paths.len()).unwrap_or_default());
    paths.iter().for_each(|path| body.text(path.as_os_str()));
}

fn read_paths(body: &mut Reader<'_>) -> io::Result<Vec<PathBuf>> {
    (0..body.number()?).map(|_| body.path()).collect()
}

fn write_tripped(tripped: &[Tripped]) -> Vec<u8> {
    let mut body = Writer::default();
    body.number(u32::try_from(tripped.len()).unwrap_or_default());
    for Tripped { path, action } in tripped {
        body.text(path.as_os_str());
        let none = Path::new("");
        let (number, text) = match action {
            TripAction::Renamed(to) => (0, to.as_os_str()),
            TripAction::Restored(kept) => (1, kept.as_deref().unwrap_or(none).as_os_str()),
            TripAction::Disarmed => (2, none.as_os_str()),
            TripAction::Reported(what) => (3, OsStr::new(what.as_deref().unwrap_or_default())),
            TripAction::Failed => (4, none.as_os_str()),
        };
        body.number(number);
        body.text(text);
    }
    body.bytes
}

fn read_tripped(body: &[u8]) -> io::Result<Vec<Tripped>> {
    let mut body = Reader { bytes: body };
    let one = |body: &mut Reader<'_>| {
        let (path, number, text) = (body.path()?, body.number()?, body.text()?);
        let some = (!text.is_empty()).then_some(text);
        let action = match (number, some) {
            (0, Some(to)) => TripAction::Renamed(to.into()),
            (1, kept) => TripAction::Restored(kept.map(PathBuf::from)),
            (2, _) => TripAction::Disarmed,
            (3, what) => TripAction::Reported(what.map(|what| what.to_string_lossy().into_owned())),
            _ => TripAction::Failed,
        };
        Ok(Tripped { path, action })
    };
    (0..body.number()?).map(|_| one(&mut body)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_keeper_is_told_and_tells_arrives_unchanged() {
        let charge = Charge {
            scratch_in: Some("/tmp".into()),
            is_mounted: true,
            roots: vec!["/w".into()],
            pinned: vec!["/w/.git".into(), "/x".into()],
            watched: vec!["/w/AGENTS.md".into()],
        };
        let written = charge.write();
        let mut body = Reader { bytes: &written };
        assert_eq!(body.number().unwrap(), OPEN);
        assert_eq!(Charge::read(&mut body).unwrap(), charge);
        let actions = [
            TripAction::Renamed("/w/.envrc.sandbox-blocked-1".into()),
            TripAction::Restored(None),
            TripAction::Restored(Some("/w/x".into())),
            TripAction::Disarmed,
            TripAction::Reported(None),
            TripAction::Reported(Some("scripts.test".to_owned())),
            TripAction::Failed,
        ];
        let all: Vec<Tripped> =
            actions.into_iter().map(|action| Tripped { path: "/w/.envrc".into(), action }).collect();
        assert_eq!(read_tripped(&write_tripped(&all)).unwrap(), all);
    }
}
