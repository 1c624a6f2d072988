//! Updates of a task as numbered batches, for other servers.

use pollux_a2a::protocol::{Dialect, Update};
use pollux_blobs::{Condition, PutError};
use serde_json::{Value, json};

use super::{TaskStore, key};
use crate::error::A2aError;

/// A batch of a holder of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Cursor {
    pub(crate) epoch: u64,
    pub(crate) batch: u64,
}

/// What follows a batch.
pub(crate) enum Batch {
    Updates(Vec<(u64, Update)>),
    /// Another server goes on under this number.
    Next(u64),
}

impl Cursor {
    pub(super) fn read(value: Option<&Value>) -> Self {
        let number =
            |index: usize| value.and_then(|pair| pair.get(index)).and_then(Value::as_u64).unwrap_or_default();
        Self { epoch: number(0), batch: number(1) }
    }

    pub(super) fn to_json(self) -> Value {
        json!([self.epoch, self.batch])
    }

    /// The place after this one.
    pub(crate) fn next(self) -> Self {
        Self { batch: self.batch.saturating_add(1), ..self }
    }

    fn name(self, task: &str) -> String {
        format!("tasks/{task}/events/{:08}-{:08}", self.epoch, self.batch)
    }
}

impl TaskStore {
    /// Writes a batch; false if the name is taken, because another server has the task.
    pub(crate) async fn append(&self, task: &str, at: Cursor, updates: &[Value]) -> Result<bool, A2aError> {
        self.occupy(task, at, &json!({"events": updates})).await
    }

    /// Ends the batches of an earlier holder; false if one more of them was written meanwhile.
    pub(crate) async fn fence(&self, task: &str, at: Cursor, next: u64) -> Result<bool, A2aError> {
        self.occupy(task, at, &json!({"next": next})).await
    }

    async fn occupy(&self, task: &str, at: Cursor, content: &Value) -> Result<bool, A2aError> {
        let text = content.to_string();
        let key = key(&at.name(task))?;
        match self.blobs.put(&key, text.as_bytes(), Condition::Absent).await {
            Ok(_) => Ok(true),
            // The response to our own write may have been lost.
            Err(PutError::Conflict(_)) => {
                let there = self.blobs.get(&key).await?;
                Ok(there.is_some_and(|there| there.bytes == text.as_bytes()))
            }
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }

    /// The batch at this place, if it was written.
    pub(crate) async fn batch(&self, task: &str, at: Cursor) -> Result<Option<Batch>, A2aError> {
        let Some(blob) = self.blobs.get(&key(&at.name(task))?).await? else { return Ok(None) };
        let value: Value = serde_json::from_slice(&blob.bytes).unwrap_or(Value::Null);
        if let Some(next) = value.get("next").and_then(Value::as_u64) {
            return Ok(Some(Batch::Next(next)));
        }
        let events = value.get("events").and_then(Value::as_array).into_iter().flatten();
        let updates =
            events.filter_map(|event| Some((event.get(0)?.as_u64()?, Update::read(event.get(1)?)?)));
        Ok(Some(Batch::Updates(updates.collect())))
    }

    /// Deletes the batches of holders before this one, which nobody needs any more.
    pub(crate) async fn prune(&self, task: &str, before: u64) -> Result<(), A2aError> {
        let folder = format!("tasks/{task}/events/");
        for (key, name) in self.names(&folder).await? {
            let epoch = name.split('-').next().and_then(|epoch| epoch.parse::<u64>().ok());
            if epoch.is_some_and(|epoch| epoch < before) {
                self.blobs.delete(&key, Condition::Any).await?;
            }
        }
        Ok(())
    }
}

/// An update as batches hold it.
pub(crate) fn written(number: u64, update: &Update) -> Value {
    json!([number, update.to_json(Dialect::Tagged)])
}
