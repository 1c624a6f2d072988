//! Lists the folders of a foreign store, skipping links.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use crate::entry::Stamp;

/// Limit of entries read from one folder.
const MAX_ENTRIES: usize = 200_000;

/// The real files and folders in a folder, by name.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) folders: Vec<PathBuf>,
}

/// Reads a folder; one that is missing, unreadable or a link is empty.
pub(crate) fn read(path: &Path) -> Folder {
    let mut folder = Folder::default();
    if !is_real_folder(path) {
        return folder;
    }
    let Ok(entries) = fs::read_dir(path) else { return folder };
    for entry in entries.take(MAX_ENTRIES).flatten() {
        // The type of the entry itself, not of a link's target.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_file() {
            folder.files.push(entry.path());
        } else if kind.is_dir() {
            folder.folders.push(entry.path());
        }
    }
    folder.files.sort();
    folder.folders.sort();
    folder
}

fn is_real_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Identifies a version of a file; `None` if it is not a regular file.
pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::symlink_metadata(path).ok()?;
    metadata.is_file().then(|| Stamp::from(&metadata))
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self { size: metadata.len(), modified_ns: modified_ns(metadata), mark: inode }
    }
}

pub(crate) fn modified_ns(metadata: &Metadata) -> i64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// The last component as text.
pub(crate) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
