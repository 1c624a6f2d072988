//! Removes the placeholders of an earlier version for names that did not exist: an empty folder `.envrc`, which no
//! other program creates, and the empty folders created at the same moment. This version creates none.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub(crate) fn remove(protected: &[PathBuf]) {
    let made_at = |path: &Path| -> Option<SystemTime> {
        let meta = path.symlink_metadata().ok()?;
        let is_empty = meta.is_dir() && fs::read_dir(path).ok()?.next().is_none();
        if is_empty { meta.modified().ok() } else { None }
    };
    for envrc in protected.iter().filter(|path| path.ends_with(".envrc")) {
        let (Some(made), Some(folder)) = (made_at(envrc), envrc.parent()) else { continue };
        let is_beside = |path: &&PathBuf| path.parent() == Some(folder);
        for path in protected.iter().filter(is_beside) {
            let apart = made_at(path)
                .and_then(|other| other.duration_since(made).or_else(|_| made.duration_since(other)).ok());
            if apart.is_some_and(|apart| apart < Duration::from_secs(1)) {
                let _ = fs::remove_dir(path);
            }
        }
    }
}
