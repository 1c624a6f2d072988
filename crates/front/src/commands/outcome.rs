//! How a conversation continues after a command.

use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::{Content, Part};
use pollux_domain::event::Op;
use pollux_host::request::{Request, Resumed, ResumedModel, SessionChoice};

const MODEL: &str = "model.name";

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
    /// The command changed the model in the settings, which replaces the one in use.
    pub(crate) chose_model: bool,
    /// The model to use from now on, whatever the settings and the command line say.
    pub(crate) model: Option<String>,
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
        model: &str,
        stored: bool,
    ) -> Request {
        let mut options = turn.request.clone();
        let id = &turn.session.id;
        options.session = match &self.session {
            Some(session) => SessionChoice::Resume(session.clone()),
            None if stored => SessionChoice::Resume(Resumed { which: id.to_string(), ..Resumed::default() }),
            None => SessionChoice::NewWithId(id.clone()),
        };
        // What was named for this session says nothing about another one.
        options.resumed_model = match self.session {
            Some(_) => ResumedModel::OfSession,
            None => ResumedModel::OfSettings,
        };
        if let Some(model) = &self.model {
            use_model(&mut options, model);
        } else if self.chose_model {
            options.overrides.retain(|(key, _)| key != MODEL);
        } else if self.session.is_none() && (turn.model_of_session || model != turn.credentials.model) {
            let is_same = model == turn.credentials.model;
            let model = if is_same { turn.loaded.groups.model.name.as_str() } else { model };
            use_model(&mut options, model);
        }
        options.approval = Some(mode);
        if !self.directories.is_empty() {
            options.include_directories.clone_from(&self.directories);
        }
        options
    }
}

/// Uses this model for the run, in place of what was named before.
pub(crate) fn use_model(options: &mut Request, model: &str) {
    options.overrides.retain(|(key, _)| key != MODEL);
    options.overrides.push((MODEL.to_owned(), model.into()));
}

/// Whether the user named a model for this run only.
pub(crate) fn names_model(options: &Request) -> bool {
    options.overrides.iter().any(|(key, _)| key == MODEL)
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

/// How to resume a session, with its model where a plain `--resume` might use another one.
pub(crate) fn resume_line(turn: &pollux_host::Prepared<'_>, model: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._:-".contains(letter);
    let named = names_model(turn.request) || turn.model_of_session || model != turn.credentials.model;
    let model = match named && model.chars().all(is_plain) {
        true => format!(" -m {model}"),
        false => String::new(),
    };
    format!("To resume this session: pollux --resume {}{model}", turn.session.id)
}
