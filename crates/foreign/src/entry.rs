//! The vocabulary of a store: whose it is, what lies in it unread, and why reading fails.

use std::io;
use std::path::PathBuf;

/// Whose store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ForeignAgent {
    Claude,
    Codex,
    OpenCode,
}

impl ForeignAgent {
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::OpenCode];

    /// The word on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// The agent that a word means.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.as_str() == word)
    }

    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenCode => "OpenCode",
        }
    }
}

/// A session that is there, not yet read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignEntry {
    pub path: PathBuf,
    /// Which session of a database it is; `None` where the file is the session.
    pub within: Option<String>,
    pub stamp: Stamp,
    /// What the session is called, where that is told outside of it.
    pub(crate) name: Option<String>,
}

/// Differs whenever the session may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Stamp {
    pub size: u64,
    pub modified_ns: i64,
    /// The inode; of a session in several places, what stands for the others as well.
    pub mark: u64,
}

/// Why a session could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("could not read `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("could not read the database `{}`", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error("`{}` is compressed, which is not supported", path.display())]
    Compressed { path: PathBuf },
    #[error("no conversation in `{}`", path.display())]
    Empty { path: PathBuf },
}

/// Which of the ways a conversation took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branches {
    All,
    /// Only the one that its last message is on.
    Last,
}
