//! Finding the file that a model meant when it left out the first folders of a path.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use super::Workspace;
use super::location::blocked_below;

/// How many folders of each workspace directory are looked into; upstream's value.
const MAX_FOLDERS: usize = 50;

impl Workspace {
    /// The only file whose path ends with `given`, if `given` itself names nothing.
    pub(crate) fn unique_match(&self, given: &str) -> Option<PathBuf> {
        let wanted = Path::new(given);
        let plain = wanted.components().all(|part| matches!(part, Component::Normal(_)));
        if given.is_empty() || !plain || self.root().join(wanted).symlink_metadata().is_ok() {
            return None;
        }
        let mut found = None;
        for directory in self.directories() {
            let mut folders = VecDeque::from([directory.clone()]);
            for _ in 0..MAX_FOLDERS {
                let Some(folder) = folders.pop_front() else { break };
                let Ok(entries) = std::fs::read_dir(&folder) else { continue };
                for entry in entries.flatten() {
                    let path = entry.path();
                    let Ok(kind) = entry.file_type() else { continue };
                    if kind.is_dir() && !path.strip_prefix(directory).is_ok_and(blocked_below) {
                        folders.push_back(path);
                    } else if kind.is_file() && path.ends_with(wanted) {
                        if found.is_some() {
                            return None;
                        }
                        found = Some(path);
                    }
                }
            }
        }
        found
    }
}
