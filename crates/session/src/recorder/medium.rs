//! The file as the writers see it, and the one way its end is changed.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::RecordError;

/// Something that can be written at a place and cut. A file; tests bring one that runs full.
pub(crate) trait Medium: fmt::Debug + Send {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    fn set_len(&mut self, length: u64) -> io::Result<()>;
}

impl Medium for File {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }
}

/// A write that failed.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub(crate) source: io::Error,
    /// Whether the file holds again what it held before.
    pub(crate) restored: bool,
}

impl WriteFailure {
    pub(crate) fn on(self, path: PathBuf) -> RecordError {
        let source = self.source;
        if self.restored { RecordError::Write { path, source } } else { RecordError::Unrestored { path, source } }
    }
}

/// Writes `new` where `old` stood at the end of the file. If that fails the old end is put back, which needs
/// no new space.
pub(crate) fn replace_end(
    medium: &mut dyn Medium,
    at: u64,
    old: &[u8],
    new: &[u8],
) -> Result<(), WriteFailure> {
    medium.write_at(at, new).map_err(|source| {
        let length = at + old.len() as u64;
        let restored = medium.set_len(length).and_then(|()| medium.write_at(at, old)).is_ok();
        WriteFailure { source, restored }
    })
}
