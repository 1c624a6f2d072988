//! Which session a run belongs to, and the commands about sessions.

use pollux_config::env::Env;
use pollux_config::paths::{Home, Project};
use pollux_domain::exit::ExitKind;
use pollux_domain::id::SessionId;
use pollux_domain::time::{Clock, SystemClock};
use pollux_session::{
    Listing, NewSession, Recorder, SelectError, SessionKind, StoredSession, delete, exists, import, list,
    list_text, load, select,
};

use super::Loaded;
use crate::launch::{Options, SessionChoice};
use crate::report::Failure;

/// The session of this run.
pub(crate) struct Chosen {
    pub(crate) id: SessionId,
    pub(crate) notes: Vec<String>,
    /// What an earlier run left.
    pub(super) stored: Option<Box<StoredSession>>,
}

impl Chosen {
    fn new(id: SessionId) -> Self {
        Self { id, notes: Vec::new(), stored: None }
    }

    fn stored(session: StoredSession) -> Self {
        let notes = session.repaired.iter().map(ToString::to_string).collect();
        Self { id: session.id.clone(), notes, stored: Some(Box::new(session)) }
    }
}

/// `--resume`, `--session-id`, `--session-file` (42). Only reads, but for the copy that an import is.
pub(crate) fn choose_session(options: &Options, loaded: &Loaded) -> Result<Chosen, Failure> {
    match &options.session {
        SessionChoice::New => Ok(Chosen::new(SessionId::random())),
        SessionChoice::NewWithId(id) => {
            if exists(loaded.project.read_chat_dirs(), id) {
                return Err(refused(format!(
                    "Error starting session: Session ID \"{id}\" already exists. Use --resume to resume it, or provide a different ID."
                )));
            }
            Ok(Chosen::new(id.clone()))
        }
        SessionChoice::Resume(which) => resume(which, loaded),
        SessionChoice::Import(path) => {
            let path = loaded.env.cwd().join(path);
            let copied = import(&path, &new_session(&SessionId::random(), loaded));
            let session = copied.map_err(|error| {
                Failure::from_error(ExitKind::Input, &error).prefixed("Error importing session from file: ")
            })?;
            Ok(Chosen::stored(session))
        }
    }
}

fn resume(which: &str, loaded: &Loaded) -> Result<Chosen, Failure> {
    let listing = listing(&loaded.project);
    let found = match select(&listing, which, &loaded.project.chats_dir()) {
        Ok(found) => found,
        Err(SelectError::NoSessions) if which.is_empty() || which == "latest" => {
            let mut chosen = Chosen::new(SessionId::random());
            chosen.notes.push(SelectError::NoSessions.to_string());
            chosen.notes.extend(unreadable(&listing));
            return Ok(chosen);
        }
        Err(error) => {
            let failure = refused(format!("Error resuming session: {error}"));
            let bad = unreadable(&listing);
            return Err(if bad.is_empty() { failure } else { failure.hint(bad.join("\n      ")) });
        }
    };
    match load(&found.path) {
        Ok(session) => Ok(Chosen::stored(session)),
        Err(error) => Err(Failure::from_error(ExitKind::Input, &error)
            .prefixed(&format!("Error resuming session: Failed to load session {}: ", found.id))),
    }
}

/// The writer of this run's session.
pub(super) fn recorder(chosen: &Chosen, loaded: &Loaded) -> Result<Recorder, Failure> {
    match &chosen.stored {
        None => Recorder::create(new_session(&chosen.id, loaded)).map_err(|error| {
            Failure::from_error(ExitKind::Input, &error).prefixed("Error starting session: ")
        }),
        Some(session) => Recorder::resume(session).map_err(|error| {
            Failure::from_error(ExitKind::Input, &error).prefixed("Error resuming session: ")
        }),
    }
}

fn new_session(id: &SessionId, loaded: &Loaded) -> NewSession {
    NewSession {
        id: id.clone(),
        project_hash: loaded.project.hash().to_owned(),
        chats_dir: loaded.project.chats_dir(),
        format: loaded.groups.general.session_format,
        kind: SessionKind::Main,
        now: SystemClock.now(),
    }
}

/// The text of `--list-sessions`. Needs no settings, no key and no network, and writes nothing.
pub(crate) fn list_sessions(env: &Env) -> (String, Vec<String>) {
    let listing = listing(&project(env));
    (list_text(&listing, SystemClock.now()), unreadable(&listing))
}

/// The text of `--delete-session`.
pub(crate) fn delete_session(which: &str, env: &Env) -> Result<String, Failure> {
    let project = project(env);
    let listing = listing(&project);
    let dirs = project.read_chat_dirs();
    delete(&listing, dirs, which, None, SystemClock.now())
        .map(|line| format!("{line}\n"))
        .map_err(|error| Failure::from_error(ExitKind::Input, &error))
}

fn project(env: &Env) -> Project {
    Project::locate(&Home::locate(env), env.cwd())
}

fn listing(project: &Project) -> Listing {
    list(project.read_chat_dirs(), SystemClock.now())
}

/// Lines about files that could not be read; they are left alone.
fn unreadable(listing: &Listing) -> Vec<String> {
    listing.unreadable.iter().map(|(_, reason)| format!("Warning: {reason}")).collect()
}

fn refused(text: String) -> Failure {
    Failure::new(ExitKind::Input, text)
}
