//! Applies a retention plan.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Plan, Reason, Removal};
use crate::blobs;
use crate::delete::{
    DeleteError, blobs_of, copies, delete_artefact, delete_copies, delete_path, sweep_blobs,
};
use crate::listing::{session_id, shares_names};
use crate::load::stamp_of;
use crate::lock::{Lock, LockError};

/// The result of applying a plan.
#[derive(Debug, Default)]
pub struct Applied {
    pub deleted: Vec<Removal>,
    /// Files that were kept, and why.
    pub skipped: Vec<(Removal, String)>,
}

impl Applied {
    /// One line for each session, for a log.
    pub fn lines(&self) -> Vec<String> {
        let deleted = self.deleted.iter().map(|removal| {
            let why = match removal.reason {
                Reason::Age => "too old",
                Reason::Count => "too many",
            };
            let when = removal.last_updated.to_iso();
            format!("deleted session {} ({why}, last updated {when}): {}", removal.session, files(removal))
        });
        let skipped = self
            .skipped
            .iter()
            .map(|(removal, why)| format!("kept session {} ({why}): {}", removal.session, files(removal)));
        deleted.chain(skipped).collect()
    }
}

fn files(removal: &Removal) -> String {
    let paths: Vec<String> = removal.files.iter().map(|file| file.path.display().to_string()).collect();
    paths.join(", ")
}

/// Deletes what the plan names. A session that is being written, or that is no longer what it was when the
/// plan was made, stays.
pub fn apply(plan: &Plan) -> Applied {
    let mut applied = Applied::default();
    for removal in &plan.delete {
        match remove(removal) {
            Ok(()) => applied.deleted.push(removal.clone()),
            Err(why) => applied.skipped.push((removal.clone(), why)),
        }
    }
    applied
}

/// Everything that goes with a session, as it is now: its files, what lies next to them, copies that repairs
/// and rewinds kept, and what is stored apart for it alone.
pub fn belongings(removal: &Removal) -> Vec<PathBuf> {
    let mut going: Vec<PathBuf> = removal.files.iter().map(|file| file.path.clone()).collect();
    let files = going.clone();
    let artefacts = own_artefacts(removal, &chats_of(&files)).iter();
    going.extend(artefacts.filter(|path| path.symlink_metadata().is_ok()).cloned());
    going.extend(files.iter().flat_map(|path| copies(path)));
    for chats in chats_of(&files) {
        let used = blobs_of(std::slice::from_ref(&chats), &files, &removal.session);
        let goes = |path: &Path| going.iter().any(|gone| path.starts_with(gone));
        let alone = blobs::used_alone(&chats, &used, goes).unwrap_or_default();
        going.extend(alone);
    }
    going
}

fn not_locked(error: LockError, path: &Path) -> String {
    match error {
        LockError::Held(owner) => format!("in use by {}", owner.holder(path)),
        LockError::Io(source) => format!("could not lock `{}`: {source}", path.display()),
    }
}

/// The artefacts of a session, unless another session may own them.
fn own_artefacts<'a>(removal: &'a Removal, chats: &[PathBuf]) -> &'a [PathBuf] {
    if shares_names(chats, &removal.session) { &[] } else { &removal.artefacts }
}

fn chats_of(files: &[PathBuf]) -> Vec<PathBuf> {
    let chats: HashSet<PathBuf> = files.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
    chats.into_iter().collect()
}

fn remove(removal: &Removal) -> Result<(), String> {
    let paths: Vec<PathBuf> = removal.files.iter().map(|file| file.path.clone()).collect();
    let locks: Vec<Lock> = paths
        .iter()
        .map(|path| Lock::take(path).map_err(|error| not_locked(error, path)))
        .collect::<Result<_, _>>()?;
    for file in &removal.files {
        let metadata = fs::metadata(&file.path).map_err(|error| error.to_string())?;
        let stamp = stamp_of(&metadata);
        let is_same = (stamp.length, stamp.modified_ms) == (file.size, file.modified_ms);
        if !is_same || session_id(&file.path).as_ref() != Some(&removal.session) {
            return Err("changed in the meantime".to_owned());
        }
    }
    let chats = chats_of(&paths);
    let used = blobs_of(&chats, &paths, &removal.session);
    let told = |error: DeleteError| error.to_string();
    for artefact in own_artefacts(removal, &chats) {
        delete_artefact(artefact).map_err(told)?;
    }
    // The session itself goes last: while it is there, a failed deletion is tried again.
    for path in &paths {
        delete_path(path).map_err(told)?;
        delete_copies(path);
    }
    drop(locks);
    sweep_blobs(&chats, &used);
    Ok(())
}
