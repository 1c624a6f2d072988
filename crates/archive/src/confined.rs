//! A folder that can be filled without leaving it.
//!
//! Every path component is opened from its parent and never through a link, so that nothing is created outside,
//! whatever is already on disk. It does not validate names; [`crate::Tree`] does.

use std::fs::File;
use std::io;
use std::path::{Component, Path};

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
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::{self, CWD, Mode, OFlags};
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
