//! Chooses the session of a run, and implements `--list-sessions` and `--delete-session`.

mod browser;
mod history;
pub mod pick;
pub mod places;
mod proposal;
pub mod removals;
pub mod rows;
mod saved;
mod selection;
mod upkeep;

pub use browser::{Freshness, StoredChat, StoredChats, stored_chats};
pub(crate) use history::last_of;
pub use history::{HistoryItem, RecordedCall, RecordedItem, said_in};
pub use proposal::{Proposal, Removal, Removals, Removed, SessionRow};
pub use saved::{SavedSession, saved_sessions};
pub use selection::{SessionSource, Wanted, Which};
pub(crate) use upkeep::retention_problem;
pub use upkeep::{note_root, tidy_up};

use std::cell::{Cell, OnceCell};
use std::path::PathBuf;

use pollux_config::env::Env;
use pollux_config::paths::Project;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_domain::time::{Clock, SystemClock};
use pollux_session::{
    DeleteError, IdReservation, ImportError, Listing, NewSession, Recorder, RestoredTurn, SelectError,
    SessionFormat, SessionInfo, SessionKind, SessionModel, Spending, StoredSession, delete, exists, import,
    into_history, known_projects, last_model, list, list_projects, list_text, load, select, select_anywhere,
    spending,
};

use super::Loaded;
use super::trust::home;
use crate::request::{Request, Resumed, SessionChoice};
use crate::unused_memory::return_soon;

/// Minimum number of messages for which returning the memory used to read a session is worthwhile.
const LONG_SESSION: usize = 500;

/// The session of this run.
pub struct Chosen {
    pub id: SessionId,
    pub notes: Vec<String>,
    /// The stored session, until it is resumed.
    stored: Cell<Option<Box<StoredSession>>>,
    /// Its file.
    file: OnceCell<PathBuf>,
    /// What this session begins as a copy of, until it was copied.
    source: Cell<Option<CopySource>>,
    is_resumed: bool,
    /// The model it was last used with.
    pub(crate) model: Option<SessionModel>,
    /// Whether the user chose the id of this new session.
    is_named: bool,
    /// Keeps parallel runs from starting a session with an id that the user chose.
    reservation: Cell<Option<IdReservation>>,
}

impl Chosen {
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            notes: Vec::new(),
            stored: Cell::new(None),
            file: OnceCell::new(),
            source: Cell::new(None),
            is_resumed: false,
            model: None,
            is_named: false,
            reservation: Cell::new(None),
        }
    }

    /// Whether an earlier session is resumed.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    fn stored(session: StoredSession) -> Self {
        let file = OnceCell::from(session.path.clone());
        let chosen = Self { file, ..Self::going_on(session.id.clone(), &session) };
        chosen.stored.set(Some(Box::new(session)));
        chosen
    }

    /// A new session that goes on from a copy of this one, which is shown meanwhile.
    fn copy_of(session: StoredSession, source: CopySource) -> Self {
        let chosen =
            Self { source: Cell::new(Some(source)), ..Self::going_on(SessionId::random(), &session) };
        chosen.stored.set(Some(Box::new(session)));
        chosen
    }

    fn going_on(id: SessionId, session: &StoredSession) -> Self {
        let notes = session.repaired.iter().map(ToString::to_string).collect();
        Self { notes, model: last_model(session), is_resumed: true, ..Self::new(id) }
    }

    /// Makes the copy, as late as possible: a start that fails must leave none, because it would be the latest session.
    fn copy_source(&self, loaded: &Loaded) -> Result<(), Failure> {
        let Some(source) = self.source.take() else { return Ok(()) };
        let spec = new_session(&self.id, &loaded.project, loaded.groups.general.session_format);
        let copy = match source.copy(&spec) {
            Ok(copy) => copy,
            Err(failure) => {
                self.source.set(Some(source));
                return Err(failure);
            }
        };
        let _ = self.file.set(copy.path.clone());
        self.stored.set(Some(Box::new(copy)));
        Ok(())
    }
}

/// What a new session begins as a copy of.
enum CopySource {
    /// A session, without its messages.
    Fork(Box<StoredSession>),
    Import(PathBuf),
}

impl CopySource {
    fn copy(&self, spec: &NewSession) -> Result<StoredSession, Failure> {
        match self {
            // The run resumes the copy like any other session.
            Self::Fork(session) => Recorder::fork(session, spec).map(|(_, copy)| copy).map_err(|error| {
                Failure::from_error(ExitKind::Input, &error).prefixed("Error resuming session: ")
            }),
            Self::Import(path) => import(path, spec).map_err(|error| cannot_import(&error)),
        }
    }
}

fn cannot_import(error: &ImportError) -> Failure {
    Failure::from_error(ExitKind::Input, error).prefixed("Error importing session from file: ")
}

/// A resumed session: its recorder and history. The stored session is consumed, so that
/// a long conversation is not kept in memory twice.
pub struct Continued {
    pub recorder: Recorder,
    pub history: Vec<RestoredTurn>,
    /// What it has spent so far.
    pub spending: Spending,
}

/// `--resume`, `--session-id`, `--session-file` (exit code 42). Read-only.
pub fn choose_session(options: &Request, loaded: &Loaded) -> Result<Chosen, Failure> {
    match &options.session {
        SessionChoice::New => Ok(Chosen::new(SessionId::random())),
        SessionChoice::NewWithId(id) => {
            if exists(loaded.project.read_chat_dirs(), id) {
                return Err(id_taken(id));
            }
            Ok(Chosen { is_named: true, ..Chosen::new(id.clone()) })
        }
        SessionChoice::Resume(resumed) => resume(resumed, loaded),
        SessionChoice::Import(path) => {
            let path = loaded.env.cwd().join(path);
            let session = load(&path)
                .map_err(|source| cannot_import(&ImportError::Unusable { path: path.clone(), source }))?;
            Ok(Chosen::copy_of(session, CopySource::Import(path)))
        }
    }
}

fn resume(resumed: &Resumed, loaded: &Loaded) -> Result<Chosen, Failure> {
    let found = match found(resumed, loaded) {
        Ok(found) => found,
        Err((SelectError::NoSessions, bad)) if resumed.or_new => {
            let mut chosen = Chosen::new(SessionId::random());
            chosen.notes.push(SelectError::NoSessions.to_string());
            chosen.notes.extend(bad);
            return Ok(chosen);
        }
        Err((error, mut bad)) => {
            if matches!(error, SelectError::NoSessions) {
                bad.push("omit `--resume` to start a new session".to_owned());
            }
            let failure = refused(format!("Error resuming session: {error}"));
            return Err(if bad.is_empty() { failure } else { failure.hint(bad.join("\n      ")) });
        }
    };
    let session = load(&found.path).map_err(|error| {
        Failure::from_error(ExitKind::Input, &error)
            .prefixed(&format!("Error resuming session: Failed to load session {}: ", found.id))
    })?;
    if !resumed.fork {
        return Ok(Chosen::stored(session));
    }
    let (id, source) = (session.id.clone(), CopySource::Fork(Box::new(session.without_messages())));
    let mut chosen = Chosen::copy_of(session, source);
    chosen.notes.push(format!("Session {id} continues in a new session: {}", chosen.id));
    Ok(chosen)
}

/// The selected session; unreadable files are reported with the error.
fn found(resumed: &Resumed, loaded: &Loaded) -> Result<SessionInfo, (SelectError, Vec<String>)> {
    let which = resumed.which.as_str();
    if resumed.all_projects {
        let listings = list_projects(known_projects(&loaded.home), SystemClock.now());
        return match select_anywhere(&listings, which) {
            Ok((_, found)) => Ok(found.clone()),
            Err(error) => {
                let bad = listings.iter().flat_map(|(_, listing)| unreadable(listing)).collect();
                Err((error, bad))
            }
        };
    }
    let listing = listing(&loaded.project);
    match select(&listing, which) {
        Ok(found) => Ok(found.clone()),
        Err(error) => Err((error, unreadable(&listing))),
    }
}

/// The recorder of this run's session, and its history. Needs a runtime.
pub fn resume_or_create(chosen: &Chosen, loaded: &Loaded) -> Result<Continued, Failure> {
    let resuming = |failure: Failure| failure.prefixed("Error resuming session: ");
    chosen.copy_source(loaded)?;
    let stored = match (chosen.stored.take(), chosen.file.get()) {
        (Some(session), _) => session,
        // It was resumed before, so it is loaded again.
        (None, Some(file)) => {
            let loaded = load(file).map_err(|error| Failure::from_error(ExitKind::Input, &error));
            Box::new(loaded.map_err(resuming)?)
        }
        (None, None) => {
            let new = new_session(&chosen.id, &loaded.project, loaded.groups.general.session_format);
            let mut recorder = Recorder::create(new).map_err(|error| {
                Failure::from_error(ExitKind::Input, &error).prefixed("Error starting session: ")
            })?;
            if chosen.is_named {
                reserve_id(chosen, loaded)?;
            }
            recorder.set_durability(loaded.groups.general.durability);
            return Ok(Continued { recorder, history: Vec::new(), spending: Spending::default() });
        }
    };
    let mut recorder =
        Recorder::resume(&stored).map_err(|error| resuming(Failure::from_error(ExitKind::Input, &error)))?;
    recorder.set_durability(loaded.groups.general.durability);
    let spending = spending(&stored);
    let is_long = stored.messages.len() > LONG_SESSION;
    let history = into_history(*stored);
    if is_long {
        return_soon();
    }
    Ok(Continued { recorder, history, spending })
}

/// Refuses an id that a parallel run has chosen since the first check. Until the end of this run, others refuse it.
fn reserve_id(chosen: &Chosen, loaded: &Loaded) -> Result<(), Failure> {
    let earlier = chosen.reservation.take();
    if earlier.is_some() {
        chosen.reservation.set(earlier);
        return Ok(());
    }
    let (chats, dirs) = (loaded.project.chats_dir(), loaded.project.read_chat_dirs());
    let reservation = IdReservation::take(&chats, dirs, &chosen.id);
    chosen.reservation.set(Some(reservation.ok_or_else(|| id_taken(&chosen.id))?));
    Ok(())
}

pub fn new_session(id: &SessionId, project: &Project, format: SessionFormat) -> NewSession {
    NewSession {
        id: id.clone(),
        project_hash: project.hash().to_owned(),
        chats_dir: project.chats_dir(),
        format,
        kind: SessionKind::Main,
        now: SystemClock.now(),
    }
}

/// The text of `--list-sessions`. Needs no settings, no key and no network, and writes nothing.
pub fn list_sessions(env: &Env) -> Result<(String, Vec<String>), Failure> {
    let listing = listing(&project(env)?);
    let mut text = list_text(&listing, SystemClock.now());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok((text, unreadable(&listing)))
}

/// The text of `--delete-session`.
pub fn delete_session(which: &str, env: &Env) -> Result<String, Failure> {
    let project = project(env)?;
    let listing = listing(&project);
    let dirs = project.read_chat_dirs();
    // A prefix of an id works too; `latest` is not accepted, to prevent deletion by accident.
    let begins = |session: &SessionInfo| !which.is_empty() && session.id.as_str().starts_with(which);
    let id = match select(&listing, which) {
        Ok(found) if begins(found) => Some(found.id.clone()),
        Err(error @ SelectError::Ambiguous { .. }) => {
            return Err(Failure::from_error(ExitKind::Input, &error));
        }
        _ => None,
    };
    let which = id.as_ref().map_or(which, SessionId::as_str);
    delete(&listing, dirs, which, None, SystemClock.now())
        .map(|line| format!("{line}\n"))
        .map_err(|error| not_deleted(&error, &listing))
}

/// Why nothing was deleted; what could not be read may be what was meant.
fn not_deleted(error: &DeleteError, listing: &Listing) -> Failure {
    let failure = Failure::from_error(ExitKind::Input, error);
    let is_missing = matches!(error, DeleteError::NoSessions | DeleteError::NoMatch { .. });
    match unreadable(listing) {
        bad if is_missing && !bad.is_empty() => failure.hint(bad.join("\n      ")),
        _ => failure,
    }
}

fn project(env: &Env) -> Result<Project, Failure> {
    Ok(Project::locate(&home(env)?, env.cwd()))
}

fn listing(project: &Project) -> Listing {
    list(project.read_chat_dirs(), SystemClock.now())
}

/// Warnings about unreadable files; they are left unchanged.
fn unreadable(listing: &Listing) -> Vec<String> {
    listing.unreadable.iter().map(|(_, reason)| format!("Warning: {reason}")).collect()
}

fn id_taken(id: &SessionId) -> Failure {
    refused(format!(
        "Error starting session: Session ID \"{id}\" already exists. Use --resume to resume it, or provide a different ID."
    ))
}

fn refused(text: String) -> Failure {
    Failure::new(ExitKind::Input, text)
}
