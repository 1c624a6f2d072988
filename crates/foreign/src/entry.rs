//! The vocabulary of stores: the agent, an unread session, and read errors.

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

    /// The name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }

    /// The agent with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.as_str() == word)
    }

    /// The display name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenCode => "OpenCode",
        }
    }
}

/// An existing session, not yet read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignEntry {
    pub path: PathBuf,
    /// Which session of a database it is; `None` where the file is the session.
    pub within: Option<String>,
    pub stamp: Stamp,
    /// The name of the session, where it is stored outside of it.
    pub(crate) name: Option<String>,
}

/// Differs whenever the session may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Stamp {
    pub size: u64,
    pub modified_ns: i64,
    /// The inode; for a session in several files, a combination of all of them.
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

/// Which branches of a conversation to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branches {
    All,
    /// Only the one that its last message is on.
    Last,
}
