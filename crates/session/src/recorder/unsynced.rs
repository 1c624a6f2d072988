//! What was written to a file since its last sync, kept to be written again.
//!
//! When a sync fails, the system may forget what it could not write: it counts as written, and the next sync succeeds
//! without it. So these bytes are written again before that.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt as _};

use pollux_config::files;

/// Maximum kept per file. A working disk syncs this much within moments; above it, nothing is kept.
const MAX_BYTES: usize = 16 << 20;
/// What a piece costs besides its bytes.
const PIECE: usize = 64;

/// A file that is synced. Tests bring one whose disk fails.
pub(crate) trait SyncedFile: fmt::Debug + Send + Sync {
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    fn set_len(&self, length: u64) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
    fn sync(&self) -> io::Result<()>;
    /// Its device and number; `None` if it is not a file of the system.
    fn identity(&self) -> Option<(u64, u64)> {
        None
    }
}

impl SyncedFile for File {
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, at)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        Self::set_len(self, length)
    }

    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, at)
    }

    fn sync(&self) -> io::Result<()> {
        files::sync(self)
    }

    fn identity(&self) -> Option<(u64, u64)> {
        self.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }
}

/// All bytes of a file that may not be on the disk, or none if they exceed the limit.
#[derive(Debug)]
pub(super) struct Unsynced {
    /// By offset; they do not overlap.
    pieces: BTreeMap<u64, Vec<u8>>,
    size: usize,
    max: usize,
    /// There was more than is kept, so nothing is.
    overflowed: bool,
}

impl Default for Unsynced {
    fn default() -> Self {
        Self { pieces: BTreeMap::new(), size: 0, max: MAX_BYTES, overflowed: false }
    }
}

impl Unsynced {
    /// Keeps at most so many bytes.
    #[cfg(test)]
    pub(super) fn at_most(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// Notes a write.
    pub(super) fn wrote(&mut self, at: u64, bytes: &[u8]) {
        if self.overflowed || bytes.is_empty() {
            return;
        }
        let end = at + bytes.len() as u64;
        // The piece in front ends where this one begins, and goes on behind it if it is longer.
        let before =
            self.pieces.range(..at).next_back().map(|(start, piece)| (*start, end_of(*start, piece)));
        let mut start = at;
        let mut piece = Vec::new();
        if let Some((before, before_end)) = before
            && before_end >= at
            && let Some(mut longer) = self.take(before)
        {
            let behind = longer.split_off(offset(before, at, longer.len()));
            self.keep_behind(at, behind, end);
            (start, piece) = (before, longer);
        }
        let covered: Vec<u64> = self.pieces.range(at..end).map(|(start, _)| *start).collect();
        for covered in covered {
            if let Some(old) = self.take(covered) {
                self.keep_behind(covered, old, end);
            }
        }
        piece.extend_from_slice(bytes);
        self.put(start, piece);
        if self.size > self.max {
            *self = Self { overflowed: true, max: self.max, ..Self::default() };
        }
    }

    /// Notes that the file was cut.
    pub(super) fn cut(&mut self, length: u64) {
        let gone: Vec<u64> = self.pieces.range(length..).map(|(start, _)| *start).collect();
        for start in gone {
            self.take(start);
        }
        let last = self.pieces.last_key_value().map(|(start, _)| *start);
        if let Some(start) = last
            && let Some(mut piece) = self.take(start)
        {
            piece.truncate(offset(start, length, piece.len()));
            self.put(start, piece);
        }
    }

    /// What these writes and the later ones left.
    pub(super) fn followed_by(mut self, later: Self) -> Self {
        for (at, piece) in later.pieces {
            self.wrote(at, &piece);
        }
        if later.overflowed {
            self = Self { overflowed: true, max: self.max, ..Self::default() };
        }
        self
    }

    /// Writes all of it again. False if it is not all there.
    pub(super) fn write_again(&self, file: &dyn SyncedFile) -> io::Result<bool> {
        for (at, piece) in &self.pieces {
            file.write_all_at(piece, *at)?;
        }
        Ok(!self.overflowed)
    }

    /// Keeps what a piece at `start` holds from `end` on.
    fn keep_behind(&mut self, start: u64, mut piece: Vec<u8>, end: u64) {
        let behind = piece.split_off(offset(start, end, piece.len()));
        if !behind.is_empty() {
            self.put(end, behind);
        }
    }

    fn put(&mut self, start: u64, piece: Vec<u8>) {
        self.size += piece.len() + PIECE;
        self.pieces.insert(start, piece);
    }

    fn take(&mut self, start: u64) -> Option<Vec<u8>> {
        let piece = self.pieces.remove(&start)?;
        self.size -= piece.len() + PIECE;
        Some(piece)
    }
}

fn end_of(start: u64, piece: &[u8]) -> u64 {
    start + piece.len() as u64
}

/// Where `place` is in a piece of this length that begins at `start`.
fn offset(start: u64, place: u64, length: usize) -> usize {
    usize::try_from(place.saturating_sub(start)).map_or(length, |offset| offset.min(length))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct Memory(Mutex<Vec<u8>>);

    impl SyncedFile for Memory {
        fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            let mut file = self.0.lock().unwrap();
            let at = usize::try_from(at).unwrap();
            let length = file.len().max(at + bytes.len());
            file.resize(length, 0);
            file[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn set_len(&self, length: u64) -> io::Result<()> {
            self.0.lock().unwrap().resize(usize::try_from(length).unwrap(), 0);
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().unwrap().len() as u64)
        }

        fn read_at(&self, _at: u64, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn write_again_reproduces_overlapping_writes() {
        let mut random = 7_u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        for _ in 0..2000 {
            let (file, again) = (Memory::default(), Memory::default());
            let mut halves = [Unsynced::default(), Unsynced::default()];
            for (number, half) in (1_u8..).zip([0, 0, 0, 0, 1, 1, 1, 1]) {
                if half == 0 && below(5) == 0 {
                    let length = below(30);
                    let length = length.min(file.len().unwrap());
                    file.set_len(length).unwrap();
                    halves[half].cut(length);
                    continue;
                }
                let bytes = vec![number; usize::try_from(1 + below(9)).unwrap()];
                let at = below(24);
                file.write_all_at(&bytes, at).unwrap();
                halves[half].wrote(at, &bytes);
            }
            let [first, second] = halves;
            let all = first.followed_by(second);
            assert!(all.write_again(&again).unwrap());
            let (length, size) = (again.len().unwrap(), all.size);
            assert!(length <= file.len().unwrap());
            assert_eq!(
                file.0.lock().unwrap()[..usize::try_from(length).unwrap()],
                again.0.lock().unwrap()[..]
            );
            assert_eq!(size, all.pieces.values().map(|piece| piece.len() + PIECE).sum::<usize>());
            let ends: Vec<u64> = all.pieces.iter().map(|(start, piece)| end_of(*start, piece)).collect();
            assert!(ends.iter().zip(all.pieces.keys().skip(1)).all(|(end, next)| end <= next));
        }
    }

    #[test]
    fn above_the_limit_nothing_is_kept() {
        let mut unsynced = Unsynced::at_most(200);
        unsynced.wrote(0, &[1; 100]);
        assert!(unsynced.write_again(&Memory::default()).unwrap());
        unsynced.wrote(500, &[1; 100]);
        let file = Memory::default();
        assert!(!unsynced.write_again(&file).unwrap());
        assert_eq!(file.len().unwrap(), 0);
        let later = Unsynced::default().followed_by(unsynced);
        assert!(!later.write_again(&file).unwrap());
    }
}
