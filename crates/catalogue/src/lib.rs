//! An index over sessions that makes listing and searching thousands of them fast.
//!
//! Owns: one SQLite file with the listed facts of every session, our own and those of other agents, and a
//! full-text index of their words.
//! Does not own: any original data. Everything is read from the session files and can be rebuilt; a missing,
//! old, damaged or locked index only costs time, so nothing here fails.
//! Start at [`Catalogue::open`], then [`Catalogue::refresh`]; [`Catalogue::list`] works after that,
//! [`Catalogue::search`] after [`Catalogue::refresh_texts`].

mod catalogue;
mod database;
mod listing;
mod parallel;
mod phrase;
mod refresh;
mod row;
mod scope;
mod search;
mod source;
mod statistics;
mod text_index;

pub use catalogue::Catalogue;
pub use listing::{Filter, Listed};
pub use refresh::{Progress, Refreshed, Stage};
pub use search::{Hit, HitKind, Snippet};
pub use source::{Origin, Source};
pub use statistics::Statistics;
