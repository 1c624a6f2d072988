//! Syncs records to disk, so that they survive a power failure.
//!
//! One thread of the process syncs files in groups: what a session writes within [`GATHERED`] reaches the disk together,
//! since a sync costs more than many writes. Callers wait for it only before complete records move and at the end of a
//! session. A sync that failed is tried again with the next write, after a while, and at the end of the session.

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use pollux_config::files;
use pollux_domain::sync::Locked as _;

use super::unsynced::{SyncedFile, Unsynced};
use crate::redo;

/// How long a write may wait for others to be synced together with it.
const GATHERED: Duration = Duration::from_millis(10);
/// A disk that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time until a failed sync is retried if nothing else is written.
#[cfg(not(test))]
const RETRY_AFTER: Duration = Duration::from_secs(30);
#[cfg(test)]
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// The records of a session on their way to the disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Syncing(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Number of redo notes so far. Locked while one is removed, which takes time: only those who write notes wait.
    notes: Mutex<u64>,
    synced: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What the next sync covers.
    next: Group,
    /// Number of writes so far.
    written: u64,
    /// Number of writes that a sync was tried for.
    tried: u64,
    /// Number of writes that are on the disk.
    synced: u64,
    is_queued: bool,
    failure: Option<io::Error>,
    /// Whether the failure was reported. It is not reported again until a sync succeeds.
    is_reported: bool,
    /// Whether a sync succeeded after a failure that was reported.
    is_recovered: bool,
    /// The value of `written` after the last attempt of [`Syncing::finish`]; it does not wait for those writes again.
    given_up: Option<u64>,
}

/// Changes that reach the disk together.
#[derive(Debug, Default)]
struct Group {
    file: Option<Arc<dyn SyncedFile>>,
    /// What was written to the file.
    unsynced: Unsynced,
    /// Whether a sync of the file failed. Its writes must then be repeated before a sync counts.
    is_doubtful: bool,
    /// The folder, if it has a new name.
    folder: Option<PathBuf>,
    /// The redo note that is not needed once the file is on the disk.
    noted: Option<Noted>,
}

/// A redo note whose write was made.
#[derive(Debug)]
struct Noted {
    session: PathBuf,
    /// Its number among the notes of the session.
    number: u64,
}

impl Syncing {
    /// Writes to this file.
    pub(crate) fn write(&self, file: &Arc<dyn SyncedFile>, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.change(|group| {
            file.write_all_at(bytes, at)?;
            group.of(file).wrote(at, bytes);
            Ok(())
        })
    }

    /// Cuts this file.
    pub(crate) fn cut(&self, file: &Arc<dyn SyncedFile>, length: u64) -> io::Result<()> {
        self.change(|group| {
            file.set_len(length)?;
            group.of(file).cut(length);
            Ok(())
        })
    }

    /// Notes that a folder has a new name.
    pub(crate) fn named(&self, folder: &Path) {
        let _ = self.change(|group| {
            group.folder = Some(folder.to_owned());
            Ok(())
        });
    }

    /// Notes that there is a new redo note: a sync that began earlier must not remove it.
    pub(crate) fn add_note(&self) {
        *self.0.notes.locked() += 1;
    }

    /// Removes the redo note of a session after the next sync.
    pub(crate) fn drop_note(&self, session: PathBuf) {
        let number = *self.0.notes.locked();
        let _ = self.change(|group| {
            group.noted = Some(Noted { session, number });
            Ok(())
        });
    }

    /// Makes a change and queues a sync if it succeeds. The lock is held meanwhile, so that a rewrite cannot put older
    /// bytes over newer ones.
    fn change(&self, change: impl FnOnce(&mut Group) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.0.state.locked();
        change(&mut state.next)?;
        state.written += 1;
        self.queue(state);
        Ok(())
    }

    fn queue(&self, mut state: MutexGuard<'_, State>) {
        if mem::replace(&mut state.is_queued, true) {
            return;
        }
        drop(state);
        // Without a thread this one does it.
        if worker().is_none_or(|worker| worker.send(Work::Sync(self.clone())).is_err()) {
            self.sync();
        }
    }

    /// Waits until everything written so far is on the disk. False if the sync failed or takes too long.
    pub(crate) fn wait(&self) -> bool {
        let state = self.0.state.locked();
        let written = state.written;
        let waiting = |state: &mut State| state.tried < written;
        if state.is_queued {
            let _ = worker().map(|worker| worker.send(Work::Hurry));
        }
        let waited = self.0.synced.wait_timeout_while(state, PATIENCE, waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.synced >= written
    }

    /// The same at the end of a session: a sync that failed is tried once more.
    pub(crate) fn finish(&self) -> bool {
        let state = self.0.state.locked();
        if state.given_up == Some(state.written) {
            return state.synced >= state.written;
        }
        drop(state);
        if self.wait() {
            return true;
        }
        let mut state = self.0.state.locked();
        let has_answered = state.tried >= state.written;
        if has_answered {
            state.written += 1;
        }
        state.given_up = Some(state.written);
        if !has_answered {
            return false;
        }
        self.queue(state);
        self.wait()
    }

    /// Whether everything written so far is on the disk.
    pub(crate) fn is_synced(&self) -> bool {
        let state = self.0.state.locked();
        state.synced >= state.written
    }

    /// Writes again what a failed sync may have lost, so that the file reads as it should.
    pub(crate) fn restore(&self) {
        let _ = self.0.state.locked().next.write_again();
    }

    /// Why the last sync failed, once.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        let mut state = self.0.state.locked();
        let failure = state.failure.take()?;
        state.is_reported = true;
        Some(failure)
    }

    /// Whether everything is on the disk after a failure that was reported. Returns `true` only once per recovery.
    pub(crate) fn take_recovery(&self) -> bool {
        mem::take(&mut self.0.state.locked().is_recovered)
    }

    /// Syncs what was written. False if that failed and is worth another try.
    fn sync(&self) -> bool {
        let mut state = self.0.state.locked();
        state.is_queued = false;
        let written = state.written;
        // No write may come in between: the older bytes would replace it.
        let again = state.next.write_again();
        let group = mem::take(&mut state.next);
        drop(state);
        let synced = again.and_then(|is_complete| group.sync().map(|()| is_complete));
        if let Ok(true) = synced {
            // No note may be added between the comparison and the removal.
            let notes = self.0.notes.locked();
            group.discard_note(*notes);
        }
        let mut state = self.0.state.locked();
        state.tried = state.tried.max(written);
        match &synced {
            Ok(true) => {
                state.synced = state.synced.max(written);
                if state.synced == state.written {
                    state.failure = None;
                    state.is_recovered |= mem::replace(&mut state.is_reported, false);
                }
            }
            Ok(false) | Err(_) => state.next.put_back(group),
        }
        let is_done = synced.is_ok();
        if let Err(error) = synced {
            state.is_recovered = false;
            if !state.is_reported {
                state.failure = Some(error);
            }
        }
        drop(state);
        self.0.synced.notify_all();
        is_done
    }
}

impl Group {
    /// The unsynced writes to this file. If it replaced another, the old writes are dropped: it was synced in full
    /// before it took that place.
    fn of(&mut self, file: &Arc<dyn SyncedFile>) -> &mut Unsynced {
        if self.file.as_ref().is_none_or(|known| !Arc::ptr_eq(known, file)) {
            self.file = Some(Arc::clone(file));
            self.unsynced = Unsynced::default();
            self.is_doubtful = false;
        }
        &mut self.unsynced
    }

    /// Writes again what a failed sync may have lost. False if that is not known any more.
    fn write_again(&self) -> io::Result<bool> {
        match &self.file {
            Some(file) if self.is_doubtful => self.unsynced.write_again(&**file),
            Some(_) | None => Ok(true),
        }
    }

    fn sync(&self) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.sync()?;
        }
        if let Some(folder) = &self.folder {
            files::sync_folder(folder)?;
        }
        Ok(())
    }

    /// Removes the redo note unless there is a newer one, whose write may not be on the disk.
    fn discard_note(&self, notes: u64) {
        if let Some(Noted { session, .. }) = self.noted.as_ref().filter(|noted| noted.number == notes) {
            redo::discard(session);
        }
    }

    /// Adds what a failed sync has left to do. Newer changes stay; the sync may have lost them as well.
    fn put_back(&mut self, failed: Self) {
        let is_same = match (&self.file, &failed.file) {
            (Some(newer), Some(failed)) => Arc::ptr_eq(newer, failed),
            (None, _) => true,
            (Some(_), None) => false,
        };
        if is_same {
            let newer = mem::take(&mut self.unsynced);
            self.unsynced = failed.unsynced.followed_by(newer);
            self.file = self.file.take().or(failed.file);
            self.is_doubtful = true;
        }
        self.folder = self.folder.take().or(failed.folder);
        self.noted = self.noted.take().or(failed.noted);
    }
}

/// A message to the sync thread.
enum Work {
    Sync(Syncing),
    /// Sync now: a session is waiting.
    Hurry,
}

/// The thread that syncs, started with the first record.
fn worker() -> Option<&'static Sender<Work>> {
    static WORKER: OnceLock<Option<Sender<Work>>> = OnceLock::new();
    let start = || {
        let (sender, work) = mpsc::channel();
        thread::Builder::new().name("sync".to_owned()).spawn(move || sync_in_groups(&work)).ok()?;
        Some(sender)
    };
    WORKER.get_or_init(start).as_ref()
}

fn sync_in_groups(work: &Receiver<Work>) {
    let mut failed = Failed::default();
    loop {
        let first = match failed.due() {
            Some(due) => work.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => work.recv().map_err(RecvTimeoutError::from),
        };
        let mut sessions = match first {
            Ok(Work::Sync(first)) => vec![first],
            // Nothing is queued, so there is nothing to hurry.
            Ok(Work::Hurry) => continue,
            Err(RecvTimeoutError::Timeout) => failed.take(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let end = Instant::now() + GATHERED;
        while let Ok(Work::Sync(another)) = work.recv_timeout(end.saturating_duration_since(Instant::now())) {
            sessions.push(another);
        }
        for session in &sessions {
            if !session.sync() {
                failed.add(session);
            }
        }
    }
}

/// Sessions whose last sync failed, retried after [`RETRY_AFTER`] even if they write nothing more.
#[derive(Default)]
struct Failed(Vec<(Instant, Weak<Shared>)>);

impl Failed {
    fn add(&mut self, session: &Syncing) {
        let session = Arc::downgrade(&session.0);
        self.0.retain(|(_, known)| !known.ptr_eq(&session));
        self.0.push((Instant::now() + RETRY_AFTER, session));
    }

    /// When the first of them is tried again.
    fn due(&self) -> Option<Instant> {
        self.0.first().map(|(due, _)| *due)
    }

    /// Removes the sessions that are due and returns those still not synced.
    fn take(&mut self) -> Vec<Syncing> {
        let now = Instant::now();
        let later = self.0.iter().position(|(due, _)| *due > now).unwrap_or(self.0.len());
        let sessions = self.0.drain(..later).filter_map(|(_, session)| session.upgrade().map(Syncing));
        sessions.filter(|session| !session.is_synced()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::faulty::FaultyFile;

    #[test]
    fn a_failed_sync_is_reported_once_and_tried_again_with_the_next_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session-a.json");
        let file: Arc<dyn SyncedFile> = FaultyFile::failing(0);
        let failing: Arc<dyn SyncedFile> = FaultyFile::failing(usize::MAX);
        let syncing = Syncing::default();
        assert!(syncing.wait() && syncing.is_synced());
        syncing.write(&failing, 0, b"bytes").unwrap();
        assert!(!syncing.wait() && !syncing.is_synced());
        assert!(syncing.take_failure().is_some());
        assert!(syncing.take_failure().is_none());
        redo::keep(&path, b"note");
        syncing.add_note();
        syncing.drop_note(path.clone());
        assert!(!syncing.wait() && redo::is_noted(&path));
        assert!(!syncing.take_recovery());
        syncing.write(&file, 0, b"bytes").unwrap();
        assert!(syncing.wait() && syncing.is_synced());
        assert!(!redo::is_noted(&path));
        assert!(syncing.take_recovery() && !syncing.take_recovery());
        syncing.write(&failing, 0, b"bytes").unwrap();
        assert!(!syncing.wait());
        syncing.write(&file, 0, b"bytes").unwrap();
        assert!(syncing.wait() && !syncing.take_recovery(), "the second failure was not reported");
    }

    #[test]
    fn a_sync_leaves_a_newer_note_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session-a.json");
        let group =
            |number| Group { noted: Some(Noted { session: path.clone(), number }), ..Group::default() };
        redo::keep(&path, b"note");
        group(1).discard_note(2);
        assert!(redo::is_noted(&path));
        group(2).discard_note(2);
        assert!(!redo::is_noted(&path));
    }

    #[test]
    fn a_folder_whose_sync_did_not_happen_is_still_to_be_synced() {
        let named = |folder: &str| Group { folder: Some(PathBuf::from(folder)), ..Group::default() };
        let mut next = Group::default();
        next.put_back(named("old"));
        assert_eq!(next.folder.as_deref(), Some(Path::new("old")));
        let mut next = named("new");
        next.put_back(named("old"));
        assert_eq!(next.folder.as_deref(), Some(Path::new("new")));
    }
}
