//! Packing and unpacking of folders.
//!
//! Owns: unpacking untrusted archives ([`unpack()`]), the workspace and the metadata of a task as objects of a store
//! ([`pack_workspace`], [`unpack_workspace`], [`pack_task_metadata`]), a folder that can be filled without leaving it
//! ([`ConfinedFolder`]), and the links of a folder in memory ([`Tree`]). Does not own: where archives come from, and
//! what is done with their content.

mod confined;
mod pack;
mod task;
mod tree;
mod unpack;

pub use confined::{ConfinedFolder, make_link};
pub use pack::{PackError, Packed, checksum, pack_workspace};
pub use task::{
    TaskMetadataError, check_task_id, compress, decompress, pack_task_metadata, unpack_task_metadata,
};
pub use tree::{Node, Tree};
pub use unpack::{Limits, Refusal, Skipped, UnpackError, is_repository, unpack, unpack_workspace};
