//! The index `memory-index.db`. All of it can be rebuilt from notes and transcripts.

pub(crate) mod cache;
pub(crate) mod claim;
pub(crate) mod database;
pub(crate) mod error;
mod extension;
pub(crate) mod identity;
pub(crate) mod reindex;
pub(crate) mod rows;
pub(crate) mod sync;
pub(crate) mod writer;
