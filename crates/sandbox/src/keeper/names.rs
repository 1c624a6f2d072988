//! Protected names that do not exist: one that appears while a command runs is renamed at once in the same folder, so
//! that no program acts on it and nothing is lost.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::aside;
use crate::tripped::{TripAction, Tripped};

/// A name in an open folder, so that the folder cannot be replaced by a link to another one.
#[derive(Debug)]
pub(super) struct Absent {
    folder: Arc<OwnedFd>,
    path: PathBuf,
    name: OsString,
}

/// The protected names that do not exist.
#[derive(Debug, Default)]
pub(super) struct Names {
    absent: Vec<Absent>,
    /// Tells when one of them may have appeared. Kept, because closing it takes milliseconds.
    events: Option<OwnedFd>,
}

impl Names {
    /// Looks which of these do not exist now.
    pub(super) fn find(&mut self, paths: &[PathBuf]) {
        let mut folders: Vec<(&Path, Arc<OwnedFd>)> = Vec::new();
        let mut absent = Vec::new();
        for path in paths {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let folder = match folders.iter().find(|(known, _)| *known == parent) {
                Some((_, folder)) => Arc::clone(folder),
                None => {
                    // If the folder does not exist, it contains nothing; a new one is opened again.
                    let Ok(folder) = aside::open_folder(parent) else { continue };
                    let folder = Arc::new(folder);
                    folders.push((parent, Arc::clone(&folder)));
                    folder
                }
            };
            if !aside::exists(&folder, name) {
                absent.push(Absent { folder, path: path.clone(), name: name.to_owned() });
            }
        }
        if self.events.is_none() {
            self.events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        }
        // Without events, the names are looked at in every round.
        let _ = self.events.as_ref().map(|events| watch(events, &absent));
        self.absent = absent;
    }

    /// Where events arrive, if any is of interest.
    pub(super) fn events(&self) -> Option<&OwnedFd> {
        self.events.as_ref().filter(|_| !self.absent.is_empty())
    }

    /// Forgets all names.
    pub(super) fn clear(&mut self) {
        self.absent.clear();
    }

    /// Adds a name that does not exist.
    pub(super) fn add(&mut self, path: &Path) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        let Ok(folder) = aside::open_folder(parent) else { return };
        let entry = Absent { folder: Arc::new(folder), path: path.to_owned(), name: name.to_owned() };
        // Without events, the names are looked at in every round.
        let _ = self.events.as_ref().map(|events| watch(events, std::slice::from_ref(&entry)));
        self.absent.push(entry);
    }

    /// Forgets names that may be created after all.
    pub(super) fn permit(&mut self, is_permitted: impl Fn(&Path) -> bool) {
        self.absent.retain(|entry| !is_permitted(&entry.path));
    }

    /// Renames what appeared.
    pub(super) fn sweep(&self, tripped: &mut Vec<Tripped>) {
        for entry in self.absent.iter().filter(|entry| aside::exists(&entry.folder, &entry.name)) {
            let renamed = aside::move_aside(&entry.folder, &entry.name, &entry.path);
            let action = renamed.map_or(TripAction::Failed, TripAction::Renamed);
            let found = Tripped { path: entry.path.clone(), action };
            // A file that cannot be renamed would be reported in every round.
            if !tripped.contains(&found) {
                tripped.push(found);
            }
        }
    }

    /// Forgets the events so far.
    pub(super) fn drain(&self) {
        let Some(events) = &self.events else { return };
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        while reader.next().is_ok() {}
    }
}

fn watch(events: &OwnedFd, absent: &[Absent]) -> io::Result<()> {
    let mut last: Option<&OsStr> = None;
    for entry in absent {
        let parent = entry.path.parent().map(Path::as_os_str);
        if parent != last {
            let folder = format!("/proc/self/fd/{}", entry.folder.as_raw_fd());
            inotify::add_watch(events, folder, WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
        }
        last = parent;
    }
    Ok(())
}
