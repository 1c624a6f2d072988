//! Which server works on a task.
//!
//! Clocks of machines are never compared: a server that waits for a lease times how long its object stays unchanged. The
//! number of the holder (epoch) grows with every change of hands and is part of the names of events.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use pollux_blobs::{Condition, PutError, Version};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Cursor, TaskStore, key};
use crate::error::A2aError;
use crate::guard::Guard;

/// How often a holder renews its lease.
pub(crate) const RENEWAL: Duration = Duration::from_secs(5);
/// A lease that stays unchanged for so long is abandoned.
const SILENCE: Duration = Duration::from_secs(20);

/// The lease that this server holds on a task.
pub(crate) struct Holding {
    pub(crate) epoch: u64,
    version: RefCell<Version>,
    beats: Cell<u64>,
    /// The last batch of events that was written.
    pub(crate) batch: Cell<u64>,
    /// Updates that are not written yet.
    pub(crate) waiting: RefCell<Vec<Value>>,
    pub(crate) has_waiting: Notify,
    /// Held while a batch is written.
    pub(crate) writing: tokio::sync::Mutex<()>,
    /// Another server has the task: nothing more may be done or written.
    pub(crate) lost: CancellationToken,
    /// The lease was given up.
    pub(crate) ended: CancellationToken,
    pub(crate) renewed: Cell<Instant>,
    /// Lets calls of tools wait while the lease is in doubt.
    pub(crate) guard: Guard,
}

/// Why a lease could not be had.
#[derive(Debug)]
pub(crate) enum LeaseError {
    /// Another server works on the task.
    Busy,
    Store(A2aError),
}

/// When this server first saw each foreign lease in its present form.
#[derive(Debug, Default)]
pub(crate) struct Observations(RefCell<HashMap<String, (Version, Instant)>>);

impl<T: Into<A2aError>> From<T> for LeaseError {
    fn from(error: T) -> Self {
        Self::Store(error.into())
    }
}

impl Holding {
    pub(crate) fn new(epoch: u64, version: Version) -> Self {
        Self {
            epoch,
            version: RefCell::new(version),
            beats: Cell::new(0),
            batch: Cell::new(0),
            waiting: RefCell::default(),
            has_waiting: Notify::new(),
            writing: tokio::sync::Mutex::new(()),
            lost: CancellationToken::new(),
            ended: CancellationToken::new(),
            renewed: Cell::new(Instant::now()),
            guard: Guard::new(),
        }
    }

    /// The last batch of events.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor { epoch: self.epoch, batch: self.batch.get() }
    }
}

impl Observations {
    /// How long a lease has been seen in this form.
    fn age(&self, task: &str, version: &Version) -> Duration {
        let mut seen = self.0.borrow_mut();
        match seen.get(task) {
            Some((known, since)) if known == version => since.elapsed(),
            _ => {
                seen.insert(task.to_owned(), (version.clone(), Instant::now()));
                Duration::ZERO
            }
        }
    }

    pub(crate) fn forget(&self, task: &str) {
        self.0.borrow_mut().remove(task);
    }
}

impl TaskStore {
    /// Takes the lease of a task if nobody holds it, or if its holder has been silent for too long.
    pub(crate) async fn acquire(&self, task: &str, seen: &Observations) -> Result<Holding, LeaseError> {
        let key = key(&format!("tasks/{task}/lease"))?;
        let (epoch, condition) = match self.blobs.get(&key).await? {
            None => (1, Condition::Absent),
            Some(blob) => {
                let lease: Value = serde_json::from_slice(&blob.bytes).unwrap_or(Value::Null);
                let is_held =
                    lease.get("replica").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
                if is_held && seen.age(task, &blob.version) < SILENCE {
                    return Err(LeaseError::Busy);
                }
                let epoch = lease.get("epoch").and_then(Value::as_u64).unwrap_or_default();
                (epoch + 1, Condition::Version(blob.version))
            }
        };
        let bytes = self.lease(epoch, 0, &self.replica);
        match self.blobs.put(&key, bytes.as_bytes(), condition).await {
            Ok(version) => {
                seen.forget(task);
                Ok(Holding::new(epoch, version))
            }
            Err(PutError::Conflict(_)) => match self.blobs.get(&key).await? {
                // The response to our own write may have been lost.
                Some(there) if there.bytes == bytes.as_bytes() => Ok(Holding::new(epoch, there.version)),
                _ => Err(LeaseError::Busy),
            },
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }

    /// Shows that the holder lives; false if another server has the lease.
    pub(crate) async fn renew(&self, task: &str, holding: &Holding) -> Result<bool, A2aError> {
        holding.beats.set(holding.beats.get() + 1);
        let bytes = self.lease(holding.epoch, holding.beats.get(), &self.replica);
        self.write(task, holding, &bytes).await
    }

    /// Gives the lease up. Its number stays, so that the next holder has a higher one.
    pub(crate) async fn release(&self, task: &str, holding: &Holding) -> Result<bool, A2aError> {
        let bytes = self.lease(holding.epoch, holding.beats.get(), "");
        self.write(task, holding, &bytes).await
    }

    async fn write(&self, task: &str, holding: &Holding, bytes: &str) -> Result<bool, A2aError> {
        let key = key(&format!("tasks/{task}/lease"))?;
        let version = holding.version.borrow().clone();
        match self.blobs.put(&key, bytes.as_bytes(), Condition::Version(version)).await {
            Ok(version) => {
                holding.version.replace(version);
                Ok(true)
            }
            Err(PutError::Conflict(_)) => match self.blobs.get(&key).await? {
                Some(there) if there.bytes == bytes.as_bytes() => {
                    holding.version.replace(there.version);
                    Ok(true)
                }
                _ => Ok(false),
            },
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }

    fn lease(&self, epoch: u64, beat: u64, replica: &str) -> String {
        json!({"replica": replica, "epoch": epoch, "beat": beat}).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pollux_blobs::{Blobs, MemoryBlobs};

    use super::*;

    fn stores() -> (TaskStore, TaskStore) {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
        let store =
            |name: &str| TaskStore { blobs: Arc::clone(&blobs), replica: name.into(), is_shared: true };
        (store("a"), store("b"))
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_lease_is_taken_over_once_and_its_holder_is_fenced() {
        let (a, b) = stores();
        let (seen_a, seen_b) = (Observations::default(), Observations::default());
        let first = a.acquire("t", &seen_a).await.unwrap_or_else(|_| panic!("free"));
        assert!(a.append("t", Cursor { epoch: 1, batch: 1 }, &[json!(1)]).await.unwrap());
        assert!(matches!(b.acquire("t", &seen_b).await, Err(LeaseError::Busy)));
        tokio::time::advance(Duration::from_secs(19)).await;
        assert!(matches!(b.acquire("t", &seen_b).await, Err(LeaseError::Busy)));
        // A renewal starts the time again.
        assert!(a.renew("t", &first).await.unwrap());
        tokio::time::advance(Duration::from_secs(19)).await;
        assert!(matches!(b.acquire("t", &seen_b).await, Err(LeaseError::Busy)));
        tokio::time::advance(Duration::from_secs(21)).await;
        let second = b.acquire("t", &seen_b).await.unwrap_or_else(|_| panic!("abandoned"));
        assert_eq!(second.epoch, 2);
        assert!(b.fence("t", Cursor { epoch: 1, batch: 2 }, 2).await.unwrap());
        assert!(!a.renew("t", &first).await.unwrap(), "the old holder learns it");
        assert!(!a.append("t", Cursor { epoch: 1, batch: 2 }, &[json!(2)]).await.unwrap());
        assert!(b.release("t", &second).await.unwrap());
        let third = a.acquire("t", &seen_a).await.unwrap_or_else(|_| panic!("released"));
        assert_eq!(third.epoch, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_servers_that_race_for_a_lease_one_wins() {
        for _ in 0..50 {
            let (a, b) = stores();
            let (seen_a, seen_b) = (Observations::default(), Observations::default());
            let (one, other) = tokio::join!(a.acquire("t", &seen_a), b.acquire("t", &seen_b));
            assert_eq!(usize::from(one.is_ok()) + usize::from(other.is_ok()), 1);
        }
    }
}
