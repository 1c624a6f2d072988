//! A folder that can be filled without leaving it.
//!
//! Every path component is opened from its parent and never through a link, so that nothing is created outside,
//! whatever is already on disk. It does not validate names; [`crate::Tree`] does.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

/// What there is under a name, without following a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inspected {
    pub(crate) kind: InspectedKind,
    /// Permissions.
    pub(crate) mode: u32,
    /// Seconds since 1970.
    pub(crate) modified: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InspectedKind {
    Folder,
    File,
    Link,
    Other,
}

/// Only plain names are allowed below a folder.
fn names(path: &Path) -> io::Result<Vec<&std::ffi::OsStr>> {
    let names = path.components().map(|part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    });
    names.collect()
}

#[cfg(unix)]
mod system {
    use std::ffi::OsString;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags};
    use rustix::io::{Errno, retry_on_intr};

    use super::*;

    const WALK: OFlags =
        OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

    /// Whether parent folders are created.
    #[derive(Clone, Copy, PartialEq)]
    enum Missing {
        Fail,
        Create,
    }

    /// The folder, held open.
    pub struct ConfinedFolder(OwnedFd);

    impl ConfinedFolder {
        /// Opens an existing folder; the last name must not be a link.
        pub fn open(path: &Path) -> io::Result<Self> {
            Ok(Self(retry_on_intr(|| fs::openat(CWD, path, WALK, Mode::empty()))?))
        }

        /// Opens a file in it for reading; a link is an error, and a pipe does not wait for a writer.
        pub fn open_file(&self, path: &Path) -> io::Result<File> {
            let names = names(path)?;
            let (name, above) = names.split_last().ok_or(io::ErrorKind::InvalidInput)?;
            let folder = self.walk(above, Missing::Fail)?;
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            Ok(File::from(retry_on_intr(|| fs::openat(&folder, *name, flags, Mode::empty()))?))
        }

        /// The names in a folder in it.
        pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
            let folder = self.walk(&names(path)?, Missing::Fail)?;
            let mut found = Vec::new();
            for entry in fs::Dir::read_from(&folder)? {
                let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
                if name != "." && name != ".." {
                    found.push(name);
                }
            }
            Ok(found)
        }

        /// What there is under a name.
        pub(crate) fn inspect(&self, path: &Path) -> io::Result<Inspected> {
            let names = names(path)?;
            let (name, above) = names.split_last().ok_or(io::ErrorKind::InvalidInput)?;
            let folder = self.walk(above, Missing::Fail)?;
            let found = retry_on_intr(|| fs::statat(&folder, *name, AtFlags::SYMLINK_NOFOLLOW))?;
            let kind = match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => InspectedKind::Folder,
                FileType::RegularFile => InspectedKind::File,
                FileType::Symlink => InspectedKind::Link,
                _ => InspectedKind::Other,
            };
            let mode = Mode::from_raw_mode(found.st_mode).as_raw_mode() & 0o777;
            Ok(Inspected { kind, mode, modified: u64::try_from(found.st_mtime).unwrap_or(0) })
        }

        /// The target of a link in it.
        pub(crate) fn link_target(&self, path: &Path) -> io::Result<PathBuf> {
            let names = names(path)?;
            let (name, above) = names.split_last().ok_or(io::ErrorKind::InvalidInput)?;
            let folder = self.walk(above, Missing::Fail)?;
            let target = fs::readlinkat(&folder, *name, Vec::new())?;
            Ok(OsString::from_vec(target.into_bytes()).into())
        }

        /// Makes a folder and those above it.
        pub fn create_folder(&self, path: &Path) -> io::Result<()> {
            self.walk(&names(path)?, Missing::Create).map(drop)
        }

        /// Creates a new file and its parent folders.
        pub fn create_file(&self, path: &Path, executable: bool) -> io::Result<File> {
            self.create(path, Mode::from_raw_mode(if executable { 0o755 } else { 0o644 }))
        }

        /// The same for a file that only the user may read.
        pub fn create_private_file(&self, path: &Path) -> io::Result<File> {
            self.create(path, Mode::from_raw_mode(0o600))
        }

        fn create(&self, path: &Path, mode: Mode) -> io::Result<File> {
            let names = names(path)?;
            let (name, above) = names.split_last().ok_or(io::ErrorKind::InvalidInput)?;
            let folder = self.walk(above, Missing::Create)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(File::from(retry_on_intr(|| fs::openat(&folder, *name, flags, mode))?))
        }

        /// Sets the permissions of a folder in it.
        pub fn set_folder_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
            let folder = File::from(self.walk(&names(path)?, Missing::Fail)?);
            folder.set_permissions(std::fs::Permissions::from_mode(mode))
        }

        /// Creates a new link and its parent folders.
        pub fn create_link(&self, path: &Path, target: &str) -> io::Result<()> {
            let names = names(path)?;
            let (name, above) = names.split_last().ok_or(io::ErrorKind::InvalidInput)?;
            let folder = self.walk(above, Missing::Create)?;
            Ok(retry_on_intr(|| fs::symlinkat(target, &folder, *name))?)
        }

        fn walk(&self, names: &[&std::ffi::OsStr], missing: Missing) -> io::Result<OwnedFd> {
            let mut folder = self.0.try_clone()?;
            for name in names {
                if missing == Missing::Fail {
                    folder = retry_on_intr(|| fs::openat(&folder, *name, WALK, Mode::empty()))?;
                    continue;
                }
                match retry_on_intr(|| fs::mkdirat(&folder, *name, Mode::from_raw_mode(0o755))) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                folder = retry_on_intr(|| fs::openat(&folder, *name, WALK, Mode::empty()))?;
            }
            Ok(folder)
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// The folder by its path; each name on the way is checked before use.
    pub struct ConfinedFolder(PathBuf);

    impl ConfinedFolder {
        pub fn open(path: &Path) -> io::Result<Self> {
            Ok(Self(path.to_owned()))
        }

        pub fn create_folder(&self, path: &Path) -> io::Result<()> {
            let mut place = self.0.clone();
            for name in names(path)? {
                place.push(name);
                match fs::create_dir(&place) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    Ok(()) | Err(_) => {}
                }
                if !fs::symlink_metadata(&place)?.is_dir() {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
            }
            Ok(())
        }

        pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
            fs::read_dir(self.0.join(path))?.map(|entry| Ok(entry?.file_name())).collect()
        }

        pub(crate) fn inspect(&self, path: &Path) -> io::Result<Inspected> {
            let found = fs::symlink_metadata(self.0.join(path))?;
            let kind = match found.file_type() {
                kind if kind.is_dir() => InspectedKind::Folder,
                kind if kind.is_file() => InspectedKind::File,
                kind if kind.is_symlink() => InspectedKind::Link,
                _ => InspectedKind::Other,
            };
            let time = found.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            let mode = if kind == InspectedKind::Folder { 0o755 } else { 0o644 };
            Ok(Inspected { kind, mode, modified: time.map_or(0, |time| time.as_secs()) })
        }

        pub(crate) fn link_target(&self, path: &Path) -> io::Result<PathBuf> {
            fs::read_link(self.0.join(path))
        }

        pub fn open_file(&self, path: &Path) -> io::Result<File> {
            let mut place = self.0.clone();
            for name in names(path)? {
                place.push(name);
                if fs::symlink_metadata(&place)?.is_symlink() {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
            }
            File::open(place)
        }

        pub fn create_file(&self, path: &Path, _executable: bool) -> io::Result<File> {
            self.create_private_file(path)
        }

        pub fn set_folder_mode(&self, _path: &Path, _mode: u32) -> io::Result<()> {
            Ok(())
        }

        pub fn create_private_file(&self, path: &Path) -> io::Result<File> {
            self.create_folder(path.parent().unwrap_or(Path::new("")))?;
            fs::OpenOptions::new().write(true).create_new(true).open(self.0.join(path))
        }

        pub fn create_link(&self, path: &Path, target: &str) -> io::Result<()> {
            self.create_folder(path.parent().unwrap_or(Path::new("")))?;
            make_link(target, &self.0.join(path))
        }
    }
}

pub use system::ConfinedFolder;

/// Makes a link to `target` at `place`.
#[cfg(unix)]
pub fn make_link(target: impl AsRef<Path>, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

#[cfg(windows)]
pub fn make_link(target: impl AsRef<Path>, place: &Path) -> io::Result<()> {
    let target = target.as_ref();
    let full = place.parent().map_or_else(|| target.to_owned(), |folder| folder.join(target));
    if full.is_dir() {
        std::os::windows::fs::symlink_dir(target, place)
    } else {
        std::os::windows::fs::symlink_file(target, place)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_created_through_a_link_that_is_already_there() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink("../outside", inside.join("door")).unwrap();
        symlink("../outside/new", inside.join("file")).unwrap();
        let folder = ConfinedFolder::open(&inside).unwrap();
        folder.create_folder(Path::new("door/a")).unwrap_err();
        folder.create_file(Path::new("door/b"), false).unwrap_err();
        folder.create_link(Path::new("door/c"), "x").unwrap_err();
        folder.create_file(Path::new("file"), false).unwrap_err();
        for path in ["../outside/d", "/tmp/e", "a/../../outside/f", ""] {
            folder.create_file(Path::new(path), false).unwrap_err();
        }
        File::create(outside.join("secret")).unwrap();
        folder.open_file(Path::new("door/secret")).unwrap_err();
        fs::remove_file(outside.join("secret")).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(ConfinedFolder::open(&inside.join("door")).is_err());
        folder.create_file(Path::new("a/b/c"), true).unwrap();
        assert!(inside.join("a/b/c").is_file());
    }
}
