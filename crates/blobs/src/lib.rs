//! Object stores with conditional writes: memory, a folder, Google Cloud Storage, S3 and compatible servers.
//!
//! Owns: the port ([`Blobs`]), its four stores, their credentials, retries and the check whether a store keeps its
//! conditions. Does not own: what is stored under which key, leases, archives.
//! Start at [`open`] and [`Blobs`].

mod checksum;
mod fault;
mod file;
mod gs;
mod key;
mod memory;
mod open;
mod payload;
mod port;
mod probe;
mod remote;
mod retry;
mod s3;
mod wire;

pub use key::{BadKey, Key, Prefix};
pub use memory::MemoryBlobs;
pub use open::{OpenError, StoreOptions, open};
pub use port::{
    Blob, BlobEntry, Blobs, Condition, Consistency, Fetched, Page, PutError, StoreError, StoreErrorKind,
    Version,
};
