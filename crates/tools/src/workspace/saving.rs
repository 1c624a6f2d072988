//! Writes a file atomically: readers, or a crash, see either the old or the new content.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use pollux_config::files;

use super::beneath::{Folder, Missing, Purpose};
use super::opening::special_name;
use super::{Location, PathRefusal, Workspace};

/// A file that was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    #[error(transparent)]
    Refused(PathRefusal),
    #[error("its folder is read-only, like all skill folders")]
    ReadOnly,
    #[error("it is a {0}, not a regular file")]
    Special(&'static str),
    #[error("it has hard links that would change with it, and it cannot be replaced by a new file")]
    Linked,
    #[error("{0}")]
    Io(#[source] io::Error),
}

impl Workspace {
    /// Writes a file, creating the directories on the way; tests the path again before that.
    ///
    /// A regular file is replaced by a new one with the same mode and owner; other names of the old one (hard
    /// links, which may lie outside of the workspace) keep the old content. Only a file with one name is written
    /// in place, where its folder or its owner does not allow anything else.
    pub(crate) fn save(&self, location: &Location, content: &[u8]) -> Result<(), SaveError> {
        let location = self.admit_again(location).map_err(SaveError::Refused)?;
        if location.read_only {
            return Err(SaveError::ReadOnly);
        }
        if self.is_written_by_editor(&location, content) {
            return Ok(());
        }
        save_beneath(&location, content).map_err(|error| match error {
            // A link appeared after the path was resolved.
            SaveError::Io(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                SaveError::Refused(self.outside(location.path()))
            }
            other => other,
        })
    }
}

impl Workspace {
    /// Lets the editor write a text, so that an open buffer of it does not go stale. The folders on the way are ours to
    /// create, and a place that is no regular file is left to the checks of [`save_beneath`].
    fn is_written_by_editor(&self, location: &Location, content: &[u8]) -> bool {
        let Some(view) = self.view_of(location) else { return false };
        let Ok(text) = std::str::from_utf8(content) else { return false };
        let below = location.path().strip_prefix(&location.base).unwrap_or(Path::new(""));
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else { return false };
        let Ok(folder) = Folder::open(&location.base, parent, Missing::Create) else { return false };
        let is_free = match folder.file(name, Purpose::Read).and_then(|file| file.metadata()) {
            Ok(metadata) => metadata.is_file() && metadata.nlink() == 1,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        is_free && !text.starts_with('\u{feff}') && view.write(location.path(), text)
    }
}

fn save_beneath(location: &Location, content: &[u8]) -> Result<(), SaveError> {
    let below = location.path().strip_prefix(&location.base).unwrap_or(Path::new(""));
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
        return Err(SaveError::Io(io::Error::from_raw_os_error(libc::EISDIR)));
    };
    let folder = Folder::open(&location.base, parent, Missing::Create).map_err(SaveError::Io)?;
    match folder.file(name, Purpose::Overwrite) {
        Ok(existing) => overwrite(&folder, name, existing, content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(&folder, name, content).map_err(SaveError::Io)
        }
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            Err(SaveError::Special("named pipe or socket"))
        }
        Err(error) => Err(SaveError::Io(error)),
    }
}

fn create(folder: &Folder, name: &OsStr, content: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = temporary(folder, 0o666)?;
    let written = file.write_all(content).and_then(|()| files::sync(&file));
    let result = written.and_then(|()| folder.rename(&temporary, name));
    if result.is_err() {
        let _ = folder.remove(&temporary);
    }
    result
}

fn overwrite(folder: &Folder, name: &OsStr, existing: File, content: &[u8]) -> Result<(), SaveError> {
    let metadata = existing.metadata().map_err(SaveError::Io)?;
    if !metadata.is_file() {
        return Err(SaveError::Special(special_name(metadata.file_type())));
    }
    match replace(folder, name, &metadata, content) {
        Ok(Replaced::Yes) => return Ok(()),
        Ok(Replaced::OwnerWouldChange) => {}
        // The file can be written, but its directory cannot.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EROFS)) => {}
        Err(error) => return Err(SaveError::Io(error)),
    }
    if metadata.nlink() > 1 {
        return Err(SaveError::Linked);
    }
    in_place(existing, content).map_err(SaveError::Io)
}

enum Replaced {
    Yes,
    OwnerWouldChange,
}

fn replace(folder: &Folder, name: &OsStr, old: &Metadata, content: &[u8]) -> io::Result<Replaced> {
    let (temporary, mut file) = temporary(folder, 0o600)?;
    let result = (|| {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid())
            && std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid())).is_err()
        {
            return Ok(Replaced::OwnerWouldChange);
        }
        file.write_all(content)?;
        file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        files::sync(&file)?;
        folder.rename(&temporary, name)?;
        Ok(Replaced::Yes)
    })();
    if !matches!(result, Ok(Replaced::Yes)) {
        let _ = folder.remove(&temporary);
    }
    result
}

fn in_place(mut file: File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.set_len(content.len() as u64)
}

/// Creates a file with an unused name.
fn temporary(folder: &Folder, mode: u32) -> io::Result<(OsString, File)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".pollux-{}-{number}.tmp", std::process::id()));
        match folder.file(&name, Purpose::Create(mode)) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}
