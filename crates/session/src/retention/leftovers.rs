//! Orphaned tool outputs and unused blobs.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_domain::time::Timestamp;

use super::RetentionPolicy;
use crate::blobs;
use crate::delete::delete_path;
use crate::load::stamp_of;

/// Stored outputs of tools in a project's folder that nobody changed for longer than sessions are kept.
pub fn leftovers(temp: &Path, policy: &RetentionPolicy, now: Timestamp) -> Vec<PathBuf> {
    let Some(limit) = policy.max_age_ms.map(|limit| limit.max(policy.min_age_ms)) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = fs::read_dir(temp.join("tool-outputs"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let changed = entry.metadata().map(|metadata| stamp_of(&metadata).modified_ms);
            changed.is_ok_and(|changed| now.millis().saturating_sub(changed) > limit)
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Deletes these, and the blobs of the project's sessions that nothing uses. Returns what could be deleted.
pub fn delete_leftovers(temp: &Path, named: &[PathBuf]) -> Vec<PathBuf> {
    let mut deleted: Vec<PathBuf> = named.iter().filter(|path| delete_path(path).is_ok()).cloned().collect();
    deleted.extend(blobs::sweep(&temp.join("chats"), None).unwrap_or_default());
    deleted
}
