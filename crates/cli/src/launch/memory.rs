//! What `pollux memory …` asks for.

/// `pollux memory …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemoryCommand {
    Enable,
    Disable,
    Status {
        json: bool,
    },
    Index {
        /// Everything anew.
        force: bool,
        json: bool,
    },
    Search {
        question: Question,
        explain: bool,
        json: bool,
    },
    Get {
        path: String,
        lines: Option<Lines>,
        json: bool,
    },
    Learnings {
        json: bool,
    },
    Forget {
        what: Forgettable,
        reach: Reach,
        yes: bool,
        json: bool,
    },
    Adopt {
        /// Where the workspace was before it was moved.
        folder: String,
    },
    Doctor {
        json: bool,
    },
    Export {
        reach: Reach,
    },
    ModelInstall {
        /// A known model, or a folder.
        what: String,
        json: bool,
    },
    ModelList {
        json: bool,
    },
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) query: String,
    /// `memory` or `sessions`; both if left out.
    pub(crate) source: Option<&'static str>,
    /// `v2` or `seed`; as the settings say if left out.
    pub(crate) mode: Option<&'static str>,
    pub(crate) limit: Option<usize>,
    pub(crate) reach: Reach,
}

/// What part of an agent's memory a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reach {
    /// That of this workspace.
    #[default]
    Workspace,
    AllWorkspaces,
    /// What comes from no known workspace.
    Unassigned,
}

/// Lines of a file, from 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Forgettable {
    Path(String),
    Session(String),
    /// These words, wherever they stand.
    Phrase(String),
}
