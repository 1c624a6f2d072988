//! Searches of whole folders, such as `grep -r`: every file below must be readable without approval.

use std::ffi::OsStr;
use std::path::Path;

use super::Engine;
use super::reading::untold;
use super::working_dirs::WorkingDirs;
use crate::disk::{BoundedDisk, EntryKind, IGNORE_FILES, Revealed, finds_any};
use crate::secrets::{is_private_folder, is_secret_name};
use crate::shell::{How, Tree};

/// Searches a folder for files that need approval to read.
pub(super) struct TreeSearch<'e> {
    engine: &'e Engine,
    places: &'e WorkingDirs,
    tree: &'e Tree,
    /// Hidden names that ignore files tell search programs to include.
    revealed: Revealed,
}

impl<'e> TreeSearch<'e> {
    pub(super) fn new(
        engine: &'e Engine,
        places: &'e WorkingDirs,
        tree: &'e Tree,
        root: &Path,
        look: &BoundedDisk<'_>,
    ) -> Self {
        let revealed = if tree.hidden { Revealed::default() } else { Revealed::above(look.disk, root) };
        Self { engine, places, tree, revealed }
    }

    fn is_passed_over(&self, name: &str) -> bool {
        let hidden = name.starts_with('.') && !self.tree.hidden;
        hidden && !self.revealed.shows(name)
    }

    /// Whether a name is left out; patterns and those that end in a slash are not followed.
    fn is_left_out(&self, name: &str, kind: EntryKind) -> bool {
        let without = if kind == EntryKind::Folder { &self.tree.without_folders } else { &self.tree.without };
        without.iter().any(|not| not == name)
    }

    fn is_wanted(&self, name: &str) -> bool {
        let last = |pattern: &String| {
            let last = pattern.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            last.contains(['{', '\\']) || finds_any(last, name)
        };
        self.tree.only.is_empty() || self.tree.only.iter().any(last)
    }

    pub(super) fn folder(&mut self, folder: &Path, look: &mut BoundedDisk<'_>) -> Result<(), Option<String>> {
        if look.disk.kind(folder) != Some(EntryKind::Folder) {
            return Ok(());
        }
        let entries = look.list(folder).map_err(|why| Some(untold(why, &folder.to_string_lossy())))?;
        let tells = |name: &OsStr| name == ".git" || IGNORE_FILES.iter().any(|file| name == *file);
        if !self.tree.hidden && entries.iter().any(|entry| tells(&entry.name)) {
            self.revealed.add(look.disk, folder);
        }
        for entry in entries {
            let name = entry.name.to_string_lossy();
            if self.is_passed_over(&name) || self.is_left_out(&name, entry.kind) {
                continue;
            }
            let path = folder.join(&entry.name);
            match entry.kind {
                EntryKind::Folder if name == ".git" => {
                    let wanted = |name: &str| self.is_wanted(name);
                    self.engine.weigh_git_folder(look, &path, &wanted)?;
                }
                EntryKind::Folder if is_private_folder(&name) => {
                    return Err(Some(format!(
                        "it would read `{}`, which may contain secrets",
                        path.display()
                    )));
                }
                EntryKind::Folder => self.folder(&path, look)?,
                EntryKind::Link if self.tree.follows && self.is_wanted(&name) => self.link(&path, look)?,
                EntryKind::File if self.is_wanted(&name) && is_secret_name(&name) => {
                    return Err(Some(format!(
                        "it would read `{}`, which may contain secrets",
                        path.display()
                    )));
                }
                EntryKind::File | EntryKind::Link | EntryKind::Other => {}
            }
        }
        Ok(())
    }

    /// A followed link must point to a file that may be read.
    fn link(&self, path: &Path, look: &BoundedDisk<'_>) -> Result<(), Option<String>> {
        let text = path.to_string_lossy();
        let closed = self.engine.closed(self.places, Path::new("/"), &text, &How::Contents);
        match closed {
            Some(why) => Err(Some(why)),
            None if self.engine.is_folder(path, look) => {
                Err(Some(format!("it follows the link `{text}` into another folder")))
            }
            None => Ok(()),
        }
    }
}
