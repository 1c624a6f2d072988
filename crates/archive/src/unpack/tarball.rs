//! Gzipped tar files.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::time::{Duration, UNIX_EPOCH};

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::{Attributes, RATIO_FLOOR, Refusal, UnpackError, Unpacking};

/// Space for headers: 512 bytes for each entry and the padding after it.
const HEADER: u64 = 1024;
/// The year 2100.
const FUTURE: u64 = 4_102_444_800;

pub(super) fn unpack(file: File, unpacking: &mut Unpacking<'_>) -> Result<(), UnpackError> {
    let limits = unpacking.limits;
    let most = limits.total + limits.entries as u64 * 2 * HEADER;
    let by_ratio =
        unpacking.packed.saturating_mul(limits.ratio).max(RATIO_FLOOR).saturating_add(16 * RATIO_FLOOR);
    // Long names are read into memory, and a sparse file is skipped, before anything else counts them.
    let content = Bounded { inner: MultiGzDecoder::new(BufReader::new(file)), left: most.min(by_ratio) };
    let mut archive = Archive::new(content);
    let entries = archive.entries().map_err(|error| unpacking.damaged(error.to_string()))?;
    for entry in entries {
        let entry = entry.map_err(|error| unpacking.damaged(error.to_string()))?;
        let name = entry.path_bytes().into_owned();
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let Some(path) = unpacking.admit(&name)? else { continue };
        let seconds = entry.header().mtime().ok().filter(|seconds| *seconds > 0);
        // Far in the future is no time that a disk can keep.
        let modified =
            seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds.min(FUTURE))));
        let about = Attributes { mode: entry.header().mode().unwrap_or(0o644), modified };
        match kind {
            EntryType::Directory => unpacking.folder(&path, about.mode)?,
            EntryType::Regular | EntryType::Continuous => {
                unpacking.file(&path, entry, about)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let target =
                    String::from_utf8(target).map_err(|_| unpacking.refused(&name, Refusal::NotUtf8))?;
                unpacking.link(&path, target)?;
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                unpacking.hard_link(&path, &target, about)?;
            }
            _ => return Err(unpacking.refused(&name, Refusal::NotAFile)),
        }
    }
    Ok(())
}

/// Fails after so many bytes.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::new(io::ErrorKind::FileTooLarge, "it unpacks to far more than its own size")
        })?;
        Ok(count)
    }
}
