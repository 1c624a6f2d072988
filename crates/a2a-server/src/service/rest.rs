//! Rest points: what another server needs to go on is stored before the client reads that the task waits.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use pollux_a2a::protocol::Update;
use pollux_archive::{Limits, checksum, pack_workspace, unpack_workspace};
use pollux_blobs::Condition;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::Service;
use crate::error::{A2aError, ErrorKind};
use crate::fingerprint::fingerprint;
use crate::store::key;
use crate::store::lease::Holding;
use crate::task::Task;
use crate::workspace;

/// Between two attempts to store a task.
const PAUSE: Duration = Duration::from_secs(2);

impl Service {
    /// Stores everything and tells the update, which ends or pauses the turn.
    pub(crate) async fn rest(&self, task: &Rc<Task>, update: Update) {
        let Some(holding) = task.holding().filter(|holding| !holding.lost.is_cancelled()) else { return };
        if self.store.is_shared
            && let Err(error) = self.archive(task, &holding).await
        {
            (self.log)(&format!("task {}: the workspace was not stored: {error}", task.id));
        }
        self.prepare_update(task, update);
        // Also a store that is away for long gets it in the end; the client need not wait for that.
        while !holding.lost.is_cancelled() {
            let saved = self.save(task, &holding).await;
            task.announce();
            match saved {
                Ok(()) => return,
                Err(error) => self.debug(&format!("task {}: {error}", task.id)),
            }
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = holding.lost.cancelled() => return,
            }
        }
    }

    /// Stores workspace and session under names that no earlier holder writes.
    async fn archive(&self, task: &Rc<Task>, holding: &Holding) -> Result<(), A2aError> {
        let file = task.session_file.borrow().clone();
        if let Some(file) = file.filter(|file| file.exists()) {
            let name = format!("session-{:08}.json", holding.epoch);
            self.upload(task, &name, &file).await?;
            task.change(|record| record.session_object = Some(name));
        }
        let (root, owns, archived) =
            task.read(|record| (record.workspace.clone(), record.owns_workspace, record.archived.clone()));
        if !owns {
            return Ok(());
        }
        let packed = self.scratch.path().join(format!("{}.tar.gz", task.id));
        let into = packed.clone();
        let packing = move || -> Result<Option<(Option<String>, String)>, String> {
            let now = fingerprint(&root).map_err(|error| error.to_string())?;
            if now.is_some() && archived == now {
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
            self.upload(task, "workspace.tar.gz", &packed).await
        };
        let uploaded = uploaded.await;
        let _ = fs::remove_file(&packed);
        uploaded?;
        task.change(|record| {
            record.archive = Some(name);
            record.archived = fingerprint;
            record.checksum = Some(checksum);
        });
        Ok(())
    }

    async fn upload(&self, task: &Task, name: &str, from: &Path) -> Result<(), A2aError> {
        let key = key(&format!("tasks/{}/{name}", task.id))?;
        self.store.blobs.put_file(&key, from, Condition::Any).await?;
        Ok(())
    }

    /// The workspace of a task on this machine, as it was at the last rest point.
    pub(crate) async fn restore(&self, task: &Rc<Task>) -> Result<PathBuf, A2aError> {
        let (owns, path, archive, archived, session) = task.read(|record| {
            (
                record.owns_workspace,
                record.workspace.clone(),
                record.archive.clone(),
                record.archived.clone(),
                record.session_object.clone(),
            )
        });
        if let Some(name) = session.filter(|_| self.store.is_shared) {
            let file = self.scratch.path().join(format!("{}.json", task.id));
            let key = key(&format!("tasks/{}/{name}", task.id))?;
            if self.store.blobs.get_file(&key, &file).await?.is_some() {
                self.restored.borrow_mut().insert(task.id.clone(), file);
            }
        }
        if !owns {
            // It may have been replaced by a link meanwhile, and other machines may not have it.
            let wished = path.to_string_lossy();
            let is_servers = self
                .config
                .workspace
                .as_ref()
                .is_some_and(|own| own.canonicalize().is_ok_and(|own| own == path));
            return match is_servers {
                true => Ok(path),
                false => {
                    workspace::open(&self.config, &task.id, Some(&wished)).map(|workspace| workspace.path)
                }
            };
        }
        let place = workspace::own(&self.config, &task.id)?;
        if let Some(name) = archive.filter(|_| self.store.is_shared) {
            self.unpack(task, &name, archived, &place).await?;
        }
        task.change(|record| record.workspace.clone_from(&place));
        Ok(place)
    }

    async fn unpack(
        &self,
        task: &Task,
        name: &str,
        archived: Option<String>,
        place: &Path,
    ) -> Result<(), A2aError> {
        let failed = |error: String| A2aError::new(ErrorKind::Internal, error);
        let root = place.to_path_buf();
        let present = spawn_blocking(move || fingerprint(&root).ok().flatten()).await.unwrap_or_default();
        if present.is_some() && present == archived {
            return Ok(());
        }
        let packed = self.scratch.path().join(format!("{}.restore.tar.gz", task.id));
        let key = key(&format!("tasks/{}/{name}", task.id))?;
        if self.store.blobs.get_file(&key, &packed).await?.is_none() {
            return Err(failed("the stored workspace is missing".to_owned()));
        }
        let (root, from) = (place.to_path_buf(), packed.clone());
        let expected = task.read(|record| record.checksum.clone());
        let unpacking = move || -> Result<(), String> {
            let found = checksum(&from).map_err(|error| error.to_string())?;
            if expected.is_some_and(|expected| expected != found) {
                return Err("the stored workspace is damaged".to_owned());
            }
            fs::remove_dir_all(&root)
                .and_then(|()| fs::create_dir(&root))
                .map_err(|error| error.to_string())?;
            unpack_workspace(&from, &root, &Limits::workspace()).map(drop).map_err(|error| error.to_string())
        };
        let done = spawn_blocking(unpacking).await;
        let _ = fs::remove_file(&packed);
        done.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
        self.debug(&format!("task {}: workspace restored", task.id));
        Ok(())
    }

    /// Remembers the file of a session; the copy of the turn before is not needed any more.
    pub(crate) fn replace_session_file(&self, task: &Task, file: Option<PathBuf>) {
        let old = task.session_file.replace(file.clone());
        if let Some(old) = old.filter(|old| self.store.is_shared && Some(old) != file.as_ref()) {
            let _ = fs::remove_file(old);
        }
    }
}
