//! Rest points: what another server needs to go on is stored before the client reads that the task waits.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use pollux_a2a::protocol::Update;
use pollux_archive::{Limits, checksum, pack_workspace, unpack_workspace};
use pollux_blobs::Condition;
use pollux_config::files::{self, Mode};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Service;
use crate::error::{A2aError, ErrorKind};
use crate::fingerprint::fingerprint;
use crate::store::key;
use crate::store::lease::Holding;
use crate::task::Task;
use crate::task::record::{Record, UPSTREAM_ARCHIVE};
use crate::workspace;

/// What this process has of a task on its machine.
#[derive(Debug, Default)]
pub(super) struct LocalTask {
    /// The holder that wrote the session file.
    epoch: u64,
    /// The file of its session.
    session: Option<PathBuf>,
    /// What the workspace was when it was stored or restored last.
    stored: Option<String>,
}

/// The objects that a record names.
struct StoredObjects {
    /// Of the session, if they are known.
    pieces: Option<HashSet<String>>,
    archive: Option<String>,
}

impl StoredObjects {
    fn of(record: &Record) -> Self {
        Self { pieces: record.session_pieces.objects(), archive: record.archive.clone() }
    }
}

/// Between two attempts to store a task.
const PAUSE: Duration = Duration::from_secs(2);

impl Service {
    /// Stores everything and tells the update, which ends or pauses the turn.
    pub(crate) async fn rest(&self, task: &Rc<Task>, update: Update) {
        let Some(holding) = task.holding().filter(|holding| !holding.is_over()) else { return };
        let known = self.known_pieces(task).await;
        let before = task.read(StoredObjects::of);
        let archived = if self.store.is_shared { self.archive(task, &holding, &known).await } else { Ok(()) };
        let unstored = archived.as_ref().err().map(|error| {
            (self.log)(&format!("task {}: the workspace was not stored: {error}", task.id));
            format!(
                "Warning: the workspace could not be stored ({error}). This server keeps it and tries again after the \
                 next turn; another server would continue with what was stored before."
            )
        });
        if holding.is_over() {
            return;
        }
        task.change(|record| record.unstored = unstored);
        self.prepare_warned(task, update);
        let mut may_pass = archived.is_err_and(|error| error.kind == ErrorKind::Unavailable);
        // Also a store that is away for long gets it in the end; the client need not wait for that.
        while !holding.is_over() {
            let saved = self.save(task, &holding).await;
            task.announce();
            match saved {
                // The store is back, and takes the workspace as well.
                Ok(()) if may_pass => {
                    may_pass = false;
                    if self.archive(task, &holding, &known).await.is_ok() {
                        task.change(|record| record.unstored = None);
                    }
                    continue;
                }
                Ok(()) => return self.remove_replaced(task, &holding, before).await,
                Err(error) => self.debug(&format!("task {}: {error}", task.id)),
            }
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = holding.lost.cancelled() => return,
            }
        }
    }

    /// Deletes what the record named before and does not name any more. What cannot be deleted stays as waste.
    async fn remove_replaced(&self, task: &Task, holding: &Holding, before: StoredObjects) {
        let now = task.read(StoredObjects::of);
        if !self.store.is_shared || holding.is_over() {
            return;
        }
        let removed = async {
            if let (Some(before), Some(now)) = (&before.pieces, &now.pieces) {
                self.store.remove_session_pieces(&task.id, before.difference(now)).await?;
            }
            // Upstream's name stays: its server reads no other.
            let archive = before.archive.filter(|name| now.archive.as_ref() != Some(name));
            match archive.filter(|name| name != UPSTREAM_ARCHIVE) {
                Some(name) => {
                    let key = key(&format!("tasks/{}/{name}", task.id))?;
                    Ok(self.store.blobs.delete(&key, Condition::Any).await?)
                }
                None => Ok::<(), A2aError>(()),
            }
        };
        if let Err(error) = removed.await {
            self.debug(&format!("task {}: {error}", task.id));
        }
    }

    /// Takes an update in with the warning about the workspace, which the record keeps apart from what was said.
    fn prepare_warned(&self, task: &Rc<Task>, mut update: Update) {
        let said = match &mut update {
            Update::Status(update) => {
                let said = update.status.message.clone();
                let state = update.status.state;
                update.status.message = task.change(|record| {
                    record.state = state;
                    record.with_warning(said.clone())
                });
                said
            }
            _ => None,
        };
        self.prepare_update(task, update);
        task.change(|record| record.said = said);
    }

    /// Stores workspace and session under names that no earlier holder writes with other content.
    async fn archive(
        &self,
        task: &Rc<Task>,
        holding: &Holding,
        known: &HashSet<String>,
    ) -> Result<(), A2aError> {
        let file = self.local.borrow().get(&task.id).and_then(|local| local.session.clone());
        if let Some(file) = file.filter(|file| file.exists()) {
            let failed = |error: std::io::Error| A2aError::new(ErrorKind::Internal, error.to_string());
            let bytes = tokio::fs::read(&file).await.map_err(failed)?;
            let pieces = self.store.save_session(&task.id, &bytes, known).await?;
            // What happened here does not count once another server has the task.
            if holding.is_over() {
                return Ok(());
            }
            task.change(|record| record.session_pieces = pieces);
        }
        let (root, owns) = task.read(|record| (record.workspace.clone(), record.owns_workspace));
        if !owns {
            return Ok(());
        }
        let stored = self.local.borrow().get(&task.id).and_then(|local| local.stored.clone());
        let packed = self.scratch.path().join(format!("{}.tar.gz", task.id));
        let into = packed.clone();
        let packing = move || -> Result<Option<(Option<String>, String)>, String> {
            // Before packing: what changes meanwhile is stored the next time.
            let now = fingerprint(&root).map_err(|error| error.to_string())?;
            if now.is_some() && stored == now {
                return Ok(None);
            }
            let packed = pack_workspace(&root, &into, &Limits::workspace());
            let packed = packed.map_err(|error| error.to_string())?;
            Ok(Some((now, packed.sha256)))
        };
        let failed = |error: String| A2aError::new(ErrorKind::Internal, error);
        let done = spawn_blocking(packing).await.map_err(|error| failed(error.to_string()))?;
        let Some((fingerprint, checksum)) = done.map_err(failed)? else { return Ok(()) };
        let name = format!("workspace-{:08}.tar.gz", holding.epoch);
        let uploaded = async {
            self.upload(task, &name, &packed).await?;
            // For upstream's server, which knows one name only.
            self.upload(task, UPSTREAM_ARCHIVE, &packed).await
        };
        let uploaded = uploaded.await;
        let _ = fs::remove_file(&packed);
        uploaded?;
        if holding.is_over() {
            return Ok(());
        }
        self.local.borrow_mut().entry(task.id.clone()).or_default().stored = fingerprint;
        task.change(|record| {
            record.archive = Some(name);
            record.checksum = Some(checksum);
        });
        Ok(())
    }

    /// The objects of the session that are stored. Where they cannot be read, all of the session is written again.
    async fn known_pieces(&self, task: &Task) -> HashSet<String> {
        if !self.store.is_shared {
            return HashSet::new();
        }
        let pieces = task.read(|record| record.session_pieces.clone());
        match self.store.session_objects(&task.id, &pieces).await {
            Ok(known) => {
                task.change(|record| record.session_pieces.set_known(&pieces, known.clone()));
                known
            }
            Err(error) => {
                self.debug(&format!("task {}: {error}", task.id));
                HashSet::new()
            }
        }
    }

    async fn upload(&self, task: &Task, name: &str, from: &Path) -> Result<(), A2aError> {
        let key = key(&format!("tasks/{}/{name}", task.id))?;
        self.store.blobs.put_file(&key, from, Condition::Any).await?;
        Ok(())
    }

    /// The workspace of a task on this machine, and the file that its session continues if that is not known here. A
    /// folder that was used last on this machine is taken as it is: it may have more than could be stored.
    pub(crate) async fn restore(
        &self,
        task: &Rc<Task>,
        holding: &Holding,
    ) -> Result<(PathBuf, Option<PathBuf>), A2aError> {
        let (owns, path, owner) =
            task.read(|record| (record.owns_workspace, record.workspace.clone(), record.owner.clone()));
        let session = self.restore_session(task, holding).await?;
        if !owns {
            // It may have been replaced by a link meanwhile, and other machines may not have it.
            let wished = path.to_string_lossy();
            let is_servers = self
                .config
                .workspace
                .as_ref()
                .is_some_and(|own| own.canonicalize().is_ok_and(|own| own == path));
            if is_servers {
                return Ok((path, session));
            }
            match workspace::open(&self.config, &owner, &task.id, Some(&wished)) {
                Ok(found) => return Ok((found.path, session)),
                Err(_) if task.read(Record::is_of_upstream) => {
                    task.change(|record| record.owns_workspace = true);
                }
                Err(error) => return Err(error),
            }
        }
        let place = workspace::own(&self.config, &owner, &task.id)?;
        if self.store.is_shared {
            let used = workspace::used(&self.config, &task.id);
            let is_newest = used.is_some() && (used == holding.before.get() || used == Some(holding.epoch));
            let archive = task.read(|record| record.archive.clone());
            if let Some(name) = archive.filter(|_| !is_newest) {
                self.unpack(task, holding, &name, &place).await?;
            }
        }
        workspace::set_used(&self.config, &task.id, holding.epoch)?;
        task.change(|record| record.workspace.clone_from(&place));
        Ok((place, session))
    }

    /// The session file to continue; none for a new session or one that this server can resume itself.
    async fn restore_session(&self, task: &Rc<Task>, holding: &Holding) -> Result<Option<PathBuf>, A2aError> {
        let pieces = task.read(|record| record.session_pieces.clone());
        if !self.store.is_shared {
            return Ok(None);
        }
        // The file of the last turn here may have more than was stored.
        let local = self.local.borrow().get(&task.id).and_then(|local| {
            let is_newest = Some(local.epoch) == holding.before.get() || local.epoch == holding.epoch;
            local.session.clone().filter(|file| is_newest && file.exists())
        });
        if local.is_some() {
            return Ok(local);
        }
        if pieces.is_empty() {
            return Ok(None);
        }
        let (bytes, known) = self.store.load_session(&task.id, &pieces).await?;
        task.change(|record| record.session_pieces.set_known(&pieces, known));
        let file = self.scratch.path().join(format!("{}.json", task.id));
        files::replace(&file, &bytes, Mode::Private)
            .map_err(|error| A2aError::new(ErrorKind::Internal, error.to_string()))?;
        Ok(Some(file))
    }

    async fn unpack(&self, task: &Task, holding: &Holding, name: &str, place: &Path) -> Result<(), A2aError> {
        let failed = |error: String| A2aError::new(ErrorKind::Internal, error);
        let packed = self.scratch.path().join(format!("{}.restore.tar.gz", task.id));
        let key = key(&format!("tasks/{}/{name}", task.id))?;
        if self.store.blobs.get_file(&key, &packed).await?.is_none() {
            // Upstream stores no empty workspace.
            if name == UPSTREAM_ARCHIVE {
                return Ok(());
            }
            return Err(failed("the stored workspace is missing".to_owned()));
        }
        // A server on the same machine may have the task, and with it the folder.
        if holding.is_over() || !holding.guard.is_open() {
            return Err(A2aError::new(ErrorKind::Unavailable, "another server may work on this task"));
        }
        let (root, from) = (place.to_path_buf(), packed.clone());
        let expected = task.read(|record| record.checksum.clone());
        let unpacking = move || -> Result<Option<String>, String> {
            let found = checksum(&from).map_err(|error| error.to_string())?;
            if expected.is_some_and(|expected| expected != found) {
                return Err("the stored workspace is damaged".to_owned());
            }
            fs::remove_dir_all(&root)
                .and_then(|()| workspace::create(&root))
                .map_err(|error| error.to_string())?;
            unpack_workspace(&from, &root, &Limits::workspace()).map_err(|error| error.to_string())?;
            Ok(fingerprint(&root).ok().flatten())
        };
        let done = spawn_blocking(unpacking).await;
        let _ = fs::remove_file(&packed);
        let stored = done.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
        self.local.borrow_mut().entry(task.id.clone()).or_default().stored = stored;
        self.debug(&format!("task {}: workspace restored", task.id));
        Ok(())
    }

    /// The workspace is not on this machine any more.
    pub(super) fn forget_fingerprint(&self, task: &str) {
        if let Some(local) = self.local.borrow_mut().get_mut(task) {
            local.stored = None;
        }
    }

    /// Remembers the file of a session; the copy of the turn before is not needed any more.
    pub(crate) fn replace_session_file(&self, task: &Task, holding: &Holding, file: Option<PathBuf>) {
        let mut local = self.local.borrow_mut();
        let local = local.entry(task.id.clone()).or_default();
        local.epoch = holding.epoch;
        let old = std::mem::replace(&mut local.session, file.clone());
        if let Some(old) = old.filter(|old| self.store.is_shared && Some(old) != file.as_ref()) {
            let _ = fs::remove_file(old);
        }
    }
}
