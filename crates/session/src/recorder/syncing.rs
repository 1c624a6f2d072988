//! Syncs records to disk, so that they survive a power failure.
//!
//! One thread of the process syncs files in groups: what a session writes within [`GATHERED`] reaches the disk together,
//! since a sync costs more than many writes. Callers wait for it only before complete records move and at the end of a
//! session.

use std::fs::File;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pollux_config::files;
use pollux_domain::sync::Locked as _;

use crate::redo;

/// How long a write may wait for others to be synced together with it.
const GATHERED: Duration = Duration::from_millis(10);
/// A disk that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

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
}

/// Changes that reach the disk together.
#[derive(Debug, Default)]
struct Group {
    file: Option<Arc<File>>,
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
    /// Notes a write to this file.
    pub(crate) fn wrote(&self, file: &Arc<File>) {
        self.change(|group| {
            if group.file.as_ref().is_none_or(|known| !Arc::ptr_eq(known, file)) {
                group.file = Some(Arc::clone(file));
            }
        });
    }

    /// Notes that a folder has a new name.
    pub(crate) fn named(&self, folder: &Path) {
        self.change(|group| group.folder = Some(folder.to_owned()));
    }

    /// Notes that there is a new redo note: a sync that began earlier must not remove it.
    pub(crate) fn add_note(&self) {
        *self.0.notes.locked() += 1;
    }

    /// Removes the redo note of a session after the next sync.
    pub(crate) fn drop_note(&self, session: PathBuf) {
        let number = *self.0.notes.locked();
        self.change(|group| group.noted = Some(Noted { session, number }));
    }

    fn change(&self, change: impl FnOnce(&mut Group)) {
        let mut state = self.0.state.locked();
        change(&mut state.next);
        state.written += 1;
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

    /// Whether everything written so far is on the disk.
    pub(crate) fn is_synced(&self) -> bool {
        let state = self.0.state.locked();
        state.synced >= state.written
    }

    /// Why the last sync failed, once.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        self.0.state.locked().failure.take()
    }

    fn sync(&self) {
        let mut state = self.0.state.locked();
        state.is_queued = false;
        let written = state.written;
        let group = mem::take(&mut state.next);
        drop(state);
        let synced = group.sync();
        if synced.is_ok() {
            // No note may be added between the comparison and the removal.
            let notes = self.0.notes.locked();
            group.discard_note(*notes);
        }
        let mut state = self.0.state.locked();
        state.tried = state.tried.max(written);
        match synced {
            Ok(()) => {
                state.synced = state.synced.max(written);
            }
            Err(error) => {
                state.failure = Some(error);
                state.next.put_back(group);
            }
        }
        drop(state);
        self.0.synced.notify_all();
    }
}

impl Group {
    fn sync(&self) -> io::Result<()> {
        if let Some(file) = &self.file {
            files::sync(file)?;
        }
        if let Some(folder) = &self.folder {
            files::sync_folder(folder);
        }
        Ok(())
    }

    /// Removes the redo note unless there is a newer one, whose write may not be on the disk.
    fn discard_note(&self, notes: u64) {
        if let Some(Noted { session, .. }) = self.noted.as_ref().filter(|noted| noted.number == notes) {
            redo::discard(session);
        }
    }

    /// Adds what a failed sync has left to do, so that the next write tries it again. Newer changes stay.
    fn put_back(&mut self, failed: Self) {
        self.file = self.file.take().or(failed.file);
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
    while let Ok(first) = work.recv() {
        // Nothing is queued, so there is nothing to hurry.
        let Work::Sync(first) = first else { continue };
        let mut sessions = vec![first];
        let end = Instant::now() + GATHERED;
        while let Ok(Work::Sync(another)) = work.recv_timeout(end.saturating_duration_since(Instant::now())) {
            sessions.push(another);
        }
        sessions.iter().for_each(Syncing::sync);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_failed_sync_is_reported_once_and_tried_again_with_the_next_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session-a.json");
        let file = Arc::new(File::create(&path).unwrap());
        let syncing = Syncing::default();
        assert!(syncing.wait() && syncing.is_synced());
        syncing.wrote(&Arc::new(crate::recorder::tests::unsyncable(&path)));
        assert!(!syncing.wait() && !syncing.is_synced());
        assert!(syncing.take_failure().is_some());
        assert!(syncing.take_failure().is_none());
        redo::keep(&path, b"note");
        syncing.add_note();
        syncing.drop_note(path.clone());
        assert!(!syncing.wait() && redo::is_noted(&path));
        syncing.wrote(&file);
        assert!(syncing.wait() && syncing.is_synced());
        assert!(!redo::is_noted(&path));
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
