//! The task that owns one session: assembles it, applies the sandbox of its modes, and cleans up when it has ended.

use std::sync::Arc;

use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Content;
use pollux_domain::event::{Event, NoticeCode, Severity};
use pollux_domain::failure::Failure;
use pollux_host::hub::{Hosted, Limits, SessionState};
use pollux_host::request::Request;
use pollux_host::sessions::note_root;
use pollux_host::{
    HostedSession, Loaded, Prepared, SandboxSlot, SessionReport, forbidden_mode, load_settings, open_hosted,
    prepare, tidy_up,
};
use tokio::sync::{mpsc, oneshot};

/// A mode that a front end wants to enter. Answered when its sandbox is in force, or with why it may not be entered.
pub(crate) struct Entering {
    pub(crate) mode: ApprovalMode,
    pub(crate) answer: oneshot::Sender<Result<(), String>>,
}

/// A session that is open.
pub(crate) struct Kept {
    pub(crate) hosted: Arc<Hosted>,
    pub(crate) report: SessionReport,
    /// Lines for the person who opened it.
    pub(crate) notes: Vec<String>,
    pub(crate) modes: mpsc::Sender<Entering>,
}

/// Opens a session, reports it, and keeps it until it has ended.
pub(crate) async fn keep(
    request: Request,
    env: Env,
    begin: Vec<Content>,
    opened: oneshot::Sender<Result<Kept, Failure>>,
) {
    let loaded = load_settings(&request, &env);
    let ended = match loaded {
        Ok(mut loaded) => keep_loaded(&request, &mut loaded, &begin, opened).await,
        Err(failure) => Err((opened, failure)),
    };
    if let Err((opened, failure)) = ended {
        let _ = opened.send(Err(failure));
    }
}

type Answer = oneshot::Sender<Result<Kept, Failure>>;

async fn keep_loaded(
    request: &Request,
    loaded: &mut Loaded,
    begin: &[Content],
    opened: Answer,
) -> Result<(), (Answer, Failure)> {
    let mut notes = std::mem::take(&mut loaded.notes);
    let mut turn = match prepare(request, loaded, &mut |line| notes.push(line.to_owned())) {
        Ok(turn) => turn,
        Err(failure) => return Err((opened, failure)),
    };
    let begin = (!begin.is_empty()).then_some(begin);
    let HostedSession { hosted, sandbox, session_file } =
        match open_hosted(&turn, begin, Limits::default()).await {
            Ok(session) => session,
            Err(failure) => return Err((opened, failure)),
        };
    // Now and not at the end: a core that is killed leaves a session whose folder is known.
    note_root(turn.loaded);
    let report = SessionReport::of(&turn, session_file);
    let (modes, wanted) = mpsc::channel(8);
    let _ = opened.send(Ok(Kept { hosted: Arc::clone(&hosted), report, notes, modes }));
    follow(&mut turn, &hosted, &sandbox, wanted).await;
    tidy_up(turn.loaded, &turn.session.id);
    Ok(())
}

/// Applies the sandbox of each mode until the session has ended.
async fn follow(
    turn: &mut Prepared<'_>,
    hosted: &Hosted,
    sandbox: &SandboxSlot,
    mut wanted: mpsc::Receiver<Entering>,
) {
    let mut modes = hosted.modes();
    while hosted.state() == SessionState::Alive {
        tokio::select! {
            _ = hosted.ended() => return,
            Some(Entering { mode, answer }) = wanted.recv() => {
                let loaded = turn.loaded;
                let off = loaded.groups.security.disable_yolo;
                let entered = match forbidden_mode(mode, turn.permission.approval, off, loaded.trust.uses_project()) {
                    Some(why) => Err(why.to_owned()),
                    None => confine(turn, hosted, sandbox, mode).await,
                };
                let _ = answer.send(entered);
            }
            changed = modes.changed() => {
                let mode = *modes.borrow_and_update();
                if let (Ok(()), Some(mode)) = (changed, mode) {
                    let _ = confine(turn, hosted, sandbox, mode).await;
                }
            }
        }
    }
}

async fn confine(
    turn: &mut Prepared<'_>,
    hosted: &Hosted,
    slot: &SandboxSlot,
    mode: ApprovalMode,
) -> Result<(), String> {
    if turn.sandbox.follow_mode(turn.loaded, mode).map_err(|failure| failure.message())? {
        slot.set(turn.sandbox.rights.clone());
        for message in turn.sandbox.notes.clone() {
            let (severity, code) = (Severity::Info, NoticeCode::Policy);
            hosted.tell(Event::Notice { severity, code, message }).await;
        }
    }
    Ok(())
}
