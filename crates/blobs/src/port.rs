//! The port: what every store can do.

use std::fmt;
use std::path::Path;

use pollux_domain::BoxFuture;

use crate::key::{Key, Prefix};
use crate::probe;

/// A store of objects. Every call is retried as the store needs it: an error is final for now.
///
/// After an error of a write it is unknown whether the object was written, unless it is [`PutError::Conflict`]. A
/// conflict may also mean that the write took effect and was overwritten before its response was repeated: the
/// caller reads again before deciding anything.
pub trait Blobs: Send + Sync {
    /// The object, or `None` if there is none.
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Blob>, StoreError>>;

    /// The object unless it still has `version`.
    fn get_if_changed<'a>(
        &'a self,
        key: &'a Key,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>>;

    /// Writes an object if `condition` holds at that moment; gives its version.
    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: &'a [u8],
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>>;

    /// The same with the content of a file, for objects that should not be held in memory.
    fn put_file<'a>(
        &'a self,
        key: &'a Key,
        from: &'a Path,
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>>;

    /// Writes the object to a file, which is replaced; `None` if there is no object, and then the file is untouched.
    fn get_file<'a>(
        &'a self,
        key: &'a Key,
        into: &'a Path,
    ) -> BoxFuture<'a, Result<Option<Version>, StoreError>>;

    /// The next objects in byte order of their keys: those that begin with `prefix` and come after `after`. At most
    /// `limit` of them, and at most 1,000.
    fn list<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>>;

    /// Deletes an object. With [`Condition::Any`] a missing one is no error; with [`Condition::Version`] it is a
    /// conflict, and so is one that exists with [`Condition::Absent`].
    fn delete<'a>(&'a self, key: &'a Key, condition: Condition) -> BoxFuture<'a, Result<(), PutError>>;

    /// Creates the bucket or folder if it is missing.
    fn ensure_bucket(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Tries whether the store keeps its conditions, with one small object that is deleted afterwards.
    fn probe(&self) -> BoxFuture<'_, Result<Consistency, StoreError>> {
        Box::pin(probe::run(self))
    }

    /// The store's address for people, without parameters: `s3://bucket/prefix`.
    fn place(&self) -> String;

    /// The folder of this machine that has the objects, if one has.
    fn folder(&self) -> Option<&Path> {
        None
    }
}

/// An object.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    pub bytes: Vec<u8>,
    pub version: Version,
}

// Content may be long, and may be a secret.
impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes, {:?})", self.bytes.len(), self.version)
    }
}

/// Result of reading an object again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    Missing,
    Unchanged,
    Changed(Blob),
}

/// The version of an object, opaque and only good for the same key of the same store.
///
/// Overwriting an object with the same bytes may give the same version (S3 derives it from the content): what must be
/// seen to change needs a counter or a random value in its content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// From the text of [`Version::as_str`].
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for keeping it elsewhere.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// When a write may happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Any,
    /// There is no object of this name.
    Absent,
    /// The object has this version.
    Version(Version),
}

/// Some objects of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    pub entries: Vec<BlobEntry>,
    /// What to pass as `after` for the next page; `None` at the end.
    pub next: Option<Key>,
}

/// An object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobEntry {
    pub key: Key,
    pub version: Version,
    pub size: u64,
}

/// Which conditions a store was seen to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consistency {
    /// Creating an object that exists is refused.
    pub creates: bool,
    /// Overwriting an object with an old version is refused.
    pub updates: bool,
    /// Deleting an object with an old version is refused.
    pub deletes: bool,
}

impl Consistency {
    /// Whether several processes may share the store.
    pub fn can_be_shared(self) -> bool {
        self.creates && self.updates
    }

    /// The reason why not, for people.
    pub fn problem(self) -> Option<&'static str> {
        match self {
            Self { creates: false, .. } => Some("it overwrites an object that should only be created"),
            Self { updates: false, .. } => Some("it overwrites an object although its version has changed"),
            Self { creates: true, updates: true, .. } => None,
        }
    }
}

/// Why a write did not happen, or may not have.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("object `{0}` was changed by another writer")]
    Conflict(Key),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why the store did not answer as asked. Holds no secret and no parameters of an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not {action} in {place}: {message}")]
pub struct StoreError {
    pub(crate) kind: StoreErrorKind,
    /// What was tried: "read `tasks/1/lease`".
    pub(crate) action: String,
    pub(crate) place: String,
    pub(crate) message: String,
}

/// What a failure means for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Unreachable, slow or overloaded; retries are used up, but it may pass.
    Unavailable,
    /// No credentials, or they do not permit this.
    Denied,
    /// The bucket or folder does not exist.
    NoBucket,
    /// A damaged or oversized object, a wrong configuration, a response that is not understood.
    Unusable,
}

impl StoreError {
    /// What it means.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// A failure that may pass, for implementations of [`Blobs`] elsewhere.
    pub fn unavailable(action: &str, place: &str, message: &str) -> Self {
        let (action, place, message) = (action.to_owned(), place.to_owned(), message.to_owned());
        Self { kind: StoreErrorKind::Unavailable, action, place, message }
    }

    /// Whether another attempt later could end differently.
    pub fn may_pass(&self) -> bool {
        self.kind == StoreErrorKind::Unavailable
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind {
            StoreErrorKind::Denied => Some(
                "check that the store's credentials allow reading, writing, listing and deleting objects",
            ),
            StoreErrorKind::NoBucket => Some("create the bucket, or allow the credentials to create it"),
            StoreErrorKind::Unavailable | StoreErrorKind::Unusable => None,
        }
    }
}
