//! Deletes one session with all of its files.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_domain::id::SessionId;
use pollux_domain::time::Timestamp;

use crate::blobs;
use crate::listing::{Listing, files_of, position, relative_time, shares_names};
use crate::lock::{Lock, LockError, LockHolder};
use crate::recorder::{draft_path, sanitised};
use crate::redo;
use crate::reserved::is_reserved;

/// What a session, or gemini-cli for it, keeps in the folder that has its id: plans, tasks and their state.
const OWN: [&str; 3] = ["plans", "tracker", "tasks"];

/// Why nothing was deleted. The texts are upstream's where it has one.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error("No sessions found for this project.")]
    NoSessions,
    #[error("Invalid session identifier \"{given}\". Use --list-sessions to see available sessions.")]
    NoMatch { given: String },
    #[error("Cannot delete the current active session.")]
    Current,
    #[error("Failed to delete session: `{}` is in use by {holder}", path.display())]
    InUse { path: PathBuf, holder: LockHolder },
    #[error("Failed to delete session: could not delete `{}`: {source}", path.display())]
    Failed { path: PathBuf, source: io::Error },
}

/// Deletes the session with this id or number of the list: its files in all of `dirs`, matched by full id,
/// and its logs, stored outputs, plans and sub-agents. Returns the message for the user.
pub fn delete(
    listing: &Listing,
    dirs: &[PathBuf],
    given: &str,
    current: Option<&SessionId>,
    now: Timestamp,
) -> Result<String, DeleteError> {
    let given = given.trim();
    if listing.sessions.is_empty() {
        return Err(DeleteError::NoSessions);
    }
    let no_match = || DeleteError::NoMatch { given: given.to_owned() };
    let index = position(listing, given).ok_or_else(no_match)?;
    let session = listing.sessions.get(index).ok_or_else(no_match)?;
    if current == Some(&session.id) {
        return Err(DeleteError::Current);
    }
    let mut files = files_of(dirs, &session.id);
    // Never report a session as deleted without holding its lock.
    if !files.contains(&session.path) {
        files.push(session.path.clone());
    }
    // Take all locks before the first deletion, so that it is all or nothing.
    let locks: Vec<Lock> = files.iter().map(|path| lock(path)).collect::<Result<_, _>>()?;
    let used = blobs_of(dirs, &files, &session.id);
    // The session's own files go last: while they are there, a failed deletion can be tried again.
    if !shares_names(dirs, &session.id) {
        for dir in dirs {
            delete_artefacts(dir, &session.id)?;
        }
    }
    for path in &files {
        delete_path(path)?;
        delete_copies(path);
    }
    drop(locks);
    sweep_blobs(dirs, &used);
    let time = relative_time(session.last_updated, now);
    Ok(format!("Deleted session {}: {} ({time})", index + 1, session.first_user_message))
}

fn lock(path: &Path) -> Result<Lock, DeleteError> {
    Lock::take(path).map_err(|error| match error {
        LockError::Held(owner) => DeleteError::InUse { path: path.to_owned(), holder: owner.holder(path) },
        LockError::Io(source) => DeleteError::Failed { path: path.to_owned(), source },
    })
}

fn delete_artefacts(chats: &Path, id: &SessionId) -> Result<(), DeleteError> {
    let subagents = chats.join(sanitised(id.as_str()));
    let names = fs::read_dir(subagents).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let children: Vec<String> = names
        .filter_map(|name| {
            let name = name.to_string_lossy();
            let stem = name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".json"));
            stem.map(str::to_owned)
        })
        .collect();
    artefacts(chats, id.as_str(), &children).iter().try_for_each(|path| delete_artefact(path))
}

/// Deletes one of the [`artefacts`], and the folder that only held it.
pub(crate) fn delete_artefact(path: &Path) -> Result<(), DeleteError> {
    delete_path(path)?;
    if let Some(folder) = path.parent()
        && path.file_name().is_some_and(|name| OWN.iter().any(|own| name == *own))
    {
        // Fails if it holds anything else, which is not the session's.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// Files that may accompany a session: log, stored outputs, plans and those of its sub-agents, whose sessions
/// are deleted with it.
pub(crate) fn artefacts(chats: &Path, id: &str, children: &[String]) -> Vec<PathBuf> {
    let Some(temp) = chats.parent() else { return Vec::new() };
    let id = sanitised(id);
    if id.is_empty() {
        return Vec::new();
    }
    let mut paths = Vec::new();
    for name in children.iter().chain([&id]) {
        let name = sanitised(name);
        paths.push(temp.join("logs").join(format!("session-{name}.jsonl")));
        paths.push(temp.join("tool-outputs").join(format!("session-{name}")));
        // A folder next to `chats` may be anybody's who chose that name: only what a session puts there is deleted.
        if !name.is_empty() && !is_reserved(&name) {
            let folder = temp.join(name);
            paths.extend(OWN.iter().map(|own| folder.join(own)));
        }
    }
    paths.push(chats.join(&id));
    paths
}

/// The blobs that a session and its sub-agents may use.
pub(crate) fn blobs_of(dirs: &[PathBuf], files: &[PathBuf], id: &SessionId) -> HashSet<String> {
    let mut used = HashSet::new();
    if !dirs.iter().any(|dir| dir.join(blobs::FOLDER).is_dir()) {
        return used;
    }
    for file in files {
        let _ = blobs::references(file, &mut used);
    }
    for dir in dirs {
        for entry in fs::read_dir(dir.join(sanitised(id.as_str()))).into_iter().flatten().flatten() {
            let _ = blobs::references(&entry.path(), &mut used);
        }
    }
    used
}

/// Removes these blobs if they are unused. Failures are retried by a later sweep.
pub(crate) fn sweep_blobs(dirs: &[PathBuf], used: &HashSet<String>) {
    if !used.is_empty() {
        for dir in dirs {
            let _ = blobs::sweep(dir, Some(used));
        }
    }
}

/// Removes backups made by repairs and rewinds.
pub(crate) fn delete_copies(path: &Path) {
    for copy in copies(path) {
        let _ = fs::remove_file(copy);
    }
    redo::discard(path);
    let _ = fs::remove_file(draft_path(path));
}

/// Backups made by repairs and rewinds.
pub(crate) fn copies(path: &Path) -> Vec<PathBuf> {
    let Some(dir) = path.parent() else { return Vec::new() };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefixes = ["torn", "rewound", "bak"].map(|why| format!("{name}.{why}-"));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let copies = entries.filter(|entry| {
        let name = entry.file_name();
        prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix))
    });
    copies.map(|entry| entry.path()).collect()
}

/// Deletes a file or a folder recursively. For a link, only the link is deleted.
pub(crate) fn delete_path(path: &Path) -> Result<(), DeleteError> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    done(path, if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) })
}

/// A missing file counts as deleted.
fn done(path: &Path, result: io::Result<()>) -> Result<(), DeleteError> {
    let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    match result {
        Err(source) if !absent.contains(&source.kind()) => {
            Err(DeleteError::Failed { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}
