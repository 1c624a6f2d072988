//! A store in memory, for one process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pollux_domain::BoxFuture;

use crate::key::{Key, Prefix};
use crate::port::{
    Blob, BlobEntry, Blobs, Condition, Fetched, Page, PutError, StoreError, StoreErrorKind, Version,
};

/// Objects that a listing gives at most.
pub(crate) const MAX_PAGE: usize = 1000;

/// Objects in memory; clones share them.
#[derive(Clone, Default)]
pub struct MemoryBlobs {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, (Arc<[u8]>, u64)>,
    /// Never given twice, not even after a deletion.
    last_version: u64,
}

impl State {
    fn holds(&self, key: &Key, condition: &Condition) -> bool {
        let present = self.objects.get(key).map(|(_, version)| version_of(*version));
        match condition {
            Condition::Any => true,
            Condition::Absent => present.is_none(),
            Condition::Version(wanted) => present.as_ref() == Some(wanted),
        }
    }
}

impl MemoryBlobs {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, action: impl FnOnce(&mut State) -> T) -> T {
        action(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn find(&self, key: &Key) -> Option<(Arc<[u8]>, Version)> {
        self.with(|state| {
            state.objects.get(key).map(|(bytes, version)| (Arc::clone(bytes), version_of(*version)))
        })
    }

    fn write(&self, key: &Key, bytes: Arc<[u8]>, condition: &Condition) -> Result<Version, PutError> {
        self.with(|state| {
            if !state.holds(key, condition) {
                return Err(PutError::Conflict(key.clone()));
            }
            state.last_version += 1;
            let version = state.last_version;
            state.objects.insert(key.clone(), (bytes, version));
            Ok(version_of(version))
        })
    }

    fn unreadable(&self, action: &str, path: &Path, error: &std::io::Error) -> StoreError {
        StoreError {
            kind: StoreErrorKind::Unusable,
            action: format!("{action} the file `{}`", path.display()),
            place: self.place(),
            message: error.to_string(),
        }
    }
}

fn version_of(number: u64) -> Version {
    Version::new(number.to_string())
}

impl Blobs for MemoryBlobs {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Blob>, StoreError>> {
        let found = self.find(key).map(|(bytes, version)| Blob { bytes: bytes.to_vec(), version });
        Box::pin(async move { Ok(found) })
    }

    fn get_if_changed<'a>(
        &'a self,
        key: &'a Key,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        let fetched = match self.find(key) {
            None => Fetched::Missing,
            Some((_, found)) if found == *version => Fetched::Unchanged,
            Some((bytes, version)) => Fetched::Changed(Blob { bytes: bytes.to_vec(), version }),
        };
        Box::pin(async move { Ok(fetched) })
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: &'a [u8],
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>> {
        Box::pin(async move { self.write(key, bytes.into(), &condition) })
    }

    fn put_file<'a>(
        &'a self,
        key: &'a Key,
        from: &'a Path,
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>> {
        Box::pin(async move {
            let bytes = tokio::fs::read(from).await;
            let bytes = bytes.map_err(|error| self.unreadable("read", from, &error))?;
            self.write(key, bytes.into(), &condition)
        })
    }

    fn get_file<'a>(
        &'a self,
        key: &'a Key,
        into: &'a Path,
    ) -> BoxFuture<'a, Result<Option<Version>, StoreError>> {
        Box::pin(async move {
            let Some((bytes, version)) = self.find(key) else { return Ok(None) };
            let written = tokio::fs::write(into, &bytes).await;
            written.map_err(|error| self.unreadable("write", into, &error))?;
            Ok(Some(version))
        })
    }

    fn list<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        let limit = limit.clamp(1, MAX_PAGE);
        let page = self.with(|state| {
            let start = after.map_or(Bound::Unbounded, Bound::Excluded);
            let range = state.objects.range::<Key, _>((start, Bound::Unbounded));
            let mut found = range.filter(|(key, _)| key.as_str().starts_with(prefix.as_str()));
            let entry = |(key, (bytes, version)): (&Key, &(Arc<[u8]>, u64))| BlobEntry {
                key: key.clone(),
                version: version_of(*version),
                size: bytes.len() as u64,
            };
            let entries: Vec<BlobEntry> = found.by_ref().take(limit).map(entry).collect();
            let next = found.next().and_then(|_| entries.last()).map(|entry| entry.key.clone());
            Page { entries, next }
        });
        Box::pin(async move { Ok(page) })
    }

    fn delete<'a>(&'a self, key: &'a Key, condition: Condition) -> BoxFuture<'a, Result<(), PutError>> {
        let result = self.with(|state| {
            if !state.holds(key, &condition) {
                return Err(PutError::Conflict(key.clone()));
            }
            state.objects.remove(key);
            Ok(())
        });
        Box::pin(async move { result })
    }

    fn ensure_bucket(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn place(&self) -> String {
        "memory:".to_owned()
    }
}
