//! Tasks in the object store: which object holds what.
//!
//! Every object that several servers write is written conditionally. Events form a chain: a server that takes a task
//! over occupies the next name of its predecessor, whose own next write then fails.

pub(crate) mod events;
mod history;
mod index;
pub(crate) mod lease;
mod pieces;
pub(crate) mod push;
pub(crate) mod usage;

use std::sync::Arc;
use std::time::Duration;

use pollux_archive::{pack_task_metadata, unpack_task_metadata};
use pollux_blobs::{Blob, Blobs, Condition, Fetched, Key, Prefix, PutError, Version};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::error::{A2aError, ErrorKind};
use crate::task::record::Record;

use self::events::Cursor;
pub(crate) use index::{ListQuery, Listed, is_page_token};

/// The store must answer the check of readiness within this time.
const READY: Duration = Duration::from_secs(2);

/// Objects of a folder that are read at once.
const MAX_NAMES: usize = 10_000;

/// The tasks of all servers.
#[derive(Clone)]
pub(crate) struct TaskStore {
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) replica: String,
    /// Other servers may use it too.
    pub(crate) is_shared: bool,
    /// Whom tasks of upstream's server belong to, which knows no owners; they are nobody's where there are several.
    pub(crate) sole_owner: Option<String>,
}

/// A task as it was stored.
pub(crate) struct StoredTask {
    pub(crate) record: Record,
    pub(crate) version: Version,
    pub(crate) cursor: Cursor,
}

/// A message that another server took.
pub(crate) struct InboxMessage {
    pub(crate) digest: String,
    pub(crate) content: Value,
}

impl TaskStore {
    /// The task with this id; `None` if there is none.
    pub(crate) async fn load(&self, id: &str) -> Result<Option<StoredTask>, A2aError> {
        let blob = self.blobs.get(&metadata(id)?).await?;
        blob.map(|blob| self.read(id, blob)).transpose()
    }

    /// The same; also `None` if it is still the version that is known.
    pub(crate) async fn load_newer(
        &self,
        id: &str,
        known: Option<&Version>,
    ) -> Result<Option<StoredTask>, A2aError> {
        let Some(known) = known else { return self.load(id).await };
        match self.blobs.get_if_changed(&metadata(id)?, known).await? {
            Fetched::Changed(blob) => self.read(id, blob).map(Some),
            Fetched::Missing | Fetched::Unchanged => Ok(None),
        }
    }

    fn read(&self, id: &str, blob: Blob) -> Result<StoredTask, A2aError> {
        let damaged = || A2aError::new(ErrorKind::Internal, "the stored task is damaged");
        let value = Value::Object(unpack_task_metadata(id, &blob.bytes).map_err(|_| damaged())?);
        let owner = self.sole_owner.as_deref().unwrap_or_default();
        let record = Record::read(id, &value, owner).ok_or_else(damaged)?;
        let cursor = Cursor::read(value.pointer("/_pollux/cursor"));
        Ok(StoredTask { record, version: blob.version, cursor })
    }

    /// Writes the record if it is still the one that was read.
    pub(crate) async fn save(
        &self,
        record: &Record,
        cursor: Cursor,
        known: Option<Version>,
    ) -> Result<Version, A2aError> {
        let mut value = record.to_json();
        if let Some(own) = value.get_mut("_pollux").and_then(Value::as_object_mut) {
            own.insert("cursor".to_owned(), cursor.to_json());
        }
        let Value::Object(fields) = value else {
            return Err(A2aError::new(ErrorKind::Internal, "could not store the task"));
        };
        let bytes = pack_task_metadata(&record.id, &fields);
        let bytes = bytes.map_err(|error| A2aError::new(ErrorKind::Internal, error.to_string()))?;
        let condition = known.map_or(Condition::Absent, Condition::Version);
        Ok(self.blobs.put(&metadata(&record.id)?, &bytes, condition).await?)
    }

    /// Keeps a message for the server that works on its task; false if there is another one of this name.
    pub(crate) async fn claim(&self, task: &str, digest: &str, content: &Value) -> Result<bool, A2aError> {
        let key = key(&format!("tasks/{task}/inbox/{digest}"))?;
        self.create(&key, content.to_string().as_bytes()).await
    }

    /// Takes the first message of a task; the task that it began if it was taken before.
    pub(crate) async fn claim_first(
        &self,
        owner: &str,
        digest: &str,
        task: &str,
    ) -> Result<Option<String>, A2aError> {
        let key = key(&format!("messages/{owner}/{digest}"))?;
        if self.create(&key, task.as_bytes()).await? {
            return Ok(None);
        }
        let blob = self.blobs.get(&key).await?;
        let task = blob.and_then(|blob| String::from_utf8(blob.bytes).ok());
        match task {
            Some(task) if !is_task_id(&task) => {
                Err(A2aError::new(ErrorKind::Internal, "the stored message is damaged"))
            }
            task => Ok(task),
        }
    }

    /// Lets a first message be sent again whose task could not be created.
    pub(crate) async fn unclaim_first(&self, owner: &str, digest: &str) -> Result<(), A2aError> {
        Ok(self.blobs.delete(&key(&format!("messages/{owner}/{digest}"))?, Condition::Any).await?)
    }

    /// Creates an object; false if it exists with other content.
    async fn create(&self, key: &Key, bytes: &[u8]) -> Result<bool, A2aError> {
        match self.blobs.put(key, bytes, Condition::Absent).await {
            Ok(_) => Ok(true),
            // The response to our own write may have been lost.
            Err(PutError::Conflict(_)) => {
                let there = self.blobs.get(key).await?;
                Ok(there.is_some_and(|there| there.bytes == bytes))
            }
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }

    /// Messages of a task that wait, oldest first.
    pub(crate) async fn inbox(&self, task: &str) -> Result<Vec<InboxMessage>, A2aError> {
        let mut found = Vec::new();
        for (key, digest) in self.names(&format!("tasks/{task}/inbox/")).await? {
            let Some(blob) = self.blobs.get(&key).await? else { continue };
            let content = serde_json::from_slice(&blob.bytes).unwrap_or(Value::Null);
            found.push(InboxMessage { digest, content });
        }
        found.sort_by_key(|message| message.content.get("at").and_then(Value::as_i64));
        Ok(found)
    }

    /// Removes a message that a stored record has seen, or that asks for nothing.
    pub(crate) async fn remove_message(&self, task: &str, digest: &str) -> Result<(), A2aError> {
        let key = key(&format!("tasks/{task}/inbox/{digest}"))?;
        Ok(self.blobs.delete(&key, Condition::Any).await?)
    }

    /// All objects in a folder, with their names in it.
    async fn names(&self, folder: &str) -> Result<Vec<(Key, String)>, A2aError> {
        let (prefix, mut after, mut found) = (prefix(folder)?, None, Vec::new());
        loop {
            let page = self.blobs.list(&prefix, after.as_ref(), 1_000).await?;
            found.extend(page.entries.into_iter().map(|entry| {
                let name = entry.key.as_str().strip_prefix(folder).unwrap_or_default().to_owned();
                (entry.key, name)
            }));
            after = page.next;
            if after.is_none() || found.len() >= MAX_NAMES {
                return Ok(found);
            }
        }
    }

    /// Marks a task as being worked on, for servers that look for abandoned ones.
    pub(crate) async fn mark_active(&self, task: &str, is_active: bool) -> Result<(), A2aError> {
        let key = key(&format!("active/{task}"))?;
        if is_active {
            self.blobs.put(&key, b"", Condition::Any).await?;
        } else {
            self.blobs.delete(&key, Condition::Any).await?;
        }
        Ok(())
    }

    /// The tasks that are being worked on.
    pub(crate) async fn active(&self) -> Result<Vec<String>, A2aError> {
        let names = self.names("active/").await?;
        Ok(names.into_iter().map(|(_, id)| id).filter(|id| is_task_id(id)).collect())
    }

    /// Whether the store answers in time.
    pub(crate) async fn is_ready(&self) -> bool {
        let Ok(key) = key("ready") else { return false };
        matches!(timeout(READY, self.blobs.get(&key)).await, Ok(Ok(_)))
    }
}

/// Where the record of a task is.
fn metadata(task: &str) -> Result<Key, A2aError> {
    key(&format!("tasks/{task}/metadata.tar.gz"))
}

/// A checked name.
pub(crate) fn key(text: &str) -> Result<Key, A2aError> {
    Key::parse(text).map_err(|error| A2aError::params(error.to_string()))
}

fn prefix(text: &str) -> Result<Prefix, A2aError> {
    Prefix::parse(text).map_err(|error| A2aError::params(error.to_string()))
}

/// Whether a text has the form of a task's id.
pub(crate) fn is_task_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// A message as it waits for the server that works on its task. No two are the same.
pub(crate) fn waiting_message(message: &Value, at: i64) -> Value {
    json!({"message": message, "at": at, "by": Uuid::new_v4().to_string()})
}
