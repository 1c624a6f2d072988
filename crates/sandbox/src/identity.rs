//! Which file a path names.

use std::fs::{FileType, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A file, as long as it exists. File systems give the number of a removed file to the next one, so its kind and its
/// time of birth belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    file: u64,
    kind: u32,
    /// Nanoseconds since 1970; 0 where the file system does not know.
    born: u128,
}

impl Identity {
    /// The file at a path; a link is itself one.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().map(|meta| Self::from(&meta))
    }

    /// As a listing of its folder says, which does not look at the file: it may be on a server that does not answer.
    pub(crate) fn listed(file: u64, kind: FileType) -> Self {
        let kind = match (kind.is_dir(), kind.is_symlink()) {
            (true, _) => 1,
            (_, true) => 2,
            _ => 0,
        };
        Self { device: 0, file, kind, born: 0 }
    }

    /// Whether it is the file of these numbers, which is open and so keeps them.
    pub(crate) fn is_open_as(&self, device: u64, file: u64) -> bool {
        (self.device, self.file) == (device, file)
    }

    /// As text, for [`Identity::parse`].
    pub(crate) fn to_text(self) -> String {
        let Self { device, file, kind, born } = self;
        format!("{device} {file} {kind} {born}")
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let identity = Self {
            device: words.next()?.parse().ok()?,
            file: words.next()?.parse().ok()?,
            kind: words.next()?.parse().ok()?,
            born: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(identity)
    }
}

impl From<&Metadata> for Identity {
    fn from(meta: &Metadata) -> Self {
        let born = meta.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            device: meta.dev(),
            file: meta.ino(),
            kind: meta.mode() & 0o170_000,
            born: born.map_or(0, |since| since.as_nanos()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_takes_the_place_and_the_number_of_another_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a");
        for _ in 0..50 {
            fs::create_dir(&place).unwrap();
            let was = Identity::of(&place).unwrap();
            assert_eq!(Identity::parse(&was.to_text()), Some(was));
            assert_eq!(Identity::of(&place), Some(was));
            fs::remove_dir(&place).unwrap();
            std::os::unix::fs::symlink("/", &place).unwrap();
            assert_ne!(Identity::of(&place), Some(was));
            fs::remove_file(&place).unwrap();
        }
        assert_eq!(Identity::of(&place), None);
        assert_eq!(Identity::parse("1 2 3"), None);
    }
}
