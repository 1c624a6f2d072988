//! Walks the workspace and stamps every path; if there are too many, those nearest to the root come first.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{Dir, FileType};

use crate::beneath;
use crate::coverage::Reason;
use crate::entry::Stamp;
use crate::parallel::map_pieces;
use crate::path::RelPath;
use crate::scope::{CACHE_SIGNATURE, CACHE_TAG, Scope};

/// Folders are handed to threads in pieces of this many,
const PIECE: usize = 8;
/// and so many are listed before it is asked whether there is still room.
const BATCH: usize = 512;

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Sorted by path; begins with the root itself.
    pub(crate) seen: Vec<(RelPath, Stamp)>,
    /// Folders whose content was not listed. A path below one is not known to be absent.
    pub(crate) unlisted: BTreeMap<RelPath, Reason>,
}

/// One folder's content.
enum Listing {
    Entries { found: Vec<(RelPath, Stamp)>, skipped: Vec<RelPath> },
    Cache,
    Closed(Reason),
}

/// Walks the tree level by level, so that a limit cuts the deepest part, the same part every time.
pub(crate) fn scan(root: BorrowedFd<'_>, scope: &Scope) -> io::Result<Scan> {
    let own = beneath::stamp_of_handle(root)?;
    let mut scan = Scan { seen: vec![(RelPath::root(), own)], unlisted: BTreeMap::new() };
    let mut level = vec![RelPath::root()];
    while !level.is_empty() {
        let mut next = Vec::new();
        for batch in level.chunks(BATCH) {
            let room = scope.limits.entries.saturating_sub(scan.seen.len());
            let listings = map_pieces(batch, PIECE, |piece| {
                piece.iter().map(|folder| list(root, folder, own.device, room, scope)).collect()
            });
            for (folder, listing) in batch.iter().zip(listings) {
                scan.add(folder, listing, scope.limits.entries, &mut next);
            }
        }
        level = next;
    }
    // A cache is left alone completely: restoring an empty one would only confuse its tool.
    scan.seen.retain(|(path, stamp)| {
        stamp.kind() != FileType::Directory || scan.unlisted.get(path) != Some(&Reason::Skipped)
    });
    scan.seen.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(scan)
}

impl Scan {
    fn add(&mut self, folder: &RelPath, listing: Listing, most: usize, next: &mut Vec<RelPath>) {
        match listing {
            Listing::Entries { found, skipped } if self.seen.len() + found.len() <= most => {
                self.unlisted.extend(skipped.into_iter().map(|path| (path, Reason::Skipped)));
                let folders = found.iter().filter(|(_, stamp)| stamp.kind() == FileType::Directory);
                next.extend(folders.map(|(path, _)| path.clone()));
                self.seen.extend(found);
            }
            Listing::Entries { .. } => self.close(folder, Reason::TooMany),
            Listing::Cache => self.close(folder, Reason::Skipped),
            Listing::Closed(reason) => self.close(folder, reason),
        }
    }

    fn close(&mut self, folder: &RelPath, reason: Reason) {
        self.unlisted.insert(folder.clone(), reason);
    }
}

fn list(root: BorrowedFd<'_>, folder: &RelPath, device: u64, room: usize, scope: &Scope) -> Listing {
    match try_list(root, folder, device, room, scope) {
        Ok(listing) => listing,
        // It went away between its parent's listing and its own.
        Err(error) if beneath::is_absent(&error) => {
            Listing::Entries { found: Vec::new(), skipped: Vec::new() }
        }
        Err(_) => Listing::Closed(Reason::Unreadable),
    }
}

fn try_list(
    root: BorrowedFd<'_>,
    path: &RelPath,
    device: u64,
    room: usize,
    scope: &Scope,
) -> io::Result<Listing> {
    let folder = beneath::listable(beneath::descend(root, path)?)?;
    if beneath::stamp_of_handle(&folder)?.device != device {
        return Ok(Listing::Closed(Reason::OtherFileSystem));
    }
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if name == CACHE_TAG && !path.is_root() && is_cache(folder.as_fd()) {
            return Ok(Listing::Cache);
        }
        let below = path.join(name);
        if scope.is_ours(&below) {
            continue;
        }
        let stamp = match beneath::stamp_of(&folder, name) {
            Ok(stamp) => stamp,
            Err(error) if beneath::is_absent(&error) => continue,
            Err(error) => return Err(error),
        };
        if scope.skips(&below, stamp.kind() == FileType::Directory) {
            skipped.push(below);
        } else {
            found.push((below, stamp));
        }
        // Enough to know that it does not fit.
        if found.len() > room {
            return Ok(Listing::Closed(Reason::TooMany));
        }
    }
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(Listing::Entries { found, skipped })
}

fn is_cache(folder: BorrowedFd<'_>) -> bool {
    let mut start = Vec::new();
    let read = beneath::open_file(folder, CACHE_TAG)
        .and_then(|file| file.take(CACHE_SIGNATURE.len() as u64).read_to_end(&mut start));
    read.is_ok() && start == CACHE_SIGNATURE
}
