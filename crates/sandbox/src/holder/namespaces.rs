//! Creates the namespaces of a holder, or enters those of another one.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::net::{AddressFamily, SocketType};
use rustix::thread::UnshareFlags;

use super::setup::Setup;
use super::trouble::{Trouble, doing};

/// Moves this process into the namespaces of its commands; the PID namespace applies to its children.
pub(super) fn enter(setup: &Setup) -> Result<(), Trouble> {
    if setup.join.is_empty() {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut all = UnshareFlags::NEWUSER
            | UnshareFlags::NEWNS
            | UnshareFlags::NEWPID
            | UnshareFlags::NEWIPC
            | UnshareFlags::NEWUTS;
        if setup.own_network {
            all |= UnshareFlags::NEWNET;
        }
        unshare(all).map_err(doing("could not create namespaces"))?;
        // The user and group keep their IDs; no others are mapped.
        write("/proc/self/setgroups", "deny").map_err(doing("could not keep groups from changing"))?;
        write("/proc/self/uid_map", &format!("{user} {user} 1")).map_err(doing("could not map the user"))?;
        return write("/proc/self/gid_map", &format!("{group} {group} 1"))
            .map_err(doing("could not map the group"));
    }
    for namespace in &setup.join {
        rustix::thread::move_into_link_name_space(namespace.as_fd(), None)
            .map_err(doing("could not enter the session's namespaces"))?;
    }
    let mut own = UnshareFlags::NEWNS;
    if setup.makes_network() {
        own |= UnshareFlags::NEWNET;
    }
    unshare(own).map_err(doing("could not create a mount namespace"))
}

/// The namespaces that another holder may enter, the user namespace first, because it grants the right to enter the
/// others.
pub(super) fn descriptors(own_network: bool) -> io::Result<Vec<OwnedFd>> {
    let mut names = vec!["user", "ipc", "uts", "pid"];
    if own_network {
        names.push("net");
    }
    names.into_iter().map(|name| Ok(File::open(format!("/proc/self/ns/{name}"))?.into())).collect()
}

#[expect(unsafe_code, reason = "with some flags, threads would no longer share descriptors")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: descriptors stay shared, and there is one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}

#[expect(clippy::disallowed_methods, reason = "no file of a user")]
fn write(path: &str, text: &str) -> io::Result<()> {
    std::fs::write(path, text)
}

/// Enables the loopback interface of a new network namespace.
#[expect(unsafe_code, reason = "there is no safe interface to the requests for network devices")]
pub(super) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all bytes zero is a valid value of this structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
        *place = byte.cast_signed();
    }
    #[expect(clippy::cast_possible_truncation, reason = "two small flags")]
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    request.ifr_ifru.ifru_flags = up;
    // The type of requests differs between C libraries.
    let set_flags = libc::SIOCSIFFLAGS as libc::Ioctl;
    // SAFETY: the request is complete and lives through the call.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), set_flags, &raw const request) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
