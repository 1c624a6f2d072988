//! Opens paths below the root through directory handles, one component at a time, never through a link.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};

use crate::entry::Stamp;
use crate::path::RelPath;

/// For traversing a folder; needs no permission to list it where the system has such handles.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::RDONLY;

/// Opens the root, which must be a folder and not a link.
pub(crate) fn open_root(root: &Path) -> io::Result<OwnedFd> {
    let flags = PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(root, flags, Mode::empty())?)
}

/// A handle to pass through the folder `name` of `folder`.
pub(crate) fn enter(folder: impl AsFd, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(folder, name, flags, Mode::empty())?)
}

/// A handle to pass through the folder at `path`.
pub(crate) fn descend(root: BorrowedFd<'_>, path: &RelPath) -> io::Result<OwnedFd> {
    let mut folder = root.try_clone_to_owned()?;
    for part in path.parts() {
        folder = enter(&folder, part)?;
    }
    Ok(folder)
}

/// A handle for listing the folder behind another handle.
pub(crate) fn listable(folder: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(folder, ".", flags, Mode::empty())?)
}

/// Opens a regular file to read it, without waiting for the other end of a pipe.
pub(crate) fn open_file(folder: impl AsFd, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(folder, name, flags, Mode::empty())?.into())
}

pub(crate) fn stamp_of(folder: impl AsFd, name: &[u8]) -> io::Result<Stamp> {
    Ok(Stamp::of(&statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

pub(crate) fn stamp_of_handle(handle: impl AsFd) -> io::Result<Stamp> {
    Ok(Stamp::of(&fstat(handle)?))
}

pub(crate) fn link_target(folder: impl AsFd, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(readlinkat(folder, name, Vec::new())?.into_bytes())
}

/// Sets the mode of a file, never that of a link's target.
pub(crate) fn set_mode(folder: impl AsFd, name: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    set_mode_of(&openat(folder, name, PASS | flags, Mode::empty())?, mode)
}

/// Sets the mode of the entry behind a handle, even if its owner may not read it.
#[cfg(target_os = "linux")]
pub(crate) fn set_mode_of(handle: &OwnedFd, mode: u32) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    if stamp_of_handle(handle)?.kind() == FileType::Symlink {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bits = Mode::from_raw_mode(mode as rustix::fs::RawMode);
    // A handle to pass through cannot be given a mode itself; its name in `/proc` can.
    match rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), bits) {
        Err(rustix::io::Errno::NOENT) => Ok(rustix::fs::fchmod(handle, bits)?),
        set => Ok(set?),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_mode_of(handle: &OwnedFd, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(handle, Mode::from_raw_mode(mode as rustix::fs::RawMode))?)
}

/// Whether a path does not exist: it, or a folder above it, is missing or of another kind.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [rustix::io::Errno::NOENT, rustix::io::Errno::NOTDIR, rustix::io::Errno::LOOP]
        .iter()
        .any(|absent| code == Some(absent.raw_os_error()))
}
