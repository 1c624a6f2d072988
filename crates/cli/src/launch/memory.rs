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
        yes: bool,
        json: bool,
    },
    Doctor {
        json: bool,
    },
    Export,
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
