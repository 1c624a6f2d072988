//! What `pollux sessions …` asks for.

use std::path::PathBuf;

/// `pollux sessions …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionsCommand {
    List {
        wanted: Wanted,
        json: bool,
    },
    Show {
        which: Which,
        json: bool,
    },
    Search {
        words: String,
        wanted: Wanted,
        limit: Option<usize>,
        json: bool,
    },
    Transcript {
        which: Which,
        form: TranscriptFormat,
    },
    FindProject {
        name: String,
        json: bool,
    },
    Export {
        which: Which,
        output: PathBuf,
        /// A file that is there is replaced.
        yes: bool,
        json: bool,
    },
    Import {
        /// A file, or a session.
        what: Which,
        json: bool,
    },
    Delete {
        which: Which,
        yes: bool,
        json: bool,
    },
    Prune {
        dry_run: bool,
        yes: bool,
        json: bool,
    },
    Verify {
        repair: bool,
        json: bool,
    },
    Stats {
        json: bool,
    },
    Rewind {
        which: Which,
        /// The number of a prompt or the id of a message.
        to: String,
        what: RewindWhat,
        /// Files that others changed since are put back, too.
        overwrite: bool,
        yes: bool,
        json: bool,
    },
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Which {
    /// `latest`, a number of the list, an id, or the beginning of one.
    pub(crate) id: String,
    pub(crate) all_projects: bool,
    /// `None` where it may be anybody's.
    pub(crate) source: Option<SessionSource>,
}

/// Some sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) all_projects: bool,
    /// `None` for all.
    pub(crate) source: Option<SessionSource>,
    pub(crate) subagents: bool,
    /// Everything that is known of them, for programs.
    pub(crate) in_full: bool,
}

/// Whose sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionSource {
    /// Ours and gemini-cli's, which lie in the same folders.
    Gemini,
    Claude,
    Codex,
    OpenCode,
}

impl SessionSource {
    /// The word on the command line and in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
        }
    }
}

/// How a transcript is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TranscriptFormat {
    Text,
    Markdown,
    JsonLines,
}

/// What goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RewindWhat {
    Conversation,
    Files,
    Both,
}

impl RewindWhat {
    pub(crate) fn conversation(self) -> bool {
        self != Self::Files
    }

    pub(crate) fn files(self) -> bool {
        self != Self::Conversation
    }
}
