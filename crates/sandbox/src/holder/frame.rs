//! A folder that shows only what is placed in it: an own file system over the real folder, with mount points.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::mount_calls::{copy, copy_of, open, seal_in_place, temporary};

/// Room for names and links, not for content.
const OPTIONS: &std::ffi::CStr = c"mode=755,size=8m";

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) path: PathBuf,
    /// The real folder, below.
    under: OwnedFd,
    /// The own file system. Commands see it read-only.
    own: OwnedFd,
}

impl Frame {
    /// Puts an empty frame over a folder.
    pub(super) fn mount(path: &Path) -> io::Result<Self> {
        let under = open(path)?;
        temporary(path, OPTIONS)?;
        let own = copy(path)?;
        seal_in_place(path)?;
        Ok(Self { path: path.to_owned(), under, own })
    }

    /// A copy of what the real folder has at a path. A link anywhere in the path is an error.
    pub(super) fn source(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        let opened = rustix::fs::openat2(&self.under, self.inside(path)?, flags, Mode::empty(), resolve)?;
        copy_of(&opened)
    }

    /// Shows the link that the real folder has at a path.
    pub(super) fn copy_link(&self, path: &Path) -> io::Result<()> {
        let name = self.inside(path)?;
        let target = rustix::fs::readlinkat(&self.under, name, Vec::new())?;
        let target = OsString::from_vec(target.into_bytes());
        self.create(name, |name| rustix::fs::symlinkat(&target, &self.own, name))
    }

    pub(super) fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mode = Mode::from_raw_mode(0o755);
        self.create(self.inside(path)?, |name| rustix::fs::mkdirat(&self.own, name, mode))
    }

    /// A file that cannot be opened, unless something is mounted over it.
    pub(super) fn create_file(&self, path: &Path) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        self.create(self.inside(path)?, |name| {
            rustix::fs::openat(&self.own, name, flags, Mode::empty()).map(drop)
        })
    }

    /// Removes what was placed at a path, if anything.
    pub(super) fn clear(&self, path: &Path) -> io::Result<()> {
        let name = self.inside(path)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        if rustix::fs::statat(&self.own, name, flags).is_err() {
            return Ok(());
        }
        // Nothing may be mounted there.
        let _ = rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        let removed = rustix::fs::unlinkat(&self.own, name, AtFlags::empty());
        match removed {
            Err(Errno::ISDIR | Errno::PERM) => {
                // A folder of the frame itself stays.
                let _ = rustix::fs::unlinkat(&self.own, name, AtFlags::REMOVEDIR);
                Ok(())
            }
            other => other.map_err(Into::into),
        }
    }

    fn inside<'a>(&self, path: &'a Path) -> io::Result<&'a Path> {
        path.strip_prefix(&self.path).map_err(|_| io::ErrorKind::InvalidInput.into())
    }

    /// Creates an entry, and the folders around it.
    fn create(&self, name: &Path, make: impl Fn(&Path) -> rustix::io::Result<()>) -> io::Result<()> {
        match make(name) {
            Err(Errno::NOENT) => {
                let folders: Vec<&Path> = name.ancestors().skip(1).collect();
                for folder in folders.iter().rev().filter(|folder| folder.as_os_str() != OsStr::new("")) {
                    match rustix::fs::mkdirat(&self.own, *folder, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                make(name).map_err(Into::into)
            }
            // Two plans meet there; the later one counts.
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
