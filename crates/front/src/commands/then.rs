//! How a conversation goes on after a command.

use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::{Content, Part};
use pollux_domain::event::Op;
use pollux_host::request::{Request, Resumed, SessionChoice};

/// How a conversation goes on after a command.
pub(crate) enum Then {
    /// The next prompt.
    GoOn,
    /// Nothing more.
    Quit,
    /// A turn that the command began.
    Work(Op),
    /// Another session.
    Anew(Anew),
    /// This session or an earlier one, opened again.
    Reopen(Reopen),
}

/// A conversation that is opened again, so that settings, keys, servers and files are read anew.
#[derive(Default)]
pub(crate) struct Reopen {
    /// The session to go on with; without one, this one.
    pub(crate) session: Option<Resumed>,
    /// The folders of the workspace beside the project's; empty where they stay as they are.
    pub(crate) directories: Vec<String>,
    /// A line about it.
    pub(crate) note: String,
}

impl Reopen {
    /// The same session; a line about why.
    pub(crate) fn noting(note: &str) -> Self {
        Self { note: note.to_owned(), ..Self::default() }
    }

    /// What it is opened with; `said` if there is something on disk to go on with.
    pub(crate) fn options(
        &self,
        turn: &pollux_host::Prepared<'_>,
        mode: ApprovalMode,
        said: bool,
    ) -> Request {
        let mut options = turn.request.clone();
        let id = &turn.session.id;
        options.session = match &self.session {
            Some(session) => SessionChoice::Resume(session.clone()),
            None if said => SessionChoice::Resume(Resumed { which: id.to_string(), ..Resumed::default() }),
            None => SessionChoice::NewWithId(id.clone()),
        };
        options.approval = Some(mode);
        if !self.directories.is_empty() {
            options.include_directories.clone_from(&self.directories);
        }
        options
    }
}

/// What another session begins with.
#[derive(Default)]
pub(crate) struct Anew {
    pub(crate) turns: Vec<Content>,
    /// Calls to be proposed at once.
    pub(crate) proposal: Vec<Part>,
    /// A line about it.
    pub(crate) note: String,
}
