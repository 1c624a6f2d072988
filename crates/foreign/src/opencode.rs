//! OpenCode: at first a folder of small JSON files per project, then one for all, now a database.
//!
//! The files of a session that was moved into the database remain; the database takes precedence.

mod database;
mod files;
mod part;

use std::collections::HashSet;
use std::path::Path;

use crate::entry::{Branches, ForeignEntry, ReadError};
use crate::session::{Facts, Record};

pub(crate) use database::{Copies, is_database};

pub(crate) fn entries(root: &Path, copies: &Copies) -> Vec<ForeignEntry> {
    let mut entries = database::entries(root, copies);
    let known: HashSet<String> = entries.iter().filter_map(|entry| entry.within.clone()).collect();
    let is_new = |entry: &ForeignEntry| {
        !entry.path.file_stem().is_some_and(|id| known.contains(&*id.to_string_lossy()))
    };
    entries.extend(files::entries(root).into_iter().filter(is_new));
    entries
}

pub(crate) fn replay(
    entry: &ForeignEntry,
    copies: &Copies,
    branches: Branches,
    visit: &mut dyn FnMut(&Record<'_>),
) -> Result<Facts, ReadError> {
    match &entry.within {
        Some(id) => database::replay(&entry.path, id, copies, branches, visit)
            .map_err(|source| ReadError::Database { path: entry.path.clone(), source }),
        None => files::replay(&entry.path, branches, visit)
            .map_err(|source| ReadError::File { path: entry.path.clone(), source }),
    }
}
