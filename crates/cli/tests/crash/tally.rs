//! How often what happened.

use std::fmt;
use std::ops::AddAssign;

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) kills: usize,
    pub(super) resumes: usize,
    pub(super) listings: usize,
    pub(super) rivals: usize,
    pub(super) deletions: usize,
    pub(super) full_disks: usize,
    /// Of these, so many hit the limit and said so.
    pub(super) told_full: usize,
    pub(super) read_only: usize,
    pub(super) rewinds: usize,
    pub(super) renames: usize,
    /// Sessions that were forked, exported and imported, or started twice at once.
    pub(super) copies: usize,
    /// Session files that were deleted or replaced while in use.
    pub(super) displaced: usize,
    /// Sessions of earlier releases that were gone on with.
    pub(super) adopted: usize,
    /// Runs with another time, and on a slow disk.
    pub(super) jumps: usize,
    pub(super) slow: usize,
    /// Files that a kill left with a torn end.
    pub(super) torn: usize,
    pub(super) messages: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.resumes += other.resumes;
        self.listings += other.listings;
        self.rivals += other.rivals;
        self.deletions += other.deletions;
        self.full_disks += other.full_disks;
        self.told_full += other.told_full;
        self.read_only += other.read_only;
        self.rewinds += other.rewinds;
        self.renames += other.renames;
        self.copies += other.copies;
        self.displaced += other.displaced;
        self.adopted += other.adopted;
        self.jumps += other.jumps;
        self.slow += other.slow;
        self.torn += other.torn;
        self.messages += other.messages;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills, {} resumes, {} listings, {} rivals, {} deletions, {} full disks ({} told), {} read-only, \
             {} rewinds, {} renames, {} copies, {} displaced, {} of earlier releases, {} at other times, {} on slow disks, {} torn ends, {} \
             messages",
            self.kills,
            self.resumes,
            self.listings,
            self.rivals,
            self.deletions,
            self.full_disks,
            self.told_full,
            self.read_only,
            self.rewinds,
            self.renames,
            self.copies,
            self.displaced,
            self.adopted,
            self.jumps,
            self.slow,
            self.torn,
            self.messages
        )
    }
}
