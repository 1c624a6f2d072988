//! Content on its way in and out: in memory, or in a file that is read and written piece by piece.

use std::io::{self, SeekFrom};
use std::path::Path;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::checksum::{Checksum, ChecksumKind};

/// Larger objects are sent in parts of this size, a multiple of what both services ask for.
pub(crate) const PART: u64 = 8 * 1024 * 1024;

/// Content to write.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    Bytes(&'a [u8]),
    File { path: &'a Path, size: u64 },
}

impl Payload<'_> {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
        }
    }

    /// The part that begins at `offset`: [`PART`] bytes, or what is left.
    pub(crate) async fn part(&self, offset: u64) -> io::Result<Vec<u8>> {
        let length = PART.min(self.size().saturating_sub(offset));
        match self {
            Self::Bytes(bytes) => {
                let rest =
                    usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
                Ok(rest.iter().take(usize::try_from(length).unwrap_or(usize::MAX)).copied().collect())
            }
            Self::File { path, .. } => {
                let mut file = File::open(path).await?;
                file.seek(SeekFrom::Start(offset)).await?;
                let mut part = Vec::new();
                file.take(length).read_to_end(&mut part).await?;
                if part.len() as u64 == length { Ok(part) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            }
        }
    }

    pub(crate) async fn checksum(&self, kind: ChecksumKind) -> io::Result<String> {
        let mut sum = Checksum::new(kind);
        if let Self::Bytes(bytes) = self {
            sum.update(bytes);
            return Ok(sum.finish());
        }
        let mut offset = 0;
        while offset < self.size() {
            let part = self.part(offset).await?;
            sum.update(&part);
            offset += part.len() as u64;
        }
        Ok(sum.finish())
    }
}

/// Where content goes that is read.
pub(crate) enum Sink {
    Memory(Vec<u8>),
    File(File),
}

impl Sink {
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(content) => content.extend_from_slice(bytes),
            Self::File(file) => file.write_all(bytes).await?,
        }
        Ok(())
    }
}
