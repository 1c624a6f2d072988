//! The state of one path: a value that can be compared, recorded and restored.

use rustix::fs::{FileType, Stat};

/// A SHA-256.
pub(crate) type Hash = [u8; 32];

/// The mode bits that are restored.
pub(crate) const MODE_BITS: u32 = 0o7777;

/// One thing in the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkspaceEntry {
    Folder {
        mode: u32,
    },
    File {
        mode: u32,
        len: u64,
        content: Content,
    },
    Link {
        target: Vec<u8>,
    },
    /// A socket, pipe or device: recorded, never restored.
    Special {
        inode: u64,
    },
}

/// Where a file's bytes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// In the store.
    Saved(Hash),
    /// In the store as a second link of the file; good as long as its time of change is this.
    Linked { key: Hash, mtime: i64 },
    /// Nowhere. Inode and time tell whether it is still the same file.
    Unsaved { inode: u64, mtime: i64 },
}

impl WorkspaceEntry {
    pub(crate) fn is_folder(&self) -> bool {
        matches!(self, Self::Folder { .. })
    }

    /// Whether it could be brought back.
    pub(crate) fn is_saved(&self) -> bool {
        match self {
            Self::Folder { .. } | Self::Link { .. } => true,
            Self::File { content, .. } => !matches!(content, Content::Unsaved { .. }),
            Self::Special { .. } => false,
        }
    }
}

/// The file system's metadata of a path. Two equal stamps mean an unchanged file, unless it was taken so soon
/// after a change that the next one could carry the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Kind and permission bits.
    pub(crate) mode: u32,
    pub(crate) len: u64,
    /// Nanoseconds since 1970.
    pub(crate) mtime: i64,
    /// Cannot be set by programs, so it also shows a change whose mtime was reset.
    pub(crate) ctime: i64,
}

impl Stamp {
    #[allow(clippy::unnecessary_cast, reason = "the types of these fields differ between systems")]
    pub(crate) fn of(stat: &Stat) -> Self {
        let nanos = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            mode: stat.st_mode as u32,
            len: u64::try_from(stat.st_size).unwrap_or_default(),
            mtime: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(crate) fn permissions(&self) -> u32 {
        self.mode & MODE_BITS
    }
}

/// An entry with the stamp it was read under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) entry: WorkspaceEntry,
    pub(crate) stamp: Stamp,
    /// It changed just before it was read: an equal stamp proves nothing.
    pub(crate) fresh: bool,
}
