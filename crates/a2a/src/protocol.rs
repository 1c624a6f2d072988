//! The messages of the A2A protocol, as client and server exchange them.
//!
//! Both versions have one set of types; a [`Dialect`] says how they are spelled. Reading accepts every dialect. What a
//! task does, and who may see it, is not decided here.

mod buffers;
mod message;
mod method;
mod task;
mod update;
mod version;

pub use buffers::with_json_names;
pub use message::{Ids, Message, Part, PartBody, Role};
pub use method::Method;
pub use task::{Artifact, Status, Task, TaskState};
pub use update::{ArtifactUpdate, StatusUpdate, Update};
pub use version::{Dialect, UnknownVersion, VERSION_HEADER, Version};
