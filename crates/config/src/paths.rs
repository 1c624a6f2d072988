//! Where Pollux keeps its state: the user's `.gemini` and one folder for each project.

use std::path::{Path, PathBuf};

/// The user's home and the `.gemini` folder in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    user_home: PathBuf,
    gemini_dir: PathBuf,
}

/// A project's identity and its state folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
    hash: String,
    temp_dir: PathBuf,
    read_chat_dirs: Vec<PathBuf>,
}

impl Home {
    /// The person's home directory (`GEMINI_CLI_HOME` or `HOME`).
    pub fn user_home(&self) -> &Path {
        &self.user_home
    }

    /// The `.gemini` folder.
    pub fn gemini_dir(&self) -> &Path {
        &self.gemini_dir
    }
}

impl Project {
    /// The project's root as an absolute path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// SHA-256 of the root path in lower-case hex: the name that session files carry.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The project's own folder below `tmp/`; created by whoever writes first.
    pub fn temp_dir(&self) -> &Path {
        &self.temp_dir
    }

    /// Where new session files go.
    pub fn chats_dir(&self) -> PathBuf {
        self.temp_dir.join("chats")
    }

    /// Every folder that may hold sessions of this project, the one we write to first.
    pub fn read_chat_dirs(&self) -> &[PathBuf] {
        &self.read_chat_dirs
    }
}
