//! Hidden names that ignore files tell search programs to include.
//!
//! Errs on the side of more names: what a pattern means is not followed beyond its last component.

use std::path::Path;

use super::{Disk, MAX_BYTES, finds_any};

/// Files that tell search programs which files to skip.
pub(crate) const IGNORE_FILES: [&str; 5] =
    [".gitignore", ".ignore", ".rgignore", ".fdignore", ".git/info/exclude"];
/// Limit of parent folders whose ignore files are read.
const MAX_PARENTS: usize = 64;
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Patterns of ignore files that make search programs include hidden names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revealed {
    patterns: Vec<String>,
    /// Whether any name may be included.
    all: bool,
}

impl Revealed {
    /// The patterns of the folders around a folder.
    pub(crate) fn above(disk: &dyn Disk, folder: &Path) -> Self {
        let mut found = Self::default();
        for folder in folder.ancestors().skip(1).take(MAX_PARENTS) {
            found.add(disk, folder);
        }
        found
    }

    /// Adds the patterns of a folder.
    pub(crate) fn add(&mut self, disk: &dyn Disk, folder: &Path) {
        for name in IGNORE_FILES {
            if let Some(text) = disk.text(&folder.join(name)) {
                self.read(&text);
            }
        }
    }

    fn read(&mut self, text: &str) {
        // The part that was not read may include any name.
        self.all |= text.len() as u64 >= MAX_BYTES;
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        for pattern in text.lines().filter_map(|line| line.trim().strip_prefix('!')) {
            self.all |= pattern.contains(['\\', '{', '}']);
            let last = pattern.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            if last.starts_with(['.', '*', '?', '[']) {
                self.patterns.push(last.to_owned());
            }
        }
    }

    /// Whether a hidden name may be included.
    pub(crate) fn shows(&self, name: &str) -> bool {
        self.all || self.patterns.iter().any(|pattern| finds_any(pattern, name))
    }
}
