//! The sources of memory, notes and transcripts, as documents of numbered lines.

pub(crate) mod notes;
pub(crate) mod sessions;

use std::path::{Path, PathBuf};

/// Where a chunk comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// Notes.
    Memory,
    /// Conversations.
    Sessions,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sessions => "sessions",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Memory, Self::Sessions].into_iter().find(|known| known.as_str() == text)
    }
}

/// Who wrote a text. Stored apart from the text, so that the text cannot change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provenance {
    /// The user.
    Owner,
    /// The program itself.
    System,
    /// The model, or the user and the model together.
    Agent,
    /// Anyone else.
    Untrusted,
}

impl Provenance {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::System => "system",
            Self::Agent => "agent",
            Self::Untrusted => "untrusted",
        }
    }

    /// Unknown values are untrusted.
    pub(crate) fn parse(text: &str) -> Self {
        let known = [Self::Owner, Self::System, Self::Agent, Self::Untrusted];
        known.into_iter().find(|known| known.as_str() == text).unwrap_or(Self::Untrusted)
    }
}

/// A file to index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The name in the index.
    pub(crate) path: String,
    pub(crate) source: Source,
    pub(crate) file: PathBuf,
    pub(crate) stamp: Stamp,
}

impl Listed {
    /// The id of the session that a transcript is of, without its topic.
    pub(crate) fn session(&self) -> String {
        sessions::id_of(&self.file)
    }
}

/// Detects file changes without reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) modified_ns: i64,
    pub(crate) size: i64,
}

impl Stamp {
    pub(crate) fn of(meta: &std::fs::Metadata) -> Self {
        let since = meta.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        Self {
            modified_ns: since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0),
            size: i64::try_from(meta.len()).unwrap_or(i64::MAX),
        }
    }

    pub(crate) fn modified_ms(self) -> i64 {
        self.modified_ns / 1_000_000
    }
}

/// The same for every name of a file.
#[cfg(unix)]
pub(crate) type FileId = (u64, u64);

#[cfg(unix)]
pub(crate) fn file_id(_file: &Path, meta: &std::fs::Metadata) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
pub(crate) type FileId = PathBuf;

#[cfg(not(unix))]
pub(crate) fn file_id(file: &Path, _meta: &std::fs::Metadata) -> Option<FileId> {
    file.canonicalize().ok()
}

/// A file as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) lines: Vec<SourceLine>,
    /// Of the content before anything was taken out of it.
    pub(crate) hash: String,
    /// When it was said, for sessions.
    pub(crate) date: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceLine {
    /// In the file, from 1.
    pub(crate) number: usize,
    pub(crate) text: String,
    pub(crate) provenance: Provenance,
}
