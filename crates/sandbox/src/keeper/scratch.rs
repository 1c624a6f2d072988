//! The folder that commands see as `/tmp`: created and removed by the keeper, however the session ends.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};

use super::aside;

const PREFIX: &str = "pollux-sandbox-";
/// A folder that is younger may not be locked yet.
const MIN_AGE: Duration = Duration::from_secs(60);
/// How often the folder of this session is removed: what ends may still write there.
const REMOVE_ATTEMPTS: usize = 50;
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// A folder that only its owner can enter. Removed when dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) path: PathBuf,
    /// Locked as long as the session lasts, so that others know that it does.
    _lock: OwnedFd,
}

impl Scratch {
    pub(super) fn create(temp: &Path) -> io::Result<Self> {
        let mut number = 0_u32;
        loop {
            let path = temp.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let lock = aside::open_folder(&path)?;
                    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
                    return Ok(Self { path, _lock: lock });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path, REMOVE_ATTEMPTS);
    }
}

/// Removes the folders of sessions that ended together with their keepers.
pub(super) fn remove_abandoned(temp: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(temp).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            continue;
        }
        let path = entry.path();
        let Ok(meta) = path.symlink_metadata() else { continue };
        let age =
            meta.ctime().try_into().ok().map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let is_old = age.and_then(|since| since.elapsed().ok()).is_some_and(|age| age > MIN_AGE);
        if !meta.is_dir() || meta.uid() != own || !is_old {
            continue;
        }
        let Ok(folder) = aside::open_folder(&path) else { continue };
        if rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&path, 2);
        }
    }
}

/// Removes a folder, even if a command made parts of it unwritable.
fn remove(path: &Path, attempts: usize) {
    // If it fails, that is not worth reporting: the folder is temporary, and a later session tries again.
    for attempt in 0..attempts {
        let Err(error) = fs::remove_dir_all(path) else { return };
        match error.kind() {
            io::ErrorKind::NotFound => return,
            _ if attempt == 0 => open_all(path),
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::ResourceBusy => thread::sleep(REMOVE_PAUSE),
            _ => return,
        }
    }
}

/// Makes all folders writable without following a link that takes the place of one.
fn open_all(folder: &Path) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::openat(CWD, folder, flags, Mode::empty()) else { return };
    let place = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    let _ = fs::set_permissions(&place, Permissions::from_mode(0o700));
    for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_all(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_everything_in_it_and_an_abandoned_one_later() {
        let temp = tempfile::tempdir().unwrap();
        let temp = fs::canonicalize(temp.path()).unwrap();
        let scratch = Scratch::create(&temp).unwrap();
        let path = scratch.path.clone();
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::set_permissions(path.join("a"), Permissions::from_mode(0o500)).unwrap();
        remove_abandoned(&temp);
        assert!(path.exists(), "it is in use, and young");
        drop(scratch);
        assert!(!path.exists());
    }
}
