//! Executes a rewind plan: each file in one step, never through links, never outside the root.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use pollux_config::files;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;

use crate::aside::{SetAside, rename_new, temp_name};
use crate::beneath;
use crate::entry::WorkspaceEntry;
use crate::path::RelPath;
use crate::plan::{Action, RewindStep};
use crate::rights::Rights;
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
    /// The temporary names of files that are moved back; the journal has them already.
    asides: &'a [SetAside],
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
    pub(crate) fn new(root: BorrowedFd<'a>, store: &'a Store, asides: &'a [SetAside]) -> Self {
        Self { root, store, asides, rights: Rights::new(root) }
    }

    /// Removes first, from the leaves upwards, then restores from the root downwards; modes of folders come
    /// last, since a read-only folder could not be filled.
    pub(crate) fn run(mut self, steps: &[RewindStep], applied: &mut Applied) {
        for aside in self.asides {
            if let Err(error) = self.set_aside(aside) {
                applied.failed.push((aside.to.to_path_buf(), error));
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
                // Without one, the file was not set aside, which has been reported.
                let aside = self.asides.iter().find(|aside| aside.to == step.path);
                let Some(aside) = aside.filter(|aside| self.is_there(aside)) else { return Ok(()) };
                // What is there now was recorded before; anything else stays.
                let moved = match step.present {
                    None => rename_new(self.root, &aside.name, &folder, name),
                    Some(_) => renameat(self.root, &aside.name, &folder, name),
                };
                moved.map_err(|error| {
                    let error = io::Error::from(error);
                    let kept = aside.path().to_path_buf();
                    io::Error::new(error.kind(), format!("{error}; the file is now `{}`", kept.display()))
                })?;
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
    fn set_aside(&mut self, aside: &SetAside) -> io::Result<()> {
        let (parent, name) = aside.from.split().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let source = self.rights.open(&parent)?;
        Ok(rename_new(&source, name, self.root, &aside.name)?)
    }

    fn is_there(&self, aside: &SetAside) -> bool {
        beneath::stamp_of(self.root, &aside.name).is_ok()
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
