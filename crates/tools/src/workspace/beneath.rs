//! Operations on open directories that never follow a link.
//!
//! A real path contains no symlinks. It is opened with `openat2` and `RESOLVE_NO_SYMLINKS` where the kernel
//! supports it, and otherwise one name at a time from an open directory; either way, a link that appears on the
//! path after it was resolved makes the operation fail. Files are then reached from the open directory by a
//! single name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

#[cfg(target_os = "linux")]
const SEARCH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const SEARCH: OFlags = OFlags::RDONLY;
const WALK: OFlags = SEARCH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The purpose of opening a file.
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
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntryKind {
    File,
    Folder,
    Link,
    /// A pipe, socket or device.
    Special,
}

impl EntryKind {
    fn of(kind: FileType) -> Option<Self> {
        match kind {
            FileType::RegularFile => Some(Self::File),
            FileType::Directory => Some(Self::Folder),
            FileType::Symlink => Some(Self::Link),
            FileType::Unknown => None,
            _ => Some(Self::Special),
        }
    }
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
}

/// The properties of a name without following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) kind: EntryKind,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
}

impl Folder {
    /// Opens the directory `below` the real directory `base`.
    pub(super) fn open(base: &Path, below: &Path, missing: Missing) -> io::Result<Self> {
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        match open_at_once(&base.join(below)) {
            Some(Err(Errno::NOENT)) if missing == Missing::Create => {}
            Some(opened) => return Ok(Self(opened?)),
            None => {}
        }
        let mut folder = match open_at_once(base) {
            Some(opened) => Self(opened?),
            None => Self(retry_on_intr(|| fs::openat(CWD, base, WALK, Mode::empty()))?),
        };
        for name in below {
            folder = folder.enter(name, missing)?;
        }
        Ok(folder)
    }

    fn enter(&self, name: &OsStr, missing: Missing) -> io::Result<Self> {
        let open = || retry_on_intr(|| fs::openat(&self.0, name, WALK, Mode::empty()));
        match open() {
            Err(Errno::NOENT) if missing == Missing::Create => {
                match fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                Ok(Self(open()?))
            }
            opened => Ok(Self(opened?)),
        }
    }

    /// The names in it, in no order.
    pub(crate) fn entries(&self) -> io::Result<Vec<DirectoryEntry>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = retry_on_intr(|| fs::openat(&self.0, ".", flags, Mode::empty()))?;
        let mut entries = Vec::new();
        for entry in Dir::new(readable)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            // Not every file system reports the kind; a name that has disappeared is skipped.
            let kind = EntryKind::of(entry.file_type()).or_else(|| self.status(name).ok().map(|s| s.kind));
            entries.extend(kind.map(|kind| DirectoryEntry { name: name.to_owned(), kind }));
        }
        Ok(entries)
    }

    /// The status of a name; links are not followed.
    pub(crate) fn status(&self, name: &OsStr) -> io::Result<Status> {
        let stat = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = EntryKind::of(FileType::from_raw_mode(stat.st_mode)).unwrap_or(EntryKind::Special);
        let seconds = u64::try_from(stat.st_mtime).unwrap_or_default();
        let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
        let modified = UNIX_EPOCH.checked_add(Duration::new(seconds, nanos)).unwrap_or(UNIX_EPOCH);
        Ok(Status { kind, size: u64::try_from(stat.st_size).unwrap_or_default(), modified })
    }

    /// Opens a file. Never blocks, not even on a pipe without a writer.
    pub(super) fn file(&self, name: &OsStr, purpose: Purpose) -> io::Result<File> {
        let (flags, mode) = match purpose {
            Purpose::Read => (OFlags::RDONLY, 0),
            Purpose::Overwrite => (OFlags::WRONLY, 0),
            Purpose::Create(mode) => (OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode),
        };
        let always = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let open = || fs::openat(&self.0, name, flags | always, Mode::from_bits_truncate(mode));
        Ok(File::from(retry_on_intr(open)?))
    }

    /// Gives `from` the name `to`, which it replaces.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

/// Opens a directory by its real path in one call; `None` where the kernel or a filter of calls has none.
#[cfg(target_os = "linux")]
fn open_at_once(path: &Path) -> Option<Result<OwnedFd, Errno>> {
    use std::sync::atomic::{AtomicBool, Ordering};

    static IS_MISSING: AtomicBool = AtomicBool::new(false);
    if IS_MISSING.load(Ordering::Relaxed) {
        return None;
    }
    let resolve = fs::ResolveFlags::NO_SYMLINKS | fs::ResolveFlags::NO_MAGICLINKS;
    let opened = retry_on_intr(|| fs::openat2(CWD, path, WALK, Mode::empty(), resolve));
    if matches!(opened, Err(Errno::NOSYS | Errno::PERM)) {
        IS_MISSING.store(true, Ordering::Relaxed);
        return None;
    }
    Some(opened)
}

#[cfg(not(target_os = "linux"))]
fn open_at_once(_: &Path) -> Option<Result<OwnedFd, Errno>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn both_ways_of_opening_refuse_a_link_on_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir_all(base.join("real/deep")).unwrap();
        symlink("real", base.join("link")).unwrap();
        let at_once = |below: &str| Folder::open(&base, Path::new(below), Missing::Fail);
        let by_steps = |below: &str| {
            let base = Folder(fs::openat(CWD, &base, WALK, Mode::empty()).unwrap());
            Path::new(below).iter().try_fold(base, |folder, name| folder.enter(name, Missing::Fail))
        };
        for open in [&at_once as &dyn Fn(&str) -> io::Result<Folder>, &by_steps] {
            assert!(open("real/deep").is_ok());
            // The single call reports "link", the stepwise walk reports "not a directory".
            for below in ["link/deep", "link"] {
                let code = open(below).unwrap_err().raw_os_error();
                assert!(matches!(code, Some(libc::ELOOP | libc::ENOTDIR)), "{below}: {code:?}");
            }
        }
        assert!(Folder::open(&base, Path::new("../x"), Missing::Create).is_err());
        assert!(Folder::open(&base, Path::new("link/new"), Missing::Create).is_err());
        assert!(!base.join("real/new").exists());
    }

    #[test]
    fn entries_have_kinds_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir(base.join("folder")).unwrap();
        File::create(base.join("file")).unwrap().set_len(7).unwrap();
        symlink("/etc", base.join("link")).unwrap();
        let folder = Folder::open(&base, Path::new(""), Missing::Fail).unwrap();
        let mut entries = folder.entries().unwrap();
        entries.sort();
        let entry = |name: &str, kind| DirectoryEntry { name: name.into(), kind };
        let expected = [
            entry("file", EntryKind::File),
            entry("folder", EntryKind::Folder),
            entry("link", EntryKind::Link),
        ];
        assert_eq!(entries, expected);
        assert_eq!(folder.status(OsStr::new("file")).unwrap().size, 7);
        assert_eq!(folder.status(OsStr::new("link")).unwrap().kind, EntryKind::Link);
    }
}
