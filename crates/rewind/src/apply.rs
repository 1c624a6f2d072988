//! Executes a rewind plan: each file in one step, never through links, never outside the root.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use pollux_config::files;
use pollux_domain::hex;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::beneath;
use crate::entry::WorkspaceEntry;
use crate::path::RelPath;
use crate::plan::{Action, RewindStep};
use crate::rights::Rights;
use crate::scope::TEMP_PREFIX;
use crate::store::Store;

/// Whether conflicting steps are executed too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflicts {
    /// Leave changes by others.
    Keep,
    /// Revert them as well; the current content is saved first.
    Overwrite,
}

/// The result of a rewind.
#[derive(Debug, Default)]
pub struct Applied {
    /// The number of restored paths.
    pub restored: usize,
    /// Paths that were left as they are.
    pub kept: Vec<KeptPath>,
    /// Paths that could not be restored.
    pub failed: Vec<(PathBuf, io::Error)>,
    /// The rewind as a call: going back to it undoes the rewind.
    pub undo: String,
}

/// A path that a rewind left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptPath {
    /// It was changed after the plan was computed.
    Changed(PathBuf),
    /// A new folder that contains files unknown to the journal.
    NotEmpty(PathBuf),
}

/// Executes steps below one root.
pub(crate) struct Applier<'a> {
    root: BorrowedFd<'a>,
    store: &'a Store,
    rights: Rights<'a>,
}

/// Opens the root, or creates it if it is missing.
pub(crate) fn open_or_make_root(root: &Path) -> io::Result<OwnedFd> {
    match beneath::open_root(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            rustix::fs::mkdir(root, Mode::RWXU)?;
            beneath::open_root(root)
        }
        opened => opened,
    }
}

impl<'a> Applier<'a> {
    pub(crate) fn new(root: BorrowedFd<'a>, store: &'a Store) -> Self {
        Self { root, store, rights: Rights::new(root) }
    }

    /// Removes first, from the leaves upwards, then restores from the root downwards; modes of folders come
    /// last, since a read-only folder could not be filled.
    pub(crate) fn run(mut self, steps: &[RewindStep], applied: &mut Applied) {
        for step in steps {
            if let Action::MoveBack { from } = &step.action
                && let Err(error) = self.set_aside(from, &step.path)
            {
                applied.failed.push((step.path.to_path_buf(), error));
            }
        }
        for step in steps.iter().rev().filter(|step| must_go(step)) {
            match self.remove(step) {
                Ok(()) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => {
                    applied.kept.push(KeptPath::NotEmpty(step.path.to_path_buf()));
                }
                Err(error) => applied.failed.push((step.path.to_path_buf(), error.into())),
            }
        }
        for step in steps {
            if let Err(error) = self.put_back(step) {
                applied.failed.push((step.path.to_path_buf(), error));
            }
        }
        let failed = self.rights.close().into_iter().map(|(path, error)| (path.to_path_buf(), error));
        applied.failed.extend(failed);
    }

    fn remove(&mut self, step: &RewindStep) -> Result<(), Errno> {
        let Some((parent, name)) = step.path.split() else { return Ok(()) };
        let folder = match self.rights.open(&parent) {
            Ok(folder) => folder,
            Err(error) if beneath::is_absent(&error) => return Ok(()),
            Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        };
        let is_folder = step.present.as_ref().is_some_and(WorkspaceEntry::is_folder);
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        self.rights.forget(&step.path);
        match unlinkat(folder, name, flags) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn put_back(&mut self, step: &RewindStep) -> io::Result<()> {
        let Some(goal) = &step.goal else { return Ok(()) };
        if let WorkspaceEntry::Folder { mode } = goal {
            self.make_folder(&step.path)?;
            self.rights.end_with(&step.path, *mode);
            return Ok(());
        }
        let Some((parent, name)) = step.path.split() else { return Ok(()) };
        let folder = self.open_or_make(&parent)?;
        match (goal, &step.action) {
            (WorkspaceEntry::File { mode, .. }, Action::Chmod) => beneath::set_mode(folder, name, *mode),
            (WorkspaceEntry::File { mode, .. }, Action::MoveBack { .. }) => {
                renameat(self.root, aside(&step.path), &folder, name)?;
                beneath::set_mode(folder, name, *mode)
            }
            (WorkspaceEntry::File { mode, len, content }, _) => {
                let temp = temp_name(&step.path);
                let written = self.new_file(&folder, &temp).and_then(|mut file| {
                    self.store.fetch(content, *len, &mut file)?;
                    rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode as rustix::fs::RawMode))?;
                    files::sync(&file)?;
                    Ok(renameat(&folder, &temp, &folder, name)?)
                });
                written.inspect_err(|_| clear(&folder, &temp))
            }
            (WorkspaceEntry::Link { target }, _) => {
                let temp = temp_name(&step.path);
                clear(&folder, &temp);
                symlinkat(target.as_slice(), &folder, &temp)?;
                Ok(renameat(&folder, &temp, &folder, name)?)
            }
            (WorkspaceEntry::Special { .. } | WorkspaceEntry::Folder { .. }, _) => Ok(()),
        }
    }

    fn new_file(&self, folder: &OwnedFd, temp: &[u8]) -> io::Result<File> {
        // Left by a rewind that was interrupted.
        clear(folder, temp);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(folder, temp, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    fn make_folder(&mut self, path: &RelPath) -> io::Result<()> {
        let Some((parent, name)) = path.split() else { return Ok(()) };
        let folder = self.open_or_make(&parent)?;
        match mkdirat(folder, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a folder; a folder removed by others is created with default permissions.
    fn open_or_make(&mut self, path: &RelPath) -> io::Result<OwnedFd> {
        match (self.rights.open(path), path.split()) {
            (Err(error), Some((parent, name))) if error.kind() == io::ErrorKind::NotFound => {
                let folder = self.open_or_make(&parent)?;
                mkdirat(folder, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)?;
                self.rights.open(path)
            }
            (opened, _) => opened,
        }
    }

    /// Temporarily moves a file into the root: its new folder will be removed, and its old one does not exist
    /// yet.
    fn set_aside(&mut self, from: &Path, to: &RelPath) -> io::Result<()> {
        let absent = || io::Error::from(io::ErrorKind::NotFound);
        let from = RelPath::below(Path::new(""), from).ok_or_else(absent)?;
        let (from_parent, from_name) = from.split().ok_or_else(absent)?;
        let source = self.rights.open(&from_parent)?;
        Ok(renameat(&source, from_name, self.root, aside(to))?)
    }
}

fn clear(folder: &OwnedFd, temp: &[u8]) {
    let _ = unlinkat(folder, temp, AtFlags::empty());
}

/// Whether the present entry must be removed before the goal can be created.
fn must_go(step: &RewindStep) -> bool {
    match (&step.present, &step.goal) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(present), Some(goal)) => present.is_folder() != goal.is_folder(),
    }
}

fn temp_name(path: &RelPath) -> Vec<u8> {
    let hash: [u8; 32] = Sha256::digest(path.bytes()).into();
    let mut name = TEMP_PREFIX.to_vec();
    name.extend(hex::encode(&hash).bytes().take(16));
    name
}

fn aside(path: &RelPath) -> Vec<u8> {
    let mut name = temp_name(path);
    name.extend_from_slice(b"-moved");
    name
}
