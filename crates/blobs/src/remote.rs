//! What all stores behind HTTP have in common: retries, marks, paging.

use std::future::Future;
use std::io;
use std::path::Path;

use pollux_domain::BoxFuture;
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use crate::checksum::ChecksumKind;
use crate::fault::Fault;
use crate::key::{Key, Prefix};
use crate::memory::MAX_PAGE;
use crate::payload::{PART, Payload, Sink};
use crate::port::{
    Blob, BlobEntry, Blobs, Condition, Fetched, Page, PutError, StoreError, StoreErrorKind, Version,
};
use crate::retry::{Attempted, Retry, Written};

/// One attempt of each operation in the words of one service.
pub(crate) trait Dialect: Send + Sync {
    const CHECKSUM: ChecksumKind;

    fn fetch(
        &self,
        key: &Key,
        known: Option<&Version>,
        sink: &mut Sink,
    ) -> impl Future<Output = Result<FoundObject, Fault>> + Send;

    /// The version and the mark of an object.
    fn stat(&self, key: &Key) -> impl Future<Output = Result<Option<Stat>, Fault>> + Send;

    fn write(
        &self,
        key: &Key,
        bytes: &[u8],
        stamp: &Stamp,
        condition: &Condition,
    ) -> impl Future<Output = Result<Attempted, Fault>> + Send;

    /// Writes an object in parts, each of them retried.
    fn write_parts(
        &self,
        key: &Key,
        payload: Payload<'_>,
        stamp: &Stamp,
        condition: &Condition,
        retry: &Retry,
    ) -> impl Future<Output = Result<Written, Fault>> + Send;

    fn remove(
        &self,
        key: &Key,
        condition: &Condition,
    ) -> impl Future<Output = Result<Attempted, Fault>> + Send;

    fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<RawPage, Fault>> + Send;

    fn ensure_bucket(&self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// For people, without parameters.
    fn place(&self) -> String;
}

/// What was found under a key.
#[derive(Debug)]
pub(crate) enum FoundObject {
    Missing,
    Unchanged,
    /// The sink has the content.
    Object(Version),
}

/// An object without its content.
#[derive(Debug)]
pub(crate) struct Stat {
    pub(crate) version: Version,
    pub(crate) mark: Option<String>,
}

/// What is kept with an object.
#[derive(Debug)]
pub(crate) struct Stamp {
    /// Random for each write: tells our write from that of another process with the same bytes.
    pub(crate) mark: String,
    pub(crate) checksum: String,
}

/// Objects as a service lists them, with names that need not be keys.
#[derive(Debug, Default)]
pub(crate) struct RawPage {
    /// Name without the store's prefix, version, size.
    pub(crate) entries: Vec<(String, Version, u64)>,
    pub(crate) more: bool,
}

/// A store behind HTTP.
pub(crate) struct Remote<D> {
    dialect: D,
    retry: Retry,
}

impl<D: Dialect> Remote<D> {
    pub(crate) fn new(dialect: D, retry: Retry) -> Self {
        Self { dialect, retry }
    }

    fn error(&self, action: &str, key: &Key, fault: Fault) -> StoreError {
        self.failure(format!("{action} `{key}`"), fault)
    }

    fn failure(&self, action: String, fault: Fault) -> StoreError {
        StoreError { kind: fault.kind, action, place: self.dialect.place(), message: fault.message }
    }

    async fn read(&self, key: &Key, known: Option<&Version>) -> Result<Fetched, StoreError> {
        let attempt = || async {
            let mut sink = Sink::Memory(Vec::new());
            match self.dialect.fetch(key, known, &mut sink).await? {
                FoundObject::Missing => Ok(Fetched::Missing),
                FoundObject::Unchanged => Ok(Fetched::Unchanged),
                FoundObject::Object(version) => match sink {
                    Sink::Memory(bytes) => Ok(Fetched::Changed(Blob { bytes, version })),
                    Sink::File(_) => Err(Fault::unusable("the content is elsewhere")),
                },
            }
        };
        self.retry.run(attempt).await.map_err(|fault| self.error("read", key, fault))
    }

    async fn read_to(&self, key: &Key, into: &Path) -> Result<Option<Version>, StoreError> {
        let folder = into.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let local = |error: io::Error| {
            Fault::unusable(format!("could not write the file `{}`: {error}", into.display()))
        };
        let attempt = || async {
            let temp = tempfile::NamedTempFile::new_in(folder).map_err(local)?;
            let file = temp.as_file().try_clone().map_err(local)?;
            let mut sink = Sink::File(tokio::fs::File::from_std(file));
            let FoundObject::Object(version) = self.dialect.fetch(key, None, &mut sink).await? else {
                return Ok(None);
            };
            if let Sink::File(mut file) = sink {
                file.flush().await.map_err(local)?;
            }
            temp.persist(into).map_err(|error| local(error.error))?;
            Ok(Some(version))
        };
        self.retry.run(attempt).await.map_err(|fault| self.error("read", key, fault))
    }

    async fn write(
        &self,
        key: &Key,
        payload: Payload<'_>,
        condition: &Condition,
    ) -> Result<Version, PutError> {
        let written = self.written(key, payload, condition).await;
        match written.map_err(|fault| self.error("write", key, fault))? {
            Written::Done(version) => Ok(version),
            Written::Refused => Err(PutError::Conflict(key.clone())),
        }
    }

    async fn written(
        &self,
        key: &Key,
        payload: Payload<'_>,
        condition: &Condition,
    ) -> Result<Written, Fault> {
        let local = |error: io::Error| Fault::unusable(format!("could not read the file: {error}"));
        let checksum = payload.checksum(D::CHECKSUM).await.map_err(local)?;
        let stamp = Stamp { mark: Uuid::new_v4().simple().to_string(), checksum };
        if payload.size() > PART {
            return self.dialect.write_parts(key, payload, &stamp, condition, &self.retry).await;
        }
        let in_file = match payload {
            Payload::Bytes(_) => Vec::new(),
            Payload::File { .. } => payload.part(0).await.map_err(local)?,
        };
        let bytes = if let Payload::Bytes(bytes) = payload { bytes } else { &in_file };
        let attempt = || self.dialect.write(key, bytes, &stamp, condition);
        self.retry.write(attempt, || self.own_version(key, &stamp)).await
    }

    /// The version of the object if it is the one that was written with this stamp.
    async fn own_version(&self, key: &Key, stamp: &Stamp) -> Result<Option<Version>, Fault> {
        own_version(&self.dialect, key, stamp).await
    }

    async fn removed(&self, key: &Key, condition: &Condition) -> Result<Written, Fault> {
        if *condition == Condition::Absent {
            let found = self.retry.run(|| self.dialect.stat(key)).await?;
            return Ok(if found.is_some() { Written::Refused } else { Written::Done(Version::new("")) });
        }
        // If the object is gone after an attempt without a response, that attempt deleted it.
        let is_gone = || async {
            let found = self.dialect.stat(key).await?;
            Ok(found.is_none().then(|| Version::new("")))
        };
        self.retry.write(|| self.dialect.remove(key, condition), is_gone).await
    }

    async fn listed(&self, prefix: &Prefix, after: Option<&Key>, limit: usize) -> Result<Page, Fault> {
        let mut after = after.map(|key| key.as_str().to_owned());
        loop {
            let mut raw =
                self.retry.run(|| self.dialect.page(prefix.as_str(), after.as_deref(), limit)).await?;
            // Not every server counts.
            raw.more |= raw.entries.len() > limit;
            raw.entries.truncate(limit);
            let last = raw.entries.last().map(|(name, ..)| name.clone());
            // Names that other programs made and that are no keys are left out.
            let entries: Vec<BlobEntry> = raw
                .entries
                .into_iter()
                .filter_map(|(name, version, size)| {
                    Some(BlobEntry { key: Key::parse(&name).ok()?, version, size })
                })
                .collect();
            if !raw.more {
                return Ok(Page { entries, next: None });
            }
            if let Some(entry) = entries.last() {
                let next = Some(entry.key.clone());
                return Ok(Page { entries, next });
            }
            if last.is_none() || last == after {
                return Err(Fault::unusable("the listing does not advance"));
            }
            after = last;
        }
    }
}

/// The version of the object if it is the one that was written with this stamp.
pub(crate) async fn own_version<D: Dialect>(
    dialect: &D,
    key: &Key,
    stamp: &Stamp,
) -> Result<Option<Version>, Fault> {
    let found = dialect.stat(key).await?;
    Ok(found.filter(|found| found.mark.as_deref() == Some(&stamp.mark)).map(|found| found.version))
}

impl<D: Dialect> Blobs for Remote<D> {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Blob>, StoreError>> {
        Box::pin(async move {
            match self.read(key, None).await? {
                Fetched::Changed(blob) => Ok(Some(blob)),
                Fetched::Missing | Fetched::Unchanged => Ok(None),
            }
        })
    }

    fn get_if_changed<'a>(
        &'a self,
        key: &'a Key,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(self.read(key, Some(version)))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: &'a [u8],
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>> {
        Box::pin(async move { self.write(key, Payload::Bytes(bytes), &condition).await })
    }

    fn put_file<'a>(
        &'a self,
        key: &'a Key,
        from: &'a Path,
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>> {
        Box::pin(async move {
            let meta = tokio::fs::metadata(from).await.map_err(|error| {
                let fault = Fault::unusable(format!("could not read the file `{}`: {error}", from.display()));
                self.error("write", key, fault)
            })?;
            self.write(key, Payload::File { path: from, size: meta.len() }, &condition).await
        })
    }

    fn get_file<'a>(
        &'a self,
        key: &'a Key,
        into: &'a Path,
    ) -> BoxFuture<'a, Result<Option<Version>, StoreError>> {
        Box::pin(self.read_to(key, into))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(async move {
            let listed = self.listed(prefix, after, limit.clamp(1, MAX_PAGE)).await;
            listed.map_err(|fault| self.failure(format!("list `{}`", prefix.as_str()), fault))
        })
    }

    fn delete<'a>(&'a self, key: &'a Key, condition: Condition) -> BoxFuture<'a, Result<(), PutError>> {
        Box::pin(async move {
            let removed = self.removed(key, &condition).await;
            match removed.map_err(|fault| self.error("delete", key, fault))? {
                Written::Done(_) => Ok(()),
                Written::Refused => Err(PutError::Conflict(key.clone())),
            }
        })
    }

    fn ensure_bucket(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let made = self.retry.run(|| self.dialect.ensure_bucket()).await;
            made.map_err(|fault| self.failure("create the bucket".to_owned(), fault))
        })
    }

    fn place(&self) -> String {
        self.dialect.place()
    }
}

/// A damaged object is worth another attempt: it may have been damaged on the way.
pub(crate) fn verify(expected: Option<&str>, found: &str) -> Result<(), Fault> {
    match expected {
        Some(expected) if expected != found => {
            Err(Fault::new(StoreErrorKind::Unavailable, "the object does not match its checksum"))
        }
        Some(_) | None => Ok(()),
    }
}
