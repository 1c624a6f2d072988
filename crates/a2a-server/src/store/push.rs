//! Webhooks of a task, and what they were told last. Any server writes the former, the holder of the task the latter.

use pollux_a2a::protocol::{Dialect, TaskState};
use pollux_blobs::Condition;
use serde_json::{Value, json};

use super::{TaskStore, is_task_id, key};
use crate::error::A2aError;

/// The last update that webhooks were told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PushedUpdate {
    pub(crate) number: u64,
    /// `None` before the first one.
    pub(crate) state: Option<TaskState>,
}

impl PushedUpdate {
    fn text(self) -> String {
        let state = self.state.map(|state| state.word(Dialect::Tagged));
        json!({"number": self.number, "state": state}).to_string()
    }
}

impl TaskStore {
    /// Stores a webhook in its sealed form.
    pub(crate) async fn put_webhook(&self, task: &str, id: &str, sealed: &str) -> Result<(), A2aError> {
        let key = key(&format!("tasks/{task}/push/{id}"))?;
        self.blobs.put(&key, sealed.as_bytes(), Condition::Any).await?;
        Ok(())
    }

    pub(crate) async fn remove_webhook(&self, task: &str, id: &str) -> Result<(), A2aError> {
        Ok(self.blobs.delete(&key(&format!("tasks/{task}/push/{id}"))?, Condition::Any).await?)
    }

    /// The names of a task's webhooks.
    pub(crate) async fn webhook_ids(&self, task: &str) -> Result<Vec<String>, A2aError> {
        let names = self.names(&format!("tasks/{task}/push/")).await?;
        Ok(names.into_iter().map(|(_, id)| id).filter(|id| is_task_id(id)).collect())
    }

    /// One webhook of a task in its sealed form.
    pub(crate) async fn webhook(&self, task: &str, id: &str) -> Result<Option<String>, A2aError> {
        let blob = self.blobs.get(&key(&format!("tasks/{task}/push/{id}"))?).await?;
        Ok(blob.and_then(|blob| String::from_utf8(blob.bytes).ok()))
    }

    /// What webhooks were told last, if they were told anything.
    pub(crate) async fn pushed(&self, task: &str) -> Result<Option<PushedUpdate>, A2aError> {
        let Some(blob) = self.blobs.get(&key(&format!("tasks/{task}/pushed"))?).await? else {
            return Ok(None);
        };
        let value: Value = serde_json::from_slice(&blob.bytes).unwrap_or(Value::Null);
        let state = value.get("state").and_then(Value::as_str).and_then(TaskState::named);
        Ok(value.get("number").and_then(Value::as_u64).map(|number| PushedUpdate { number, state }))
    }

    /// Notes where the first webhook of a task begins, unless one has begun before.
    pub(crate) async fn begin_pushed(&self, task: &str, now: PushedUpdate) -> Result<(), A2aError> {
        let key = key(&format!("tasks/{task}/pushed"))?;
        self.create(&key, now.text().as_bytes()).await.map(drop)
    }

    pub(crate) async fn set_pushed(&self, task: &str, pushed: PushedUpdate) -> Result<(), A2aError> {
        let key = key(&format!("tasks/{task}/pushed"))?;
        self.blobs.put(&key, pushed.text().as_bytes(), Condition::Any).await?;
        Ok(())
    }
}
