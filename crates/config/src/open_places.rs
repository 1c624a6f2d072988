//! Places that someone else may write: workspaces, temporary folders and whatever sandboxed commands may change.
//!
//! A file there is not the user's word, and neither is one that a link there leads to. Use this to judge files that
//! Pollux reads or runs outside the sandbox; it says nothing about owners and modes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// As many as the kernel follows.
const MAX_LINKS: usize = 40;

/// Folders and files that someone else may write, with everything below them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenPlaces {
    places: Vec<PathBuf>,
    /// Resolved when first needed, since most runs do not need them.
    real: OnceLock<Vec<PathBuf>>,
}

impl OpenPlaces {
    pub fn new(places: &[PathBuf]) -> Self {
        Self { places: places.to_vec(), real: OnceLock::new() }
    }

    fn real(&self) -> &[PathBuf] {
        let real = |place: &PathBuf| {
            let found = place.canonicalize().ok().or_else(|| follow(place, |_| false));
            found.unwrap_or_else(|| place.clone())
        };
        self.real.get_or_init(|| self.places.iter().map(real).collect())
    }

    /// Whether a path is in such a place, or leads through one on its way. So does a relative path, which may start
    /// anywhere.
    pub fn touch(&self, path: &Path) -> bool {
        let is_inside = |step: &Path| self.real().iter().any(|open| step.starts_with(open));
        let end = follow(path, is_inside);
        // Some file systems do not tell upper from lower case.
        end.is_none_or(|end| end.canonicalize().is_ok_and(|end| is_inside(&end)))
    }

    /// The parts of a folder that are such places, relative to it.
    pub fn below(&self, folder: &Path) -> impl Iterator<Item = &Path> {
        let folder = follow(folder, |_| false);
        self.real().iter().filter_map(move |open| open.strip_prefix(folder.as_ref()?).ok())
    }
}

/// Where a path leads, link by link. `None` if `stops` says so on the way, or if it leads nowhere. What does not exist
/// leads to itself: it may come to exist.
fn follow(path: &Path, stops: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut at = PathBuf::from("/");
    let mut left: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        at.push(part);
        if stops(&at) {
            return None;
        }
        let Ok(target) = fs::read_link(&at) else { continue };
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        at.pop();
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            left.push_front(part);
        }
    }
    Some(at)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_leads_out_of_an_open_place_only_as_long_as_its_writer_wants() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for folder in ["open/sub", "own"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for (target, link) in [
            ("/bin/sh", "own/direct"),
            ("/bin/sh", "open/sub/out"),
            ("../open/sub/out", "own/through"),
            ("../open/missing", "own/dangling"),
            ("turn", "own/turn"),
            ("open/sub", "alias"),
            ("open", "named"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        // An open place can be named by a link.
        for open in [OpenPlaces::new(&[at("open")]), OpenPlaces::new(&[at("named")])] {
            for path in [
                "open",
                "open/sub/out",
                "own/through",
                "own/dangling",
                "own/turn",
                "alias/x",
                "own/../open/x",
                "own/../alias/../y",
            ] {
                assert!(open.touch(&at(path)), "{path}");
            }
            for path in ["", "own", "own/direct", "own/missing", "opened"] {
                assert!(!open.touch(&at(path)), "{path}");
            }
            assert!(open.touch(Path::new("own")), "relative");
            assert_eq!(open.below(&root).collect::<Vec<_>>(), [Path::new("open")]);
            assert_eq!(open.below(&at("own")).count(), 0);
        }
        assert!(!OpenPlaces::default().touch(&at("open")));
    }
}
