//! What `pollux sessions …` asks for.

use std::path::PathBuf;

use pollux_host::sessions::{Wanted, Which};

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
