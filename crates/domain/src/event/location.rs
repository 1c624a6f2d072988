//! Places that a call is about.

use std::path::{Path, PathBuf};

/// A place in a file, or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub path: PathBuf,
    /// From 1, where one is known.
    pub line: Option<u64>,
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Self { path: path.to_path_buf(), line: None }
    }
}
