//! A side index over sessions, so that listing and searching thousands of them takes no time.
//!
//! Owns: one SQLite file with what a list shows of every session, ours and other agents', and the words in
//! them. Does not own: a single fact. Everything in it is read from the sessions' files and can be read
//! again; a missing, old, damaged or locked index costs time and nothing else, so nothing here fails.
//! Start at [`Catalogue::open`], then [`Catalogue::refresh`]; [`Catalogue::list`] answers from there,
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
