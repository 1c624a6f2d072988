//! File locks: one writer at a time, across threads and processes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{FileError, Mode, create_folder, follow, read_only_kind};

const DEFAULT_WAIT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(25);

/// Holds `<file>.lock` until dropped. The operating system frees it when the process dies.
#[derive(Debug)]
pub struct FileLock {
    // Held for its lock; closing it lets the next one in.
    _file: File,
    path: PathBuf,
}

/// Why a lock was not obtained.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("`{}` is still locked by another process after {} s", path.display(), waited.as_secs())]
    TimedOut { path: PathBuf, waited: Duration },
    #[error("could not lock `{}`: {source}", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Folder(#[from] FileError),
}

impl LockError {
    /// Whether the place simply cannot be written to.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::TimedOut { .. } => false,
            Self::Unusable { source, .. } => read_only_kind(source),
            Self::Folder(error) => error.is_read_only(),
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TimedOut { .. } => {
                Some("stop the other process, or delete the lock if no process is using it")
            }
            Self::Unusable { .. } | Self::Folder(_) => None,
        }
    }
}

impl FileLock {
    /// Locks the file that `target` leads to, waiting up to 10 s for another holder.
    pub fn acquire(target: &Path) -> Result<Self, LockError> {
        Self::acquire_within(target, DEFAULT_WAIT)
    }

    /// Locks with another limit on the wait.
    pub fn acquire_within(target: &Path, wait: Duration) -> Result<Self, LockError> {
        let path = lock_path(&follow(target)?);
        if let Some(folder) = path.parent() {
            create_folder(folder, Mode::Private)?;
        }
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(lock) = Self::try_once(&path)? {
                return Ok(lock);
            }
            let waited = started.elapsed();
            if waited >= wait {
                return Err(LockError::TimedOut { path, waited: wait });
            }
            std::thread::sleep(pause.min(wait - waited));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn try_once(path: &Path) -> Result<Option<Self>, LockError> {
        let unusable = |source| LockError::Unusable { path: path.to_owned(), source };
        // Opening a pipe would wait for a reader that may never come.
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
            return Err(unusable(io::Error::other("not a regular file")));
        }
        let file = match OpenOptions::new().create(true).truncate(false).write(true).open(path) {
            Ok(file) => file,
            // Upstream locks some files with a folder of this name: it is held.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => return Ok(None),
            // The folder vanished and came back, or Windows is still deleting the last lock.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(error)),
        };
        match file.try_lock() {
            Ok(()) => Ok(still_named(&file, path).then(|| Self { _file: file, path: path.to_owned() })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Removed while held: waiters on this inode see that the name is gone and start over.
        #[cfg(unix)]
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_path(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Whether the locked file is the one that the path names now.
#[cfg(unix)]
fn still_named(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(not(unix))]
fn still_named(_file: &File, _path: &Path) -> bool {
    true
}
