//! Limits and exclusions of a snapshot.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::path::RelPath;

/// Names of our temporary files in the workspace; never recorded.
pub(crate) const TEMP_PREFIX: &[u8] = b".pollux-rewind-";

/// Marks a folder as a cache that can be rebuilt.
pub(crate) const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
pub(crate) const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// The bounds of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file.
    pub file: u64,
    /// Bytes of all files of the workspace.
    pub tree: u64,
    /// Files and folders.
    pub entries: usize,
    /// Size limit of the store in bytes, including old contents.
    pub store: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file: 10 << 20, tree: 500 << 20, entries: 50_000, store: 1 << 30 }
    }
}

/// Folders that tools fill and can fill again, in the syntax of `.gitignore`.
pub fn default_skips() -> Vec<String> {
    const NAMES: &[&str] = &[
        "node_modules/",
        "bower_components/",
        ".venv/",
        "__pycache__/",
        ".tox/",
        ".nox/",
        ".gradle/",
        ".next/",
        ".nuxt/",
        ".terraform/",
        ".yarn/cache/",
    ];
    NAMES.iter().map(|name| (*name).to_owned()).collect()
}

/// The scope of a snapshot.
pub(crate) struct Scope {
    pub(crate) limits: Limits,
    skip: Gitignore,
    /// The program's own state, if it is below the root.
    never: Vec<RelPath>,
}

impl Scope {
    /// Invalid patterns are ignored: a snapshot then covers more, not less.
    pub(crate) fn new(limits: Limits, skip: &[String], never: Vec<RelPath>) -> Self {
        let mut builder = GitignoreBuilder::new("");
        for line in skip {
            let _ = builder.add_line(None, line);
        }
        Self { limits, skip: builder.build().unwrap_or_else(|_| Gitignore::empty()), never }
    }

    /// Whether the settings exclude this path; not called for paths in an excluded folder.
    pub(crate) fn skips(&self, path: &RelPath, is_folder: bool) -> bool {
        matches!(self.skip.matched(path.as_path(), is_folder), Match::Ignore(_))
    }

    /// Whether it is the program's own and must be neither recorded nor touched.
    pub(crate) fn is_ours(&self, path: &RelPath) -> bool {
        let is_temp = path.split().is_some_and(|(_, name)| name.starts_with(TEMP_PREFIX));
        is_temp || self.never.iter().any(|own| path.as_path().starts_with(own.as_path()))
    }
}
