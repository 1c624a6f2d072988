//! Folders of tasks that were given up some time ago are deleted: the store has what they need to go on.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::Service;
use super::holding::Hold;
use crate::task::Task;
use crate::task::record::Record;
use crate::workspace;

/// How long a folder stays after its task was given up here.
const GIVEN_UP: Duration = Duration::from_secs(10 * 60);
/// Folders that are looked at in one go.
const MAX_FOLDERS: usize = 100;

impl Service {
    /// Deletes the folders of tasks that no server uses.
    pub(crate) async fn clean_workspaces(self: &Rc<Self>) {
        let config = self.config.clone();
        let unused = spawn_blocking(move || workspace::unused(&config, GIVEN_UP)).await.unwrap_or_default();
        for id in unused.into_iter().take(MAX_FOLDERS) {
            if !self.clean(&id).await {
                // Looked at again later.
                workspace::touch_used(&self.config, &id);
            }
        }
    }

    /// Deletes the folder of a task; false if it is needed.
    async fn clean(self: &Rc<Self>, id: &str) -> bool {
        let known = self.tasks.borrow().get(id).cloned();
        if known.as_ref().is_some_and(|task| task.holding().is_some() || task.session().is_some()) {
            return false;
        }
        // Nothing is known about a task that is not in this store.
        let Ok(Some(stored)) = self.store.load(id).await else { return false };
        let is_needed = |record: &Record| {
            let is_stored = self.store.is_shared && record.archive.is_some();
            !record.owns_workspace
                || !record.state.is_over()
                || !record.pending.is_empty()
                || record.unstored.is_some()
                || !(record.state.is_final() || is_stored)
        };
        if is_needed(&stored.record) {
            return false;
        }
        let task = self.keep(Task::new(stored.record, Some(stored.version), stored.cursor));
        let Ok(_gate) = task.gate.try_lock() else { return false };
        // With the lease, no other server uses it, also not another one on this machine.
        let Ok(Hold::Held(_)) = self.hold(&task).await else { return false };
        let is_needed = task.session().is_some() || task.has_commands() || task.read(is_needed);
        let mut is_deleted = false;
        if !is_needed {
            let (config, owner, id) =
                (self.config.clone(), task.read(|record| record.owner.clone()), task.id.clone());
            let deleted = spawn_blocking(move || workspace::delete_own(&config, &owner, &id)).await;
            is_deleted = matches!(deleted, Ok(Ok(())));
            self.forget_fingerprint(&task.id);
            if is_deleted {
                self.metrics.count("workspaces_deleted", 1);
            } else {
                self.debug(&format!("task {}: its workspace could not be deleted", task.id));
            }
        }
        if task.session().is_none() && !task.has_commands() {
            self.release(&task).await;
        }
        is_deleted
    }
}
