//! The file as the writers see it, and the one way its end is changed.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::RecordError;

/// Something that can be written at a place and cut. A file; tests bring one that runs full.
pub(crate) trait Medium: fmt::Debug + Send + Sync {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    fn set_len(&mut self, length: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
}

impl Medium for File {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }

    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }
}

/// A write that did not happen.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// The file holds what it held before.
    Failed(io::Error),
    /// The file ends in a half-written record.
    Unrestored(io::Error),
    /// Somebody else changed the file; it was not touched.
    Changed,
}

impl WriteFailure {
    pub(crate) fn on(self, path: PathBuf) -> RecordError {
        match self {
            Self::Failed(source) => RecordError::Write { path, source },
            Self::Unrestored(source) => RecordError::Unrestored { path, source },
            Self::Changed => RecordError::ChangedByOthers { path },
        }
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
    // Programs that know no lock may have written here; going on by our own offsets would tear the file.
    if medium.len().map_err(WriteFailure::Failed)? != length {
        return Err(WriteFailure::Changed);
    }
    medium.write_at(at, new).map_err(|source| {
        match medium.set_len(length).and_then(|()| medium.write_at(at, old)) {
            Ok(()) => WriteFailure::Failed(source),
            Err(_) => WriteFailure::Unrestored(source),
        }
    })
}
