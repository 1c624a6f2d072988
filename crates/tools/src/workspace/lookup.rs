//! Finds the file that the model meant when it omitted the first folders of a path.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use super::Workspace;
use super::beneath::EntryKind;
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
                let entries = self.open_folder(&folder).and_then(|folder| folder.entries());
                for entry in entries.unwrap_or_default() {
                    let path = folder.join(&entry.name);
                    match entry.kind {
                        EntryKind::Folder if !path.strip_prefix(directory).is_ok_and(blocked_below) => {
                            folders.push_back(path);
                        }
                        EntryKind::File if path.ends_with(wanted) => {
                            if found.is_some() {
                                return None;
                            }
                            found = Some(path);
                        }
                        _ => {}
                    }
                }
            }
        }
        found
    }
}
