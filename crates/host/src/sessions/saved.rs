//! The stored sessions, for programs that show a list of them and name them by their full ids.
//!
//! Reading takes no lock, uses no network and writes nothing.

use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_config::paths::Project;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock, Timestamp};
use pollux_session::{
    DeleteError, Listing, SessionInfo, delete, known_projects, list, list_projects, load, set_title, used_by,
};

use super::history::{RecordedItem, recorded_items};
use crate::trust::home;

/// A stored session.
#[derive(Debug, Clone)]
pub struct SavedSession {
    pub id: String,
    /// Its project's folder, if known.
    pub folder: Option<PathBuf>,
    pub title: String,
    pub updated: Timestamp,
    file: PathBuf,
    dirs: Vec<PathBuf>,
}

impl SavedSession {
    /// The process that writes it now, if there is one.
    pub fn used_by(&self) -> Option<u32> {
        used_by(&self.file)
    }

    /// Every recorded message and call, oldest first; none if the file cannot be read. Takes no lock.
    pub fn recorded(&self) -> Vec<RecordedItem> {
        load(&self.file).map(|stored| recorded_items(&stored.messages)).unwrap_or_default()
    }

    /// Gives it a title; fails while another process uses it.
    pub fn set_title(&self, title: &str) -> Result<(), Failure> {
        match set_title(&self.file, title) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let why = "the session is in use, or its file has a format that cannot hold a title";
                Err(Failure::new(ExitKind::Input, why))
            }
            Err(error) => Err(Failure::from_error(ExitKind::Failure, &error)),
        }
    }

    /// Deletes it with all of its files; fails while another process uses it.
    pub fn delete(&self) -> Result<(), Failure> {
        let now = SystemClock.now();
        match delete(&list(&self.dirs, now), &self.dirs, &self.id, None, now) {
            // Someone else deleted it.
            Ok(_) | Err(DeleteError::NoSessions | DeleteError::NoMatch { .. }) => Ok(()),
            Err(error) => Err(Failure::from_error(ExitKind::Input, &error)),
        }
    }
}

/// The sessions of the project in `folder`, or of all projects; the last updated first.
pub fn saved_sessions(env: &Env, folder: Option<&Path>) -> Result<Vec<SavedSession>, Failure> {
    let home = home(env)?;
    let now = SystemClock.now();
    let mut found = Vec::new();
    let mut add = |folder: Option<PathBuf>, dirs: &[PathBuf], listing: Listing| {
        let saved = |info: SessionInfo| SavedSession {
            id: info.id.as_str().to_owned(),
            folder: folder.clone(),
            title: info.title,
            updated: info.last_updated,
            file: info.path,
            dirs: dirs.to_vec(),
        };
        found.extend(listing.sessions.into_iter().map(saved));
    };
    match folder {
        Some(folder) => {
            let project = Project::locate(&home, folder);
            let dirs = project.read_chat_dirs();
            add(Some(project.root().to_path_buf()), dirs, list(dirs, now));
        }
        None => {
            for (project, listing) in list_projects(known_projects(&home), now) {
                add(project.root.clone(), &project.chats_dirs, listing);
            }
        }
    }
    found.sort_by(|one, other| other.updated.cmp(&one.updated).then_with(|| one.id.cmp(&other.id)));
    Ok(found)
}
