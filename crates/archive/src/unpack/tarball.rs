//! Gzipped tar files.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::{Attributes, RATIO_FLOOR, Refusal, UnpackError, Unpacking};

/// Space for headers: 512 bytes for each entry and the padding after it.
const HEADER: u64 = 1024;
/// Headers of one entry with its long names, and the padding before them.
const MAX_HEADERS: u64 = 1024 * 1024;
/// The year 2100.
const FUTURE: u64 = 4_102_444_800;

pub(super) fn unpack(file: File, unpacking: &mut Unpacking<'_>) -> Result<(), UnpackError> {
    let limits = unpacking.limits;
    let most = limits.total + limits.entries as u64 * 2 * HEADER;
    let by_ratio =
        unpacking.packed.saturating_mul(limits.ratio).max(RATIO_FLOOR).saturating_add(16 * RATIO_FLOOR);
    let room = Rc::new(Cell::new(MAX_HEADERS));
    let content = Bounded {
        inner: MultiGzDecoder::new(BufReader::new(file)),
        left: most.min(by_ratio),
        room: Rc::clone(&room),
    };
    let mut archive = Archive::new(content);
    let mut entries = archive.entries().map_err(|error| unpacking.damaged(error.to_string()))?;
    loop {
        // Long names are read into memory before anything else counts them.
        room.set(MAX_HEADERS);
        let Some(entry) = entries.next() else { return Ok(()) };
        let mut entry = entry.map_err(|error| unpacking.damaged(error.to_string()))?;
        room.set(u64::MAX);
        let name = entry.path_bytes().into_owned();
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let Some(path) = unpacking.admit(&name)? else {
            // Content is not a header. A sparse file would be as long as it claims to be.
            if kind != EntryType::GNUSparse {
                let skipped = io::copy(&mut entry, &mut io::sink());
                skipped.map_err(|error| unpacking.damaged(error.to_string()))?;
            }
            continue;
        };
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
}

/// Fails after so many bytes, in all and for what is read now.
struct Bounded<R> {
    inner: R,
    left: u64,
    room: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::new(io::ErrorKind::FileTooLarge, "it unpacks to far more than its own size")
        })?;
        let room = self.room.get().checked_sub(count as u64);
        self.room.set(room.ok_or_else(|| {
            io::Error::new(io::ErrorKind::FileTooLarge, "the headers of an entry are too long")
        })?);
        Ok(count)
    }
}
