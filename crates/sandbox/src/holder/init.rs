//! The holder's own process: sets itself up as it is told, confirms, and serves.
//!
//! Two processes at the levels that confine: the outer one is out of the commands' reach and ends everything when the
//! program has exited; the inner one is confined itself and starts the commands.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use super::answers::{FAILED, READY};
use super::fork::fork;
use super::setup::{Kind, Setup, read_mounts};
use super::trouble::{Trouble, doing};
use super::{limits, namespaces, serve, view};
use crate::landlock;
use crate::process_table;
use crate::syscalls;
use crate::wire::{self, Message, Reader, Writer};

/// How long it may take to end all children.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Runs a holder on the sockets that replace its input and output, or on the one that it is to connect to, until the
/// program has exited.
pub(crate) fn run(socket: Option<&OsStr>) -> u8 {
    let (control, monitor) = match socket {
        Some(path) => (UnixStream::connect(Path::new(path)).ok(), None),
        None => (take_stream(0), take_stream(1)),
    };
    let Some(control) = control else { return 1 };
    let Ok(Some(Message { body, descriptors, .. })) = wire::receive(&control) else { return 1 };
    let mut control = Some(control);
    let done = match Setup::read(&body, descriptors) {
        Ok(setup) => hold(setup, &mut control, monitor),
        Err(why) => Err(Trouble { what: "could not read the setup".to_owned(), why }),
    };
    match (done, control) {
        (Ok(()), _) => 0,
        (Err(trouble), control) => {
            let mut body = Writer::default();
            body.number(FAILED);
            body.text(trouble.to_string().as_ref());
            if let Some(control) = control {
                let _ = wire::send(&control, &body.bytes, &[]);
            }
            1
        }
    }
}

/// A standard stream as a socket, moved away from the numbers of the commands' streams.
fn take_stream(number: i32) -> Option<UnixStream> {
    #[expect(unsafe_code, reason = "the descriptor is known by its number")]
    // SAFETY: takes a number; the copy is new, and nobody else knows it.
    let copy = unsafe {
        let copy = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3);
        if copy < 0 {
            return None;
        }
        OwnedFd::from_raw_fd(copy)
    };
    let null = File::options().read(true).write(true).open("/dev/null").ok()?;
    #[expect(unsafe_code, reason = "the descriptor is known by its number")]
    // SAFETY: both numbers are open; the standard stream becomes another one, and nobody holds it as a value.
    let replaced = unsafe { libc::dup2(null.as_raw_fd(), number) };
    (replaced == number).then(|| UnixStream::from(copy))
}

/// `control` is taken by the process that does not answer.
fn hold(setup: Setup, control: &mut Option<UnixStream>, monitor: Option<UnixStream>) -> Result<(), Trouble> {
    let Some(socket) = control.as_ref() else { return Ok(()) };
    limits::lower(setup.kind);
    if matches!(setup.kind, Kind::Guard | Kind::Inside) {
        let mut listeners = Vec::new();
        if setup.kind == Kind::Guard {
            adopt_orphans()?;
        } else {
            if let Some(replaced) = setup.expected.iter().find(|expected| !expected.is_met()) {
                let what = format!("`{}` was replaced while the sandbox started", replaced.path.display());
                return Err(Trouble { what, why: io::ErrorKind::InvalidData.into() });
            }
            listeners = listen(&setup.listen)?;
            confine(&setup)?;
        }
        ready(socket, &listeners)?;
        drop(listeners);
        serve::serve(socket);
        if setup.kind == Kind::Guard {
            end_all_children();
        }
        return Ok(());
    }
    let mut view = view::View::default();
    if setup.kind == Kind::Namespaces {
        namespaces::enter(&setup)?;
        view = view::build(&setup.mounts)?;
    } else {
        adopt_orphans()?;
    }
    let own = rustix::process::getpid();
    match fork().map_err(doing("could not fork"))? {
        None => {
            drop(monitor);
            inner(&setup, socket, own)
        }
        Some(child) => {
            // When this socket closes, the program knows that the inner process has ended.
            drop(control.take());
            outer(monitor, child, &mut view);
            // In a PID namespace, all processes end with the first one. Their process IDs there mean nothing here.
            if setup.kind == Kind::Rules {
                end_all_children();
            }
            Ok(())
        }
    }
}

/// The process that starts commands.
fn inner(setup: &Setup, control: &UnixStream, outer: Pid) -> Result<(), Trouble> {
    // Without the outer process, nothing would end what is left.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(doing("could not follow the outer process"))?;
    // In a new PID namespace, the parent has no process ID.
    if rustix::process::getppid().is_some_and(|parent| parent != outer) {
        return Ok(());
    }
    let mut joinable = Vec::new();
    if setup.kind == Kind::Namespaces {
        view::mount_processes()?;
        joinable = namespaces::descriptors(setup.own_network).map_err(doing("could not open a namespace"))?;
        if setup.makes_network() {
            namespaces::raise_loopback().map_err(doing("could not enable the loopback interface"))?;
        }
        joinable.extend(listen(&setup.listen)?);
        if !setup.join.is_empty() {
            let view = File::open("/proc/self/ns/mnt").map_err(doing("could not open the own view"))?;
            joinable.push(view.into());
        }
    }
    adopt_orphans()?;
    confine(setup)?;
    ready(control, &joinable)?;
    drop(joinable);
    serve::serve(control);
    Ok(())
}

/// Listeners on the private loopback. The process that gets them accepts there, wherever it runs.
fn listen(ports: &[u16]) -> Result<Vec<OwnedFd>, Trouble> {
    let bind = |port: &u16| {
        TcpListener::bind((Ipv4Addr::LOCALHOST, *port))
            .map(OwnedFd::from)
            .map_err(doing(format!("could not listen on port {port} inside the sandbox")))
    };
    ports.iter().map(bind).collect()
}

/// Permanently drops rights.
fn confine(setup: &Setup) -> Result<(), Trouble> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(doing("could not close the memory"))?;
    rustix::thread::set_no_new_privs(true).map_err(doing("could not give up privileges"))?;
    if let Some(ruleset) = &setup.ruleset {
        landlock::restrict_self(ruleset).map_err(doing("could not enter the Landlock rules"))?;
    }
    landlock::give_up_capabilities();
    if let Some(sockets) = setup.sockets {
        let filter = syscalls::filter(sockets).ok_or(io::ErrorKind::Unsupported);
        let filter = filter.map_err(doing("could not build the system call filter"))?;
        syscalls::install(&filter).map_err(doing("could not install the system call filter"))?;
    }
    Ok(())
}

/// Confirms the setup.
fn ready(control: &UnixStream, joinable: &[OwnedFd]) -> Result<(), Trouble> {
    let mut body = Writer::default();
    body.number(READY);
    let descriptors: Vec<_> = joinable.iter().map(|descriptor| descriptor.as_fd()).collect();
    wire::send(control, &body.bytes, &descriptors).map_err(doing("could not answer"))
}

/// Waits until the program or the inner process ends, and then ends the other. Until then, it adds mounts: the inner
/// process dropped the right to.
fn outer(monitor: Option<UnixStream>, inner: Pid, view: &mut view::View) {
    let process = rustix::process::pidfd_open(inner, rustix::process::PidfdFlags::empty());
    while let (Some(monitor), Ok(process)) = (&monitor, &process) {
        let mut polled = [PollFd::new(monitor, PollFlags::IN), PollFd::new(process, PollFlags::IN)];
        if poll(&mut polled, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
            break;
        }
        let [is_asked, is_over] = polled.map(|polled| !polled.revents().is_empty());
        if is_over || (is_asked && !mount_more(monitor, view)) {
            break;
        }
    }
    let _ = rustix::process::kill_process(inner, Signal::KILL);
    let _ = rustix::process::waitpid(Some(inner), WaitOptions::empty());
}

/// Whether the program is still there.
fn mount_more(monitor: &UnixStream, view: &mut view::View) -> bool {
    let Ok(Some(Message { body, .. })) = wire::receive(monitor) else { return false };
    let added = read_mounts(&mut Reader { bytes: &body })
        .map_err(doing("could not read the mounts"))
        .and_then(|mounts| view.add(&mounts));
    let mut answer = Writer::default();
    match added {
        Ok(()) => answer.number(READY),
        Err(trouble) => {
            answer.number(FAILED);
            answer.text(trouble.to_string().as_ref());
        }
    }
    wire::send(monitor, &answer.bytes, &[]).is_ok()
}

/// Adopts orphaned processes, so that they can be found.
fn adopt_orphans() -> Result<(), Trouble> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(doing("could not adopt orphans"))
}

/// Kills children and their descendants until none are left.
fn end_all_children() {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let deadline = Instant::now() + END_LIMIT;
    loop {
        for process in process_table::family_of(own) {
            if let Some(id) = Pid::from_raw(process) {
                let _ = rustix::process::kill_process(id, Signal::KILL);
            }
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        if Instant::now() > deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
