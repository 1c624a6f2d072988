//! The file abstraction of the writers, and the only function that changes its end.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::files::{self, Mode};

use super::RecordError;
use super::syncing::Syncing;
use super::unsynced::SyncedFile;
use crate::redo;

/// Something that can be written at a place and cut. A file; tests bring one that runs full.
pub(crate) trait Medium: fmt::Debug + Send + Sync {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    fn set_len(&mut self, length: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Whether the path of the session leads to another file or to none, so that what is written here would be lost.
    fn is_displaced(&self) -> bool;
    /// Notes that the file has its name.
    fn named(&mut self);
    /// Saves a redo note next to the file before a write at `at` or beyond; see [`redo`]. Without the note, a kill
    /// during the write loses the records it moves. Failing to save the note does not prevent the write.
    fn keep_aside(&mut self, at: u64, note: &[u8]);
    /// What was kept aside is no longer needed once the file is on the disk.
    fn drop_aside(&mut self);
    /// From now on, writes are synced.
    fn sync_with(&mut self, syncing: &Syncing);
}

/// A session's file.
#[derive(Debug)]
pub(crate) struct SessionFile {
    file: Arc<dyn SyncedFile>,
    path: PathBuf,
    /// `None` if writes need to survive only the end of this process.
    syncing: Option<Syncing>,
    /// Where the noted writes begin that may not be on the disk yet; their redo notes are needed until they are.
    noted_from: Option<u64>,
    /// Offset of the noted write in progress.
    noting: Option<u64>,
    /// Whether the last wait for the disk was in vain. A disk that stalls is waited for once, not with every write.
    is_stalled: bool,
    name: Name,
}

/// How another file at the path is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    /// The file does not have its name yet.
    None,
    /// The file system numbers files again with each look; only a missing file is noticed.
    Any,
    /// The device and number of the file.
    Of(u64, u64),
}

impl SessionFile {
    /// The open file of the session at `path`.
    pub(crate) fn boxed(file: File, path: &Path) -> Box<dyn Medium> {
        let mut medium = Self::unnamed(file, path);
        medium.named();
        medium
    }

    /// The open file of the session that will be at `path`.
    pub(super) fn unnamed(file: File, path: &Path) -> Box<dyn Medium> {
        Box::new(Self::on(Arc::new(file), path))
    }

    pub(super) fn on(file: Arc<dyn SyncedFile>, path: &Path) -> Self {
        Self {
            file,
            path: path.to_owned(),
            syncing: None,
            noted_from: None,
            noting: None,
            is_stalled: false,
            name: Name::None,
        }
    }

    /// Waits until the noted write is on the disk if a change up to `end` would touch it: the redo note cannot
    /// restore a mixture of two writes. If the disk does not answer the change is made all the same, and the note stays.
    fn wait_for_noted_write(&mut self, end: u64) {
        if self.noted_from.is_some_and(|from| end > from) && self.settle() {
            self.noted_from = None;
        }
    }

    /// Waits until everything written so far is on the disk. False if the sync failed or takes too long.
    fn settle(&mut self) -> bool {
        let Some(syncing) = &self.syncing else { return true };
        let is_settled = if self.is_stalled { syncing.is_synced() } else { syncing.wait() };
        self.is_stalled = !is_settled;
        is_settled
    }
}

impl Medium for SessionFile {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.wait_for_noted_write(at + bytes.len() as u64);
        match &self.syncing {
            Some(syncing) => syncing.write(&self.file, at, bytes),
            None => self.file.write_all_at(bytes, at),
        }
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.wait_for_noted_write(u64::MAX);
        match &self.syncing {
            Some(syncing) => syncing.cut(&self.file, length),
            None => self.file.set_len(length),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(at, buffer)
    }

    fn is_displaced(&self) -> bool {
        if self.name == Name::None {
            return false;
        }
        match fs::metadata(&self.path) {
            Ok(found) => match self.name {
                Name::Of(device, number) => (found.dev(), found.ino()) != (device, number),
                Name::None | Name::Any => false,
            },
            // What cannot be looked at may still be there.
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }

    fn named(&mut self) {
        let number = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let at_path = || fs::metadata(&self.path).ok().map(number);
        let opened = || File::open(&self.path).and_then(|file| file.metadata()).ok().map(number);
        self.name = match self.file.identity() {
            Some((device, inode)) if at_path() == Some((device, inode)) || at_path() == opened() => {
                Name::Of(device, inode)
            }
            Some(_) | None => Name::Any,
        };
    }

    fn keep_aside(&mut self, at: u64, note: &[u8]) {
        let Some(syncing) = self.syncing.clone() else { return redo::keep(&self.path, note) };
        let is_settled = self.settle();
        syncing.add_note();
        self.noting = Some(at);
        if is_settled {
            self.noted_from = None;
            redo::keep_synced(&self.path, note);
        } else {
            // An earlier note is still needed for what is not on the disk yet. Syncing this one could take as long.
            match self.noted_from {
                Some(_) => redo::keep_also(&self.path, note),
                None => redo::keep(&self.path, note),
            }
        }
    }

    fn drop_aside(&mut self) {
        match &self.syncing {
            Some(syncing) => {
                syncing.drop_note(self.path.clone());
                self.noted_from = self.noted_from.into_iter().chain(self.noting.take()).min();
            }
            None => redo::discard(&self.path),
        }
    }

    fn sync_with(&mut self, syncing: &Syncing) {
        if self.syncing.is_none() {
            self.syncing = Some(syncing.clone());
        }
    }
}

/// Replaces a file and returns the new one. It stays open from before it gets its name, so after the old file is gone
/// nothing can fail.
pub(crate) fn replace_file(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    let mut kept = None;
    files::replace_with(path, Mode::Private, |file| {
        fill(file)?;
        kept = Some(file.try_clone()?);
        Ok(())
    })
    .map_err(io::Error::other)?;
    kept.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A write that did not happen.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// The file holds what it held before.
    Failed(io::Error),
    /// The file ends in a half-written record.
    Unrestored(io::Error, Torn),
    /// Another program removed, replaced or changed the file; it was left unchanged.
    Changed,
}

/// The end of a file that a failed write has overwritten.
#[derive(Debug)]
pub(crate) struct Torn {
    pub(super) at: u64,
    pub(super) old: Vec<u8>,
    /// The length of the file afterwards, if known.
    pub(super) left: Option<u64>,
}

impl Torn {
    pub(super) fn put_back(&self, medium: &mut dyn Medium) -> Result<(), WriteFailure> {
        put_back(medium, self.at, &self.old)
            .map_err(|source| failed_twice(medium, self.at, &self.old, source))
    }
}

impl WriteFailure {
    pub(crate) fn on(self, path: PathBuf) -> RecordError {
        match self {
            Self::Failed(source) => RecordError::Write { path, source },
            Self::Unrestored(source, _) => RecordError::Unrestored { path, source },
            Self::Changed => RecordError::ChangedByOthers { path },
        }
    }

    pub(super) fn into_source(self) -> io::Error {
        match self {
            Self::Failed(source) | Self::Unrestored(source, _) => source,
            Self::Changed => io::Error::other("the file was changed by another program"),
        }
    }
}

fn put_back(medium: &mut dyn Medium, at: u64, old: &[u8]) -> io::Result<()> {
    medium.set_len(at + old.len() as u64).and_then(|()| medium.write_at(at, old))
}

fn failed_twice(medium: &dyn Medium, at: u64, old: &[u8], source: io::Error) -> WriteFailure {
    WriteFailure::Unrestored(source, Torn { at, old: old.to_vec(), left: medium.len().ok() })
}

/// Puts the old end of a file back after a write that failed.
pub(super) fn undo(medium: &mut dyn Medium, at: u64, old: &[u8], source: io::Error) -> WriteFailure {
    match put_back(medium, at, old) {
        Ok(()) => WriteFailure::Failed(source),
        Err(_) => failed_twice(medium, at, old, source),
    }
}

/// Writes `new` where `old` stands at the end of the file. If that fails the old end is put back, which
/// needs no new space.
pub(crate) fn replace_end(
    medium: &mut dyn Medium,
    at: u64,
    old: &[u8],
    new: &[u8],
) -> Result<(), WriteFailure> {
    let length = at + old.len() as u64;
    // Programs without locking may have written here; continuing at our offsets would corrupt the file.
    if medium.is_displaced() || medium.len().map_err(WriteFailure::Failed)? != length {
        return Err(WriteFailure::Changed);
    }
    medium.write_at(at, new).map_err(|source| undo(medium, at, old, source))
}
