//! One writer per session: a lock file next to the session names its owner.
//!
//! The owner is alive if its process exists with the start time it had, or if it still holds the advisory
//! lock on the file, which the system gives up with the process. The second covers systems without `/proc`
//! and owners in another process namespace.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::process::start_ticks;
use serde_json::{Value, json};

/// An empty lock file counts as being written until it is this old.
const WRITING_TIME: Duration = Duration::from_secs(10);
/// What looks at a lock holds it for less.
const LOOKING_TIME: Duration = Duration::from_millis(5);
/// Retries of an eviction that another process won.
const ATTEMPTS: usize = 8;
/// Maximum size of a lock file.
const MAX_LOCK_BYTES: u64 = 4096;

/// Held while a session is written; removed when dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    start_time: Option<u64>,
    pub(crate) host: String,
}

impl Owner {
    fn is_elsewhere(&self) -> bool {
        !self.host.is_empty() && self.host != host()
    }

    /// This owner of the lock of a session file, for a message.
    pub(crate) fn holder(self, session: &Path) -> LockHolder {
        let host = self.is_elsewhere().then_some(self.host);
        LockHolder { pid: self.pid, host, lock: lock_path(session) }
    }

    /// Whether its process is not among those of this machine, or is another one by now.
    fn is_gone(&self) -> bool {
        match (start_ticks(self.pid), self.start_time) {
            (Some(now), Some(then)) => now != then,
            (Some(_), None) => false,
            (None, _) => true,
        }
    }
}

/// The process that uses a session, as users are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// 0 if it is not known.
    pub pid: u32,
    /// Its machine, if that is another one: whether the process still runs cannot be seen from here.
    pub host: Option<String>,
    lock: PathBuf,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.host) {
            (0, None) => f.write_str("another process"),
            (pid, None) => write!(f, "process {pid}"),
            (pid, Some(host)) => {
                let lock = self.lock.display();
                write!(f, "process {pid} on `{host}` (if it is no longer running, delete `{lock}`)")
            }
        }
    }
}

/// Why a lock was not taken.
#[derive(Debug)]
pub(crate) enum LockError {
    Held(Owner),
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The lock file of a session file. Its name never looks like a session's.
pub(crate) fn lock_path(session: &Path) -> PathBuf {
    let name = session.file_name().unwrap_or_default().to_string_lossy();
    session.with_file_name(format!(".{name}.lock"))
}

/// What can be told of a session's lock from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockState {
    Free,
    Held,
    /// Its owner is gone; this is its file.
    Stale(PathBuf),
}

/// Looks at the lock of a session file without taking it.
pub(crate) fn lock_state(session: &Path) -> LockState {
    let path = lock_path(session);
    let Ok(file) = open(&path) else { return LockState::Free };
    let owner = read_owner(&file).ok().flatten();
    if is_alive(&file, owner.as_ref(), Some(std::time::SystemTime::now())) {
        LockState::Held
    } else {
        LockState::Stale(path)
    }
}

/// The process that holds a session file, if one does. Takes no lock.
pub fn used_by(session: &Path) -> Option<u32> {
    let file = open(&lock_path(session)).ok()?;
    let owner = read_owner(&file).ok().flatten();
    let is_alive = is_alive(&file, owner.as_ref(), Some(std::time::SystemTime::now()));
    owner.filter(|_| is_alive).map(|owner| owner.pid)
}

impl Lock {
    /// Takes the lock of a session file, evicting a dead owner.
    pub(crate) fn take(session: &Path) -> Result<Self, LockError> {
        let path = lock_path(session);
        let mut holder = None;
        for _ in 0..ATTEMPTS {
            let (draft, file) = write_draft(&path)?;
            let written = file.metadata().and_then(|metadata| metadata.modified()).ok();
            let placed = place(&draft, file, &path);
            let _ = fs::remove_file(&draft);
            match placed {
                Ok(file) => return Ok(Self { path, file }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
            match evict_if_dead(&path, written)? {
                None => {}
                // Another process looks at the lock of a dead owner, or the owner is in another process namespace.
                Some(owner) if owner.host == host() && owner.is_gone() => {
                    holder = Some(owner);
                    std::thread::sleep(LOOKING_TIME);
                }
                Some(owner) => {
                    holder = Some(owner);
                    break;
                }
            }
        }
        let nobody = Owner { pid: 0, start_time: None, host: String::new() };
        Err(LockError::Held(holder.unwrap_or(nobody)))
    }
}

impl Lock {
    /// Whether the lock file is still there: deleting the folder deletes it, too.
    pub(crate) fn is_held(&self) -> bool {
        is_same_file(&self.file, &self.path)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only if it is still ours: the file may have been deleted by hand and recreated by another process.
        if is_same_file(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes the lock's text to a file of its own, so that the lock appears complete or not at all.
fn write_draft(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!("{name}.{}", uuid::Uuid::new_v4().simple()));
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&draft)?;
    let me = Owner { pid: std::process::id(), start_time: start_ticks(std::process::id()), host: host() };
    let text = json!({"pid": me.pid, "startTime": me.start_time, "host": me.host}).to_string();
    if let Err(error) = file.write_all(text.as_bytes()) {
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    // Some file systems have no advisory locks; the process identity must suffice there.
    let _ = file.try_lock();
    Ok((draft, file))
}

/// Gives the draft the lock's name unless that is taken; returns the file that now has it.
fn place(draft: &Path, file: File, path: &Path) -> io::Result<File> {
    match fs::hard_link(draft, path) {
        Ok(()) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Without hard links, the name is created first and filled at once.
        Err(_) => {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(&fs::read(draft)?)?;
            let _ = file.try_lock();
            Ok(file)
        }
    }
}

/// Removes the lock of a dead owner. `Some` if the owner lives, `None` if the name may be free now.
fn evict_if_dead(path: &Path, now: Option<std::time::SystemTime>) -> Result<Option<Owner>, LockError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let owner = read_owner(&file)?;
    if is_alive(&file, owner.as_ref(), now) {
        return Ok(Some(owner.unwrap_or(Owner { pid: 0, start_time: None, host: String::new() })));
    }
    // From here on this process holds the advisory lock of the dead owner's file, so no one else evicts the
    // same file; a new lock that took the name in the meantime is another file and is left alone.
    if is_same_file(&file, path) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(None)
}

fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe would wait for a writer that may never come.
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("the lock is not a regular file")),
    }
}

fn is_alive(file: &File, owner: Option<&Owner>, now: Option<std::time::SystemTime>) -> bool {
    if matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)) {
        return true;
    }
    let Some(owner) = owner else {
        let written = file.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = now.zip(written).and_then(|(now, written)| now.duration_since(written).ok());
        return age.is_none_or(|age| age < WRITING_TIME);
    };
    if owner.host != host() {
        // Its processes cannot be seen from here.
        return true;
    }
    !owner.is_gone()
}

fn read_owner(file: &File) -> io::Result<Option<Owner>> {
    let mut text = Vec::new();
    file.take(MAX_LOCK_BYTES).read_to_end(&mut text)?;
    let value: Value = serde_json::from_slice(&text).unwrap_or_default();
    let pid = value.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
    Ok(pid.map(|pid| Owner {
        pid,
        start_time: value.get("startTime").and_then(Value::as_u64),
        host: value.get("host").and_then(Value::as_str).unwrap_or_default().to_owned(),
    }))
}

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

fn host() -> String {
    let read = |path: &str| fs::read_to_string(path).ok().map(|name| name.trim().to_owned());
    read("/proc/sys/kernel/hostname").or_else(|| read("/etc/hostname")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_lock(session: &Path, owner: &Value) {
        let mut file = File::create(lock_path(session)).unwrap();
        file.write_all(owner.to_string().as_bytes()).unwrap();
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-x.json");
        let lock = Lock::take(&session).unwrap();
        let LockError::Held(owner) = Lock::take(&session).unwrap_err() else { panic!("not held") };
        assert_eq!(owner.pid, std::process::id());
        drop(lock);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        Lock::take(&session).unwrap();
    }

    #[test]
    fn the_lock_of_a_process_that_is_gone_or_another_by_now_is_evicted() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-x.json");
        write_lock(&session, &json!({"pid": 999_999_999, "startTime": 1, "host": host()}));
        drop(Lock::take(&session).unwrap());
        write_lock(&session, &json!({"pid": std::process::id(), "startTime": 1, "host": host()}));
        drop(Lock::take(&session).unwrap());
        let mine = start_ticks(std::process::id());
        write_lock(&session, &json!({"pid": std::process::id(), "startTime": mine, "host": host()}));
        assert!(mine.is_none() || matches!(Lock::take(&session), Err(LockError::Held(_))));
    }

    #[test]
    fn a_look_at_the_lock_of_a_dead_owner_keeps_nobody_out() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-x.json");
        write_lock(&session, &json!({"pid": 999_999_999, "startTime": 1, "host": host()}));
        let looking = File::open(lock_path(&session)).unwrap();
        looking.try_lock().unwrap();
        let taking = std::thread::spawn({
            let session = session.clone();
            move || Lock::take(&session)
        });
        std::thread::sleep(Duration::from_millis(1));
        drop(looking);
        taking.join().unwrap().unwrap();
        // Who holds it for longer owns it, although this process cannot see its own.
        write_lock(&session, &json!({"pid": 999_999_999, "startTime": 1, "host": host()}));
        let owning = File::open(lock_path(&session)).unwrap();
        owning.try_lock().unwrap();
        assert!(matches!(Lock::take(&session), Err(LockError::Held(owner)) if owner.pid == 999_999_999));
    }

    #[test]
    fn the_lock_of_another_machine_is_respected() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-x.json");
        write_lock(&session, &json!({"pid": 1, "startTime": 1, "host": "elsewhere.example"}));
        assert!(
            matches!(Lock::take(&session), Err(LockError::Held(owner)) if owner.host == "elsewhere.example")
        );
    }

    #[test]
    fn a_pipe_in_place_of_a_lock_is_an_error_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-x.json");
        let made = std::process::Command::new("mkfifo").arg(lock_path(&session)).status().unwrap();
        assert!(made.success());
        assert_eq!(used_by(&session), None);
        let LockError::Io(error) = Lock::take(&session).unwrap_err() else { panic!("held") };
        assert_eq!(error.to_string(), "the lock is not a regular file");
    }

    #[test]
    fn an_unreadable_lock_is_respected_only_while_it_may_be_in_the_making() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("session-x.json");
        let file = File::create(lock_path(&session)).unwrap();
        assert!(matches!(Lock::take(&session), Err(LockError::Held(_))));
        let old = std::time::SystemTime::now() - Duration::from_secs(60);
        file.set_modified(old).unwrap();
        Lock::take(&session).unwrap();
    }

    #[test]
    fn a_lock_file_does_not_look_like_a_session() {
        assert_eq!(lock_path(Path::new("/c/session-a.json")), Path::new("/c/.session-a.json.lock"));
    }
}
