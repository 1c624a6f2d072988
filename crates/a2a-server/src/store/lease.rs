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
use crate::error::{A2aError, ErrorKind};
use crate::guard::Guard;

/// How often a holder renews its lease.
pub(crate) const RENEWAL: Duration = Duration::from_secs(5);
/// A lease that stays unchanged for so long is abandoned.
const SILENCE: Duration = Duration::from_secs(20);

/// How many writes of our own may come in between.
const MAX_OWN: usize = 4;

/// What the object of a lease says.
#[derive(Debug, Default)]
struct Lease {
    /// Empty if nobody holds it.
    replica: String,
    epoch: u64,
}

/// The lease that this server holds on a task.
pub(crate) struct Holding {
    pub(crate) epoch: u64,
    version: RefCell<Version>,
    beats: Cell<u64>,
    /// The last batch of events that was written.
    pub(crate) batch: Cell<u64>,
    /// Updates that are not written yet.
    pub(crate) waiting: RefCell<Vec<Value>>,
    /// How many of them are in a batch whose write seemed to fail.
    pub(crate) attempted: Cell<usize>,
    pub(crate) has_waiting: Notify,
    /// Held while a batch is written.
    pub(crate) writing: tokio::sync::Mutex<()>,
    /// Another server has the task: nothing more may be done or written.
    pub(crate) lost: CancellationToken,
    /// The lease was given up.
    pub(crate) ended: CancellationToken,
    /// Lets calls of tools wait while the lease is in doubt.
    pub(crate) guard: Guard,
    /// Held while the record is written.
    pub(crate) saving: tokio::sync::Mutex<()>,
    /// The holder that used the workspace last before this one.
    pub(crate) before: Cell<Option<u64>>,
    /// The holder before was interrupted in the middle of something.
    pub(crate) is_recovered: Cell<bool>,
    /// The last update that was looked at for webhooks; `None` before the first look.
    pub(crate) pushed: Cell<Option<u64>>,
    /// It is to be given up once webhooks know everything.
    pub(crate) is_wanted_back: Cell<bool>,
    /// Blocks of the history that are deleted once the record no longer names them.
    pub(crate) outdated_blocks: RefCell<Vec<String>>,
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

impl Lease {
    fn read(bytes: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
        Self {
            replica: value.get("replica").and_then(Value::as_str).unwrap_or_default().to_owned(),
            epoch: value.get("epoch").and_then(Value::as_u64).unwrap_or_default(),
        }
    }
}

impl Holding {
    pub(crate) fn new(epoch: u64, version: Version, guard: Guard) -> Self {
        Self {
            epoch,
            version: RefCell::new(version),
            beats: Cell::new(0),
            batch: Cell::new(0),
            waiting: RefCell::default(),
            attempted: Cell::new(0),
            has_waiting: Notify::new(),
            writing: tokio::sync::Mutex::new(()),
            lost: CancellationToken::new(),
            ended: CancellationToken::new(),
            guard,
            saving: tokio::sync::Mutex::new(()),
            before: Cell::new(None),
            is_recovered: Cell::new(false),
            pushed: Cell::new(None),
            is_wanted_back: Cell::new(false),
            outdated_blocks: RefCell::default(),
        }
    }

    /// Whether this server no longer has the task.
    pub(crate) fn is_over(&self) -> bool {
        self.lost.is_cancelled() || self.ended.is_cancelled()
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
                let lease = Lease::read(&blob.bytes);
                if !lease.replica.is_empty() && seen.age(task, &blob.version) < SILENCE {
                    return Err(LeaseError::Busy);
                }
                let next = lease.epoch.checked_add(1);
                let damaged = || A2aError::new(ErrorKind::Internal, "the stored lease is damaged");
                (next.ok_or_else(damaged)?, Condition::Version(blob.version))
            }
        };
        let bytes = self.lease(epoch, 0, &self.replica);
        let sent = Instant::now();
        let held = |version| {
            seen.forget(task);
            let guard = if self.is_shared { Guard::since(sent) } else { Guard::open() };
            Ok(Holding::new(epoch, version, guard))
        };
        match self.blobs.put(&key, bytes.as_bytes(), condition).await {
            Ok(version) => held(version),
            Err(PutError::Conflict(_)) => match self.blobs.get(&key).await? {
                // The response to our own write may have been lost.
                Some(there) if there.bytes == bytes.as_bytes() => held(there.version),
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
        for _ in 0..MAX_OWN {
            let version = holding.version.borrow().clone();
            match self.blobs.put(&key, bytes.as_bytes(), Condition::Version(version)).await {
                Ok(version) => {
                    holding.version.replace(version);
                    return Ok(true);
                }
                Err(PutError::Conflict(_)) => {
                    let Some(there) = self.blobs.get(&key).await? else { return Ok(false) };
                    let is_written = there.bytes == bytes.as_bytes();
                    let lease = Lease::read(&there.bytes);
                    // A write of ours took effect after we had given up waiting for it.
                    let is_ours = lease.replica == self.replica && lease.epoch == holding.epoch;
                    if !is_written && !is_ours {
                        return Ok(false);
                    }
                    holding.version.replace(there.version);
                    if is_written {
                        return Ok(true);
                    }
                }
                Err(PutError::Store(error)) => return Err(error.into()),
            }
        }
        Err(A2aError::new(ErrorKind::Unavailable, "the lease changes too often"))
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
        let store = |name: &str| TaskStore {
            blobs: Arc::clone(&blobs),
            replica: name.into(),
            is_shared: true,
            sole_owner: None,
        };
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
