//! Holders: small processes that start commands, outlive each of them, and end everything when this program ends.
//!
//! A holder is this program again, with the argument [`ARGUMENT`]. It sets up the confinement once; commands are then
//! requests over a socket, with their streams as descriptors. Servers and jobs that a command leaves running are there
//! for the next one. The kernel closes the socket however this program ends, and the holder then ends everything.

mod answers;
mod fork;
mod frame;
mod init;
mod limits;
mod mount_calls;
mod namespaces;
mod serve;
pub(crate) mod setup;
pub(crate) mod signals;
mod spawn;
mod trouble;
mod view;

pub(crate) use setup::SHARED;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pollux_domain::sync::Locked as _;
use rustix::net::sockopt::set_socket_passcred;

use crate::LevelError;
use crate::ending::wait_or_kill;
use crate::mounts::Placed;
use crate::new_session::keep_standard_streams_only;
use crate::process_table;
use crate::wire::{self, Reader, Writer};
use setup::Setup;

/// The first argument on a holder's command line.
pub const ARGUMENT: &str = "__sandbox-init";

/// This program, even if its file has been replaced since.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// How long a holder may take to set itself up, or a command to start.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to end everything.
const END_LIMIT: Duration = Duration::from_secs(6);

/// A program to start in a sandbox, with exactly this environment.
#[derive(Debug)]
pub struct Start<'a> {
    pub program: &'a OsStr,
    pub arguments: Vec<&'a OsStr>,
    pub directory: &'a Path,
    pub environment: &'a [(String, String)],
    /// Standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
}

/// A running program that a holder started. It leads its own session.
#[derive(Debug)]
pub struct Held {
    id: i32,
    own_id: u32,
    status: UnixStream,
}

/// A holder's process.
#[derive(Debug)]
pub(crate) struct Holder {
    control: Option<Mutex<UnixStream>>,
    monitor: Option<Mutex<UnixStream>>,
    process: Mutex<Child>,
    id: i32,
    /// Its namespaces, for another set of rights in the same session.
    pub(crate) namespaces: Vec<OwnedFd>,
    /// The view of the file system, if it shares processes with another holder, which outlive it. It is kept open
    /// because the kernel gives the number of a view that has ended to the next one, of any program.
    shared_view: Option<OwnedFd>,
}

/// Runs a holder if this process was started as one; call it first in `main`, while there is one thread. Returns the
/// exit code.
pub fn run_if_asked(arguments: &mut dyn Iterator<Item = OsString>) -> Option<u8> {
    match arguments.next()?.to_str()? {
        ARGUMENT => Some(init::run(arguments.next().as_deref())),
        crate::keeper::ARGUMENT => Some(crate::keeper::run()),
        _ => None,
    }
}

impl Holder {
    /// Starts a holder, through another program if one is given with its arguments. Returns its listeners too.
    pub(crate) fn start(
        setup: &Setup,
        by: Option<(&Path, Vec<OsString>)>,
    ) -> Result<(Self, Vec<TcpListener>), LevelError> {
        let (control, far_control) = UnixStream::pair().map_err(LevelError::Start)?;
        let (monitor, far_monitor) = UnixStream::pair().map_err(LevelError::Start)?;
        let mut command = match by {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            None => Command::new(OWN_PROGRAM),
        };
        command.arg(ARGUMENT).env_clear().current_dir("/");
        let (input, output) = (OwnedFd::from(far_control), OwnedFd::from(far_monitor));
        command.stdin(input).stdout(output).stderr(Stdio::piped()).process_group(0);
        keep_standard_streams_only(&mut command);
        let mut process = command.spawn().map_err(LevelError::Start)?;
        // The command owns the far ends; while it exists, the sockets do not close.
        drop(command);
        let errors = process.stderr.take();
        let answer = exchange(&control, setup);
        match answer {
            Ok((id, mut namespaces)) => {
                // From here on, a wrapper's output and a full pipe do not matter.
                drop(errors);
                let (control, monitor) = (Some(Mutex::new(control)), Some(Mutex::new(monitor)));
                let shared_view = if setup.join.is_empty() { None } else { namespaces.pop() };
                let listeners = namespaces.split_off(namespaces.len().saturating_sub(setup.listen.len()));
                let process = Mutex::new(process);
                let holder = Self { control, monitor, process, id, namespaces, shared_view };
                Ok((holder, listeners.into_iter().map(TcpListener::from).collect()))
            }
            Err(why) => {
                drop((control, monitor));
                let _ = process.kill();
                let mut said = String::new();
                let _ = errors.map(|errors| errors.take(4096).read_to_string(&mut said));
                let _ = process.wait();
                let said = said.lines().map(str::trim).find(|line| !line.is_empty());
                Err(said.map_or(why, |said| LevelError::Trial(said.to_owned())))
            }
        }
    }

    /// Takes over a holder that another program started and that has connected.
    pub(crate) fn adopt(
        mut process: Child,
        control: UnixStream,
        setup: &Setup,
    ) -> Result<(Self, Vec<TcpListener>), LevelError> {
        match exchange(&control, setup) {
            Ok((id, listeners)) => {
                let (control, process) = (Some(Mutex::new(control)), Mutex::new(process));
                let holder =
                    Self { control, monitor: None, process, id, namespaces: Vec::new(), shared_view: None };
                Ok((holder, listeners.into_iter().map(TcpListener::from).collect()))
            }
            Err(why) => {
                // Its end ends what was started.
                drop(control);
                wait_or_kill(&mut process, Instant::now() + END_LIMIT);
                Err(why)
            }
        }
    }

    /// Starts a program.
    pub(crate) fn run(&self, start: &Start<'_>, variables: &[(String, String)]) -> io::Result<Held> {
        let (near, far) = UnixStream::pair()?;
        set_socket_passcred(&near, true)?;
        let mut body = Writer::default();
        body.text(start.directory.as_os_str());
        body.text(start.program);
        body.number(u32::try_from(start.arguments.len()).unwrap_or_default());
        start.arguments.iter().for_each(|argument| body.text(argument));
        body.number(u32::try_from(variables.len()).unwrap_or_default());
        for (name, value) in variables {
            body.text(format!("{name}={value}").as_ref());
        }
        let [input, output, errors] = start.streams;
        let descriptors = [far.as_fd(), input, output, errors];
        let control = self.control.as_ref().ok_or_else(gone)?;
        wire::send(&control.locked(), &body.bytes, &descriptors)?;
        drop(far);
        near.set_read_timeout(Some(START_LIMIT))?;
        let mut said = wire::receive(&near)?.ok_or_else(gone)?;
        let mut id = None;
        let first = Reader { bytes: &said.body }.number()?;
        if first == answers::HELLO {
            id = said.sender;
            said = wire::receive(&near)?.ok_or_else(gone)?;
        }
        near.set_read_timeout(None)?;
        set_socket_passcred(&near, false)?;
        let mut body = Reader { bytes: &said.body };
        if body.number()? != answers::STARTED {
            return Err(io::Error::from_raw_os_error(body.number()?.cast_signed()));
        }
        let own_id = body.number()?;
        Ok(Held { id: id.ok_or_else(gone)?, own_id, status: near })
    }

    /// Adds mounts for files that appeared or were replaced.
    pub(crate) fn mount(&self, mounts: &[Placed]) -> io::Result<()> {
        let monitor = self.monitor.as_ref().ok_or_else(gone)?.locked();
        let mut body = Writer::default();
        setup::write_mounts(mounts, &mut body);
        wire::send(&monitor, &body.bytes, &[])?;
        let said = wire::receive(&monitor)?.ok_or_else(gone)?;
        let mut body = Reader { bytes: &said.body };
        if body.number()? == answers::READY {
            return Ok(());
        }
        Err(io::Error::other(body.text()?.to_string_lossy().into_owned()))
    }

    /// Whether it can start programs.
    pub(crate) fn is_alive(&self) -> bool {
        self.process.locked().try_wait().is_ok_and(|status| status.is_none())
    }

    /// The number of the process that ends after all others.
    pub(crate) fn last_id(&self) -> u32 {
        self.process.locked().id()
    }

    /// The process ID of the process that starts commands.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The closed sockets signal the end.
        drop((self.control.take(), self.monitor.take()));
        let deadline = Instant::now() + END_LIMIT;
        wait_or_kill(&mut self.process.locked(), deadline);
        let view = self.shared_view.as_ref().and_then(|view| rustix::fs::fstat(view).ok());
        if let Some(view) = view {
            end_all_in(view.st_ino, deadline);
        }
    }
}

/// The view of the file system that a process has.
pub(crate) fn view_of(id: i32) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(format!("/proc/{id}/ns/mnt")).ok().map(|view| view.ino())
}

/// Ends every process with this view, however it was started and whatever its parent is now.
fn end_all_in(view: u64, deadline: Instant) {
    loop {
        let mut found = false;
        for process in process_table::processes() {
            if view_of(process.id) == Some(view)
                && let Some(id) = rustix::process::Pid::from_raw(process.id)
            {
                found = true;
                let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
            }
        }
        if !found || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Held {
    /// The process ID by which this program can signal it and its group.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The process ID inside the sandbox.
    pub fn own_id(&self) -> u32 {
        self.own_id
    }

    /// A socket that receives [`ExitStatus`] as the four bytes of its raw value, when the program ends. It closes
    /// without them if the holder ends.
    pub fn into_status(self) -> UnixStream {
        self.status
    }

    /// Waits until it exits.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let mut raw = [0; 4];
        match self.status.read_exact(&mut raw) {
            Ok(()) => Ok(ExitStatus::from_raw(i32::from_le_bytes(raw))),
            // It ended with its holder.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(ExitStatus::from_raw(libc::SIGKILL))
            }
            Err(error) => Err(error),
        }
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the sandbox process has exited")
}

/// Sends a holder its setup and waits for the confirmation.
fn exchange(control: &UnixStream, setup: &Setup) -> Result<(i32, Vec<OwnedFd>), LevelError> {
    let (body, descriptors) = setup.write();
    let failed = |error: io::Error| LevelError::Start(error);
    set_socket_passcred(control, true).map_err(|error| failed(error.into()))?;
    wire::send(control, &body, &descriptors).map_err(failed)?;
    control.set_read_timeout(Some(START_LIMIT)).map_err(failed)?;
    let Some(said) = wire::receive(control).map_err(failed)? else {
        return Err(LevelError::Start(gone()));
    };
    control.set_read_timeout(None).map_err(failed)?;
    let mut body = Reader { bytes: &said.body };
    if body.number().map_err(failed)? != answers::READY {
        let why = body.text().map_err(failed)?;
        return Err(LevelError::Trial(why.to_string_lossy().into_owned()));
    }
    let id = said.sender.ok_or_else(|| LevelError::Start(gone()))?;
    Ok((id, said.descriptors))
}
