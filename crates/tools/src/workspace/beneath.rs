//! Directories held open, and what can be done to the names in them without following a link.
//!
//! A path is walked one name at a time from a directory that is held open. Every step refuses symlinks, so
//! nothing that changes on the way can lead outside. (`openat2` with `RESOLVE_NO_SYMLINKS` does the same
//! in one call, but exists on Linux only.)

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

#[cfg(target_os = "linux")]
const WALK: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const WALK: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Overwrite,
    /// A name that does not exist yet, with these permission bits before the umask.
    Create(u32),
}

/// Whether directories on the way are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Fail,
    Create,
}

/// An open directory.
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// Opens the directory `below` the trusted directory `base`.
    pub(super) fn open(base: &Path, below: &Path, missing: Missing) -> io::Result<Self> {
        let base = terminated(base.as_os_str())?;
        let mut folder = Self(open_at(libc::AT_FDCWD, &base, WALK & !libc::O_NOFOLLOW, 0)?);
        for part in below.components() {
            let Component::Normal(name) = part else {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            };
            folder = folder.enter(name, missing)?;
        }
        Ok(folder)
    }

    fn enter(&self, name: &OsStr, missing: Missing) -> io::Result<Self> {
        let name = terminated(name)?;
        match open_at(self.0.as_raw_fd(), &name, WALK, 0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing == Missing::Create => {
                self.make_directory(&name)?;
                open_at(self.0.as_raw_fd(), &name, WALK, 0).map(Self)
            }
            opened => opened.map(Self),
        }
    }

    /// Opens a file. Never blocks, not even on a pipe without a writer.
    pub(super) fn file(&self, name: &OsStr, purpose: Purpose) -> io::Result<File> {
        let (flags, mode) = match purpose {
            Purpose::Read => (libc::O_RDONLY, 0),
            Purpose::Overwrite => (libc::O_WRONLY, 0),
            Purpose::Create(mode) => (libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, mode),
        };
        let always = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
        open_at(self.0.as_raw_fd(), &terminated(name)?, flags | always, mode).map(File::from)
    }

    /// Gives `from` the name `to`, which it replaces.
    #[expect(unsafe_code, reason = "the standard library cannot rename relative to an open directory")]
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (terminated(from)?, terminated(to)?);
        let folder = self.0.as_raw_fd();
        // SAFETY: both names are NUL-terminated and live across the call; the descriptor is open.
        done(unsafe { libc::renameat(folder, from.as_ptr(), folder, to.as_ptr()) })
    }

    /// Removes a file.
    #[expect(unsafe_code, reason = "the standard library cannot remove relative to an open directory")]
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = terminated(name)?;
        // SAFETY: the name is NUL-terminated and lives across the call; the descriptor is open.
        done(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), 0) })
    }

    #[expect(unsafe_code, reason = "the standard library cannot create relative to an open directory")]
    fn make_directory(&self, name: &CString) -> io::Result<()> {
        // SAFETY: the name is NUL-terminated and lives across the call; the descriptor is open.
        match done(unsafe { libc::mkdirat(self.0.as_raw_fd(), name.as_ptr(), 0o777) }) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }
}

#[expect(unsafe_code, reason = "the standard library cannot open relative to an open directory")]
fn open_at(folder: i32, name: &CString, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    loop {
        // SAFETY: the name is NUL-terminated and lives across the call.
        let descriptor = unsafe { libc::openat(folder, name.as_ptr(), flags, mode) };
        if descriptor >= 0 {
            // SAFETY: openat just gave us this descriptor; nobody else owns it.
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn terminated(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
