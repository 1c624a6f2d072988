//! A lock file for files that several programs write.
//!
//! On disk it is compatible with gimli: created exclusively, with its owner's id as content. In addition, a dead
//! owner is evicted at once, only the owner removes its lock, and evictions are serialised.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pollux_domain::sync::Locked as _;
use serde_json::{Value, json};

/// Polling interval; gimli polls every 25 ms.
const POLL: Duration = Duration::from_millis(3);
/// Time after which a lock without an owner counts as abandoned; ours have one from the start where the file system has
/// hard links.
const UNREADABLE: Duration = Duration::from_secs(1);
/// A draft this old was left behind by a process that was killed; its writer would have removed it within moments.
const ABANDONED: Duration = Duration::from_secs(10 * 60);
/// A process that started this much later than a lock is not its owner. Both times are less exact.
const YOUNGER: Duration = Duration::from_secs(2);
/// Maximum number of folder entries searched for drafts.
const MAX_ENTRIES: usize = 10_000;
/// What an owner writes is far shorter.
const MAX_CONTENT: u64 = 4096;

/// How long to wait, and when a lock counts as stale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) timeout: Duration,
    pub(crate) stale: Duration,
}

impl Patience {
    /// Of the session store and the learnings.
    pub(crate) const STORE: Self = Self { timeout: Duration::from_secs(10), stale: Duration::from_secs(30) };
    /// Of a transcript.
    pub(crate) const TRANSCRIPT: Self =
        Self { timeout: Duration::from_secs(10), stale: Duration::from_secs(30 * 60) };

    /// When the lock of an index counts as stale. Its owner may wait for vectors.
    pub(crate) const INDEX_STALE: Duration = Duration::from_secs(600);

    /// Of the index.
    pub(crate) fn index(timeout: Duration) -> Self {
        Self { timeout, stale: Self::INDEX_STALE }
    }

    /// Of the session store and the learnings, with another limit on the wait.
    pub(crate) fn store(timeout: Duration) -> Self {
        Self { timeout, ..Self::STORE }
    }
}

/// Why a lock was not obtained.
#[derive(Debug, thiserror::Error)]
pub enum OwnedLockError {
    #[error("`{}` is still held by {} after {} s", path.display(), owner.map_or("another program".to_owned(), |pid| format!("process {pid}")), waited.as_secs())]
    TimedOut { path: PathBuf, owner: Option<u32>, waited: Duration },
    #[error("could not create the lock `{}`: {source}", path.display())]
    Unusable { path: PathBuf, source: io::Error },
}

impl OwnedLockError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TimedOut { .. } => {
                Some("stop the other process, or delete the lock file if no process is using it")
            }
            Self::Unusable { .. } => Some("check that the folder is writable and the disk is not full"),
        }
    }
}

/// Holds `<target>.lock` until dropped.
#[derive(Debug)]
pub(crate) struct OwnedLock {
    path: PathBuf,
    token: String,
    file: File,
}

impl OwnedLock {
    pub(crate) fn acquire(target: &Path, patience: Patience) -> Result<Self, OwnedLockError> {
        let path = path_of(target);
        let started = Instant::now();
        loop {
            match Self::try_once(&path) {
                Ok(Some(lock)) => {
                    remove_drafts_once(&path);
                    return Ok(lock);
                }
                Ok(None) => {}
                Err(source) => return Err(OwnedLockError::Unusable { path, source }),
            }
            if evict(&path, patience.stale) {
                continue;
            }
            let waited = started.elapsed();
            if waited >= patience.timeout {
                let owner = read_owner(&path).and_then(|owner| owner.pid);
                return Err(OwnedLockError::TimedOut { path, owner, waited: patience.timeout });
            }
            std::thread::sleep(POLL.min(patience.timeout - waited));
        }
    }

    fn try_once(path: &Path) -> io::Result<Option<Self>> {
        // A draft for each look at a lock that is held would be a waste.
        if fs::symlink_metadata(path).is_ok() {
            return Ok(None);
        }
        let token = uuid::Uuid::new_v4().to_string();
        let content = json!({"pid": std::process::id(), "startedAt": unix_millis(), "token": token});
        let content = content.to_string();
        let placed = place_draft(path, &token, &content).unwrap_or_else(|| fill(path, &content));
        match placed {
            Ok(file) => Ok(Some(Self { path: path.to_owned(), token, file })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Refreshes the lock; call it more often than the stale time.
    pub(crate) fn touch(&self) {
        let _ = self.file.set_modified(SystemTime::now());
    }
}

impl Drop for OwnedLock {
    fn drop(&mut self) {
        // If our lock was evicted as stale, leave the new owner's lock alone.
        if read_owner(&self.path).is_some_and(|owner| owner.token.as_deref() == Some(&self.token)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates the lock from a draft, so that it names its owner from the start: an empty one would be evicted if its owner
/// is stopped before it has written. `None` where that is not possible, such as without hard links.
fn place_draft(path: &Path, token: &str, content: &str) -> Option<io::Result<File>> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{token}"));
    let draft = PathBuf::from(draft);
    let mut file = create(&draft).ok()?;
    let placed = file.write_all(content.as_bytes()).and_then(|()| fs::hard_link(&draft, path));
    let _ = fs::remove_file(&draft);
    match placed {
        Ok(()) => Some(Ok(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Some(Err(error)),
        Err(_) => None,
    }
}

/// Creates the lock, then writes it.
fn fill(path: &Path, content: &str) -> io::Result<File> {
    let mut file = create(path)?;
    // Best effort, as documented: an empty lock is evicted when it is a second old.
    let _ = file.write_all(content.as_bytes());
    Ok(file)
}

/// Creates a file that must not exist.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

/// Whether the lock is held.
pub(crate) fn is_held(target: &Path, stale: Duration) -> bool {
    let path = path_of(target);
    path.exists() && !is_left_behind(&path, stale)
}

pub(crate) fn path_of(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

struct Owner {
    pid: Option<u32>,
    started_at: Option<SystemTime>,
    token: Option<String>,
}

impl Owner {
    /// Whether the process that took the lock still runs; `None` if the lock does not name it.
    fn is_alive(&self) -> Option<bool> {
        let pid = self.pid?;
        // A process that started later has only got the same id.
        let is_younger = pollux_config::process::started_at(pid)
            .zip(self.started_at)
            .and_then(|(process, lock)| process.duration_since(lock).ok())
            .is_some_and(|later| later > YOUNGER);
        Some(exists(pid) && !is_younger)
    }
}

fn read_owner(path: &Path) -> Option<Owner> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_CONTENT).read_to_string(&mut text).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let pid = value.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
    let started_at = value.get("startedAt").and_then(Value::as_u64).map(Duration::from_millis);
    let started_at = started_at.and_then(|since| UNIX_EPOCH.checked_add(since));
    Some(Owner { pid, started_at, token: value.get("token").and_then(Value::as_str).map(str::to_owned) })
}

/// Removes a stale lock; returns whether it is gone. Serialised, or a second process would remove
/// the lock that the first has just created.
fn evict(path: &Path, stale: Duration) -> bool {
    if !is_left_behind(path, stale) {
        return !path.exists();
    }
    let folder = path.parent().and_then(|folder| File::open(folder).ok());
    let _alone = folder.as_ref().map(File::lock);
    // A process that was killed may have left its draft, too.
    path.parent().into_iter().for_each(remove_drafts);
    is_left_behind(path, stale) && fs::remove_file(path).is_ok()
}

/// Removes drafts of locks in this folder whose writers are gone. A draft is useless to anyone else, and its name is never
/// used again.
fn remove_drafts(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES) {
        let name = entry.file_name();
        let token = name.to_str().and_then(|name| name.rsplit_once(".lock.")).map(|(_, token)| token);
        let is_draft = token.is_some_and(|token| uuid::Uuid::parse_str(token).is_ok());
        if is_draft && is_abandoned(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Calls [`remove_drafts`] once per folder and process. A writer killed before it had its lock leaves nothing to evict.
fn remove_drafts_once(path: &Path) {
    static SEEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if let Some(folder) = path.parent()
        && SEEN.locked().insert(folder.to_owned())
    {
        remove_drafts(folder);
    }
}

/// Whether a draft's writer is gone. A recent draft without an owner may still be being written.
fn is_abandoned(draft: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(draft) else { return false };
    let age = meta.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
    let is_alive = read_owner(draft).and_then(|owner| owner.is_alive());
    meta.is_file() && (age > ABANDONED || is_alive == Some(false))
}

fn is_left_behind(path: &Path, stale: Duration) -> bool {
    let Ok(meta) = fs::metadata(path) else { return false };
    let age = meta.modified().ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
    if age > stale {
        return true;
    }
    match read_owner(path).and_then(|owner| owner.is_alive()) {
        Some(is_alive) => !is_alive,
        None => age > UNREADABLE,
    }
}

#[cfg(unix)]
fn exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    // Not permitted means that it exists.
    !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn exists(_pid: u32) -> bool {
    true
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Patience = Patience { timeout: Duration::from_millis(60), stale: Duration::from_secs(30) };

    fn target() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("sessions.json");
        (folder, target)
    }

    fn plant(target: &Path, content: &str, age: Duration) {
        let mut file = File::create(path_of(target)).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn a_second_owner_waits_and_learns_who_holds_the_lock() {
        let (_folder, target) = target();
        let held = OwnedLock::acquire(&target, SHORT).unwrap();
        let error = OwnedLock::acquire(&target, SHORT).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(held);
        assert!(!path_of(&target).exists());
        drop(OwnedLock::acquire(&target, SHORT).unwrap());
    }

    #[test]
    fn the_lock_of_a_dead_or_silent_owner_is_evicted() {
        let (_folder, target) = target();
        let alive = format!("{{\"pid\":{}}}", std::os::unix::process::parent_id());
        for (content, age) in [
            ("{\"pid\":2147483646,\"startedAt\":1}", Duration::ZERO),
            ("", Duration::from_secs(2)),
            ("half a li", Duration::from_secs(2)),
            (alive.as_str(), Duration::from_secs(31)),
        ] {
            plant(&target, content, age);
            drop(OwnedLock::acquire(&target, SHORT).unwrap_or_else(|error| panic!("{content}: {error}")));
        }
        plant(&target, &alive, Duration::from_secs(5));
        assert!(OwnedLock::acquire(&target, SHORT).is_err());
        // Never older than now, however slow the machine is.
        let file = File::create(path_of(&target)).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
        assert!(OwnedLock::acquire(&target, SHORT).is_err(), "another process may be about to write into it");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_got_the_id_of_a_dead_owner_does_not_hold_its_lock() {
        let (_folder, target) = target();
        let pid = std::process::id();
        let started = pollux_config::process::started_at(pid).unwrap();
        let lock = |written: SystemTime| {
            let millis = written.duration_since(UNIX_EPOCH).unwrap().as_millis();
            plant(&target, &format!("{{\"pid\":{pid},\"startedAt\":{millis}}}"), Duration::ZERO);
            OwnedLock::acquire(&target, SHORT)
        };
        drop(lock(started - Duration::from_secs(5)).unwrap());
        for written in [started - Duration::from_secs(1), started, started + Duration::from_secs(5)] {
            assert!(lock(written).is_err(), "{written:?}");
        }
    }

    #[test]
    fn a_lock_names_its_owner_from_the_start_and_leaves_no_draft() {
        let (folder, target) = target();
        let path = path_of(&target);
        let content = format!("{{\"pid\":{}}}", std::process::id());
        let placed = place_draft(&path, "token", &content).unwrap();
        assert!(placed.is_ok());
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let taken = place_draft(&path, "other", &content).unwrap();
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn drafts_of_killed_processes_are_removed_and_those_in_use_stay() {
        let (folder, target) = target();
        let name = |number: u8| format!("other.json.lock.00000000-0000-4000-8000-00000000000{number}");
        let alive = format!("{{\"pid\":{}}}", std::process::id());
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let plant = |name: &str, content: &str, age: Duration| {
            let mut file = File::create(folder.path().join(name)).unwrap();
            file.write_all(content.as_bytes()).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        plant(&name(1), "{\"pid\":2147483646}", Duration::ZERO);
        plant(&name(2), "", minutes(11));
        plant(&name(3), &alive, minutes(11));
        let kept = [name(4), name(5), "other.json.lock.old".to_owned(), "notes.00000000".to_owned()];
        for (name, content) in kept.iter().zip([alive.as_str(), "", "{\"pid\":2147483646}", ""]) {
            plant(name, content, if name.len() > 30 { minutes(1) } else { minutes(60) });
        }
        // There is no lock to evict: the process was killed before it had one.
        drop(OwnedLock::acquire(&target, SHORT).unwrap());
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut kept = kept.to_vec();
        kept.sort();
        assert_eq!(left, kept);
        // A process that goes on after others were killed finds their drafts with their locks.
        plant(&name(1), "{\"pid\":2147483646}", Duration::ZERO);
        plant("sessions.json.lock", "{\"pid\":2147483646}", Duration::ZERO);
        drop(OwnedLock::acquire(&target, SHORT).unwrap());
        assert!(!folder.path().join(name(1)).exists());
    }

    #[test]
    fn an_owner_that_was_evicted_leaves_the_next_ones_lock_alone() {
        let (_folder, target) = target();
        let slow = OwnedLock::acquire(&target, SHORT).unwrap();
        fs::remove_file(path_of(&target)).unwrap();
        let next = OwnedLock::acquire(&target, SHORT).unwrap();
        drop(slow);
        assert!(path_of(&target).exists());
        drop(next);
    }
}
