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
use std::sync::{Arc, Condvar, Mutex, OnceLock};
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
    synced: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What the next sync covers.
    next: Group,
    /// Number of writes so far.
    written: u64,
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
    /// The session whose redo note is not needed once its file is on the disk.
    noted: Option<PathBuf>,
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

    /// Removes the redo note of a session after the next sync.
    pub(crate) fn drop_note(&self, session: PathBuf) {
        self.change(|group| group.noted = Some(session));
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

    /// Waits until everything written so far is on the disk.
    pub(crate) fn wait(&self) {
        let state = self.0.state.locked();
        let written = state.written;
        let waiting = |state: &mut State| state.synced < written;
        if state.is_queued {
            let _ = worker().map(|worker| worker.send(Work::Hurry));
        }
        drop(self.0.synced.wait_timeout_while(state, PATIENCE, waiting));
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
        let mut state = self.0.state.locked();
        state.synced = state.synced.max(written);
        state.failure = synced.err().or(state.failure.take());
        drop(state);
        self.0.synced.notify_all();
    }
}

impl Group {
    fn sync(self) -> io::Result<()> {
        if let Some(file) = self.file {
            files::sync(&file)?;
        }
        if let Some(folder) = self.folder {
            files::sync_folder(&folder);
        }
        if let Some(session) = self.noted {
            redo::discard(&session);
        }
        Ok(())
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
