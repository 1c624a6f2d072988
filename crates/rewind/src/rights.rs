//! Temporarily adds owner permissions to folders that lack them, and restores the mode afterwards.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::beneath;
use crate::path::RelPath;

/// The permissions that an owner needs to change the contents of a folder.
const OWNER_ALL: u32 = 0o700;

/// Folders on the way with added permissions.
pub(crate) struct Rights<'a> {
    root: BorrowedFd<'a>,
    /// The final modes of folders.
    modes: BTreeMap<RelPath, u32>,
}

impl<'a> Rights<'a> {
    pub(crate) fn new(root: BorrowedFd<'a>) -> Self {
        Self { root, modes: BTreeMap::new() }
    }

    /// Opens a folder for changing its contents, adding owner permissions on the way.
    pub(crate) fn open(&mut self, path: &RelPath) -> io::Result<OwnedFd> {
        let mut folder = self.root.try_clone_to_owned()?;
        let mut at = RelPath::root();
        self.loosen(&at, &folder)?;
        for part in path.parts() {
            folder = beneath::enter(&folder, part)?;
            at = at.join(part);
            self.loosen(&at, &folder)?;
        }
        Ok(folder)
    }

    fn loosen(&mut self, path: &RelPath, folder: &OwnedFd) -> io::Result<()> {
        let mode = beneath::stamp_of_handle(folder)?.permissions();
        if mode & OWNER_ALL == OWNER_ALL {
            return Ok(());
        }
        self.modes.entry(path.clone()).or_insert(mode);
        beneath::set_mode_of(folder, mode | OWNER_ALL)
    }

    /// Sets the final mode of a folder.
    pub(crate) fn end_with(&mut self, path: &RelPath, mode: u32) {
        self.modes.insert(path.clone(), mode);
    }

    /// The folder no longer exists, so its mode does not matter.
    pub(crate) fn forget(&mut self, path: &RelPath) {
        self.modes.remove(path);
    }

    /// Restores the mode of every folder, from the leaves upwards; returns the failures.
    pub(crate) fn close(self) -> Vec<(RelPath, io::Error)> {
        let set = |path: &RelPath, mode| {
            let folder = beneath::descend(self.root.as_fd(), path)?;
            beneath::set_mode_of(&folder, mode)
        };
        let mut failed = Vec::new();
        for (path, mode) in self.modes.into_iter().rev() {
            match set(&path, mode) {
                Err(error) if !beneath::is_absent(&error) => failed.push((path, error)),
                Ok(()) | Err(_) => {}
            }
        }
        failed
    }
}
