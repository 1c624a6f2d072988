//! The part of a task's history that is not in its record: read when it is needed, and moved there when it has become long.

use std::rc::Rc;

use pollux_a2a::protocol::Task as TaskView;

use super::Service;
use crate::error::A2aError;
use crate::store::lease::Holding;
use crate::task::Task;
use crate::task::history::History;

impl Service {
    /// The task as clients see it, with so much of its history.
    pub(crate) async fn view(
        &self,
        task: &Task,
        history: Option<usize>,
        artifacts: bool,
    ) -> Result<TaskView, A2aError> {
        self.read_history(task, history).await?;
        Ok(task.read(|record| record.view(history, artifacts)))
    }

    /// Reads what is missing of so many messages.
    pub(crate) async fn read_history(&self, task: &Task, most: Option<usize>) -> Result<(), A2aError> {
        self.read_blocks(task, |history| history.unread(most)).await
    }

    /// Whether a task has seen a message.
    pub(super) async fn has_seen(&self, task: &Task, digest: &str) -> Result<bool, A2aError> {
        if task.read(|record| record.history.has_seen(digest)) {
            return Ok(true);
        }
        self.read_blocks(task, History::unread_seen).await?;
        Ok(task.read(|record| record.history.has_seen(digest)))
    }

    /// Reads blocks while one is missing for what is wanted.
    async fn read_blocks(
        &self,
        task: &Task,
        missing: impl Fn(&History) -> Option<String>,
    ) -> Result<(), A2aError> {
        while let Some(name) = task.read(|record| missing(&record.history)) {
            let block = self.store.load_block(&task.id, &name).await?;
            if block.is_none() {
                // The task goes on without it. It may also be gone because another server has dropped it.
                self.debug(&format!("task {}: a part of its history is missing", task.id));
            }
            task.change(|record| record.history.add_block(name, block.unwrap_or_default()));
        }
        Ok(())
    }

    /// Moves older messages into a block if there are many. The record that names it is written next; if that fails, the
    /// one after it does. The caller holds `saving`.
    pub(super) async fn shorten_history(&self, task: &Rc<Task>, holding: &Holding) -> Result<(), A2aError> {
        if !task.read(|record| record.history.is_long()) {
            return Ok(());
        }
        self.read_blocks(task, History::unread_seen).await?;
        let block = task.read(|record| record.history.next_block());
        let name = self.store.save_block(&task.id, &block).await?;
        let outdated = task.change(|record| record.history.move_into(&name, block));
        // A block that is not used is not needed itself.
        holding.outdated_blocks.borrow_mut().extend(outdated.unwrap_or_else(|| vec![name]));
        Ok(())
    }

    /// Deletes the blocks that the stored record does not name any more. What cannot be deleted stays as waste.
    pub(super) async fn remove_outdated_blocks(&self, task: &Task, holding: &Holding) {
        let outdated = holding.outdated_blocks.take();
        if let Err(error) = self.store.remove_blocks(&task.id, &outdated).await {
            self.debug(&format!("task {}: {error}", task.id));
        }
    }
}
