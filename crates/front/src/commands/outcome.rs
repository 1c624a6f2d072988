//! How a conversation continues after a command.

use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::{Content, Part};
use pollux_domain::event::Op;
use pollux_host::request::{Request, Resumed, SessionChoice};

/// How a conversation continues after a command.
pub(crate) enum CommandOutcome {
    /// With the next prompt.
    Continue,
    Quit,
    /// With a turn that the command starts.
    Turn(Op),
    NewSession(NewSession),
    /// With this session or an earlier one, reopened.
    Reopen(Reopen),
}

/// A conversation to be reopened, so that settings, keys, servers and files are read again.
#[derive(Default)]
pub(crate) struct Reopen {
    /// The session to resume; `None` for the current one.
    pub(crate) session: Option<Resumed>,
    /// Workspace directories in addition to the project's; empty to keep the current ones.
    pub(crate) directories: Vec<String>,
    /// The line to show.
    pub(crate) note: String,
}

impl Reopen {
    /// The current session, with a line to show.
    pub(crate) fn noting(note: &str) -> Self {
        Self { note: note.to_owned(), ..Self::default() }
    }

    /// The request that reopens it; `stored` if the current session is on disk and can be resumed.
    pub(crate) fn options(
        &self,
        turn: &pollux_host::Prepared<'_>,
        mode: ApprovalMode,
        stored: bool,
    ) -> Request {
        let mut options = turn.request.clone();
        let id = &turn.session.id;
        options.session = match &self.session {
            Some(session) => SessionChoice::Resume(session.clone()),
            None if stored => SessionChoice::Resume(Resumed { which: id.to_string(), ..Resumed::default() }),
            None => SessionChoice::NewWithId(id.clone()),
        };
        options.approval = Some(mode);
        if !self.directories.is_empty() {
            options.include_directories.clone_from(&self.directories);
        }
        options
    }
}

/// The beginning of a new session.
#[derive(Default)]
pub(crate) struct NewSession {
    pub(crate) turns: Vec<Content>,
    /// Calls to propose at once.
    pub(crate) proposal: Vec<Part>,
    /// The line to show.
    pub(crate) note: String,
}
