//! Sessions that run in another process.
//!
//! The program passes a [`SessionProvider`] to [`crate::run`]. A conversation with such a session shows what it reports
//! and leaves without ending it.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_domain::content::Content;
use pollux_domain::event::Event;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_host::request::{Request, SessionChoice};
use pollux_host::{HistoryItem, Loaded, SessionLink, SessionReport, TurnFront as _, Turned};

use crate::front_end::Pending;
use crate::running_turn::RunningTurn;
use crate::user_interface::UserInterface;
use crate::{Front, commands};

/// A session of another process with this one as a front end.
pub struct RemoteSession {
    pub link: Box<dyn SessionLink>,
    pub report: SessionReport,
    /// Earlier messages, and the number of those left out.
    pub history: Vec<HistoryItem>,
    pub above: usize,
    /// A turn runs.
    pub busy: bool,
    /// Lines for the person.
    pub notes: Vec<String>,
}

/// Where sessions run.
pub trait SessionProvider {
    /// Opens the session that a request asks for, maybe with first turns; `None` if this process is to run it.
    fn open<'a>(
        &'a self,
        request: &'a Request,
        loaded: &'a Loaded,
        env: &'a Env,
        begin: &'a [Content],
    ) -> Pending<'a, Result<Option<RemoteSession>, Failure>>;

    /// A session that runs elsewhere already; `None` if it does not run there.
    fn running<'a>(&'a self, env: &'a Env, session: &'a str) -> Pending<'a, Option<RunningSession>>;
}

/// A session that runs elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningSession {
    pub folder: PathBuf,
    /// A turn runs.
    pub is_working: bool,
}

/// Joins a session of another process, whose earlier messages are shown unless they are already.
pub(super) fn attached(
    turn: &pollux_host::Prepared<'_>,
    remote: RemoteSession,
    is_new: bool,
    ui: &mut UserInterface,
) -> Result<pollux_host::Conversation, Failure> {
    let RemoteSession { link, report, history, above, notes, .. } = remote;
    if is_new && ui.history_limit().is_some() {
        ui.show_history(history, above);
    }
    notes.iter().for_each(|line| ui.note(line));
    pollux_host::Conversation::attached(link, turn, report.file)
}

impl Front<'_, '_> {
    /// A new session in the other process, after this one; shows the turns it begins with.
    pub(super) async fn open_new_session(
        &mut self,
        sessions: &dyn SessionProvider,
        env: &Env,
        begin: &[Content],
    ) -> Result<pollux_host::Conversation, Failure> {
        let mut request = self.turn.request.clone();
        request.session = SessionChoice::New;
        request.approval = Some(self.mode);
        commands::use_model(&mut request, &self.model);
        let opened = sessions.open(&request, self.turn.loaded, env, begin).await?;
        let gone = || Failure::new(ExitKind::Failure, "the core is not running");
        let remote = opened.ok_or_else(gone)?;
        *self.turn = pollux_host::Prepared::attached(self.turn.request, self.turn.loaded, &remote.report);
        let conversation = attached(self.turn, remote, !begin.is_empty(), self.ui)?;
        self.remote = Some(conversation.front_id().clone());
        Ok(conversation)
    }

    /// Whether the session goes on without this front end; says so if not.
    pub(super) fn may_detach(&mut self) -> bool {
        if self.remote.is_none() {
            self.ui.note("cannot detach: this session does not run in the core; use `pollux --attach`");
        }
        self.remote.is_some()
    }

    /// Takes part in a turn that another front end began; `first` is its first event.
    pub(super) async fn join_turn(
        &mut self,
        first: Option<&Event>,
        conversation: &mut pollux_host::Conversation,
    ) -> Result<ControlFlow<()>, Failure> {
        let mut running =
            RunningTurn::new(self, conversation.sandbox.clone(), Arc::clone(&conversation.services));
        if let Some(first) = first {
            running.event(first).await;
        }
        let turned = conversation.join_turn(&mut running).await;
        running.end();
        match turned {
            Ok(Turned::Leaving) => Ok(ControlFlow::Break(())),
            // The connection is closed: there is nothing more to come.
            Ok(Turned::Ended(_)) | Err(_) => Ok(ControlFlow::Continue(())),
        }
    }
}
