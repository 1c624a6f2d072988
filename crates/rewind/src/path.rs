//! A path below the root as bytes, because file names need not be UTF-8.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Relative, without `.`, `..` or empty parts; the root itself is the empty path.
///
/// Ordered by bytes, so a folder comes before what is in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RelPath(Vec<u8>);

impl RelPath {
    pub(crate) fn root() -> Self {
        Self(Vec::new())
    }

    /// Takes bytes that may come from a damaged file.
    pub(crate) fn parse(bytes: Vec<u8>) -> Option<Self> {
        let fits = |part: &[u8]| !part.is_empty() && part != b"." && part != b".." && !part.contains(&0);
        (bytes.is_empty() || bytes.split(|byte| *byte == b'/').all(fits)).then_some(Self(bytes))
    }

    /// The part of `path` below `root`.
    pub(crate) fn below(root: &Path, path: &Path) -> Option<Self> {
        Self::parse(path.strip_prefix(root).ok()?.as_os_str().as_bytes().to_vec())
    }

    pub(crate) fn join(&self, name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    pub(crate) fn to_path_buf(&self) -> PathBuf {
        self.as_path().to_owned()
    }

    /// The parts from the root downwards.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }

    /// The parent folder and the name in it; `None` for the root.
    pub(crate) fn split(&self) -> Option<(Self, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => Some((Self(self.0.get(..at)?.to_vec()), self.0.get(at + 1..)?)),
            None => Some((Self::root(), &self.0)),
        }
    }

    /// The folders above it, the nearest first, the root last.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.split().map(|(parent, _)| parent), |path| {
            path.split().map(|(parent, _)| parent)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn only_paths_that_stay_below_the_root_are_taken() {
        for bad in ["/etc", "a/../b", "..", ".", "a//b", "a/", "a\0b"] {
            assert_eq!(RelPath::parse(bad.as_bytes().to_vec()), None, "{bad}");
        }
        assert_eq!(RelPath::below(Path::new("/p"), Path::new("/p/a/b")), Some(path("a/b")));
        assert_eq!(RelPath::below(Path::new("/p"), Path::new("/q/a")), None);
        assert_eq!(RelPath::below(Path::new("/p"), Path::new("/p/../q")), None);
    }

    #[test]
    fn a_path_is_split_and_joined() {
        let deep = path("a/b").join(b"c");
        assert_eq!(deep, path("a/b/c"));
        assert_eq!(deep.split(), Some((path("a/b"), b"c".as_slice())));
        assert_eq!(deep.ancestors().collect::<Vec<_>>(), [path("a/b"), path("a"), RelPath::root()]);
        assert_eq!(RelPath::root().parts().count(), 0);
        assert!(path("a") < path("a/b"));
    }
}
