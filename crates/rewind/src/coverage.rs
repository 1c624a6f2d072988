//! Reports the files that a rewind cannot restore.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Why something is not covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The file is above the limit for one file.
    TooLarge,
    /// The files together are above the limit for a workspace.
    TreeFull,
    /// The store of old contents is full.
    StoreFull,
    /// The workspace has more entries than the limit.
    TooMany,
    /// No permission to read it.
    Unreadable,
    /// It kept changing while being read.
    Changing,
    /// A socket, pipe or device.
    Special,
    /// A cache or something that the settings leave out.
    Skipped,
    /// Another file system is mounted there.
    OtherFileSystem,
    /// It is not below the root.
    Outside,
}

impl Reason {
    /// Whether the user chose it, so that there is nothing to tell.
    pub fn is_wanted(self) -> bool {
        matches!(self, Self::Skipped | Self::Special)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "too large",
            Self::TreeFull => "the workspace is larger than the limit",
            Self::StoreFull => "the backup store is full",
            Self::TooMany => "too many files",
            Self::Unreadable => "not readable",
            Self::Changing => "changed while being read",
            Self::Special => "not a file, folder or link",
            Self::Skipped => "excluded by the settings",
            Self::OtherFileSystem => "on another file system",
            Self::Outside => "outside the workspace",
        })
    }
}

/// A file, or a folder with all that is in it, that is not covered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uncovered {
    /// Below the root, except for [`Reason::Outside`].
    pub path: PathBuf,
    pub reason: Reason,
}

/// The coverage of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The number of files and folders scanned.
    pub entries: usize,
    /// Paths that would not be restored, sorted.
    pub uncovered: Vec<Uncovered>,
    /// Whether the uncovered things differ from those of the snapshot before.
    pub is_news: bool,
}

impl Coverage {
    /// One line for the user, when there is something new to say.
    pub fn notice(&self) -> Option<String> {
        const NAMED: usize = 3;
        let told: Vec<_> = self.uncovered.iter().filter(|thing| !thing.reason.is_wanted()).collect();
        if !self.is_news || told.is_empty() {
            return None;
        }
        let mut counts = BTreeMap::new();
        for thing in &told {
            *counts.entry(thing.reason).or_insert(0_usize) += 1;
        }
        let why: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let named: Vec<String> =
            told.iter().take(NAMED).map(|thing| format!("`{}`", thing.path.display())).collect();
        let rest = if told.len() > NAMED { ", …" } else { "" };
        Some(format!("a rewind cannot restore everything ({}): {}{rest}", why.join(", "), named.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_counts_by_reason_and_omits_configured_exclusions() {
        let thing = |path: &str, reason| Uncovered { path: path.into(), reason };
        let mut coverage = Coverage {
            entries: 9,
            uncovered: vec![thing("big", Reason::TooLarge), thing("node_modules", Reason::Skipped)],
            is_news: true,
        };
        assert_eq!(
            coverage.notice().as_deref(),
            Some("a rewind cannot restore everything (1 too large): `big`")
        );
        coverage.is_news = false;
        assert_eq!(coverage.notice(), None);
    }
}
