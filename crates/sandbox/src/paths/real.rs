//! Paths without symlinks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Resolves paths, and remembers the folders around them: hundreds of paths share a few, and to look each of them up
/// from the root would be a large part of a short run. For one survey only, since links change.
#[derive(Debug, Default)]
pub(super) struct RealPaths(RefCell<HashMap<OsString, State>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It exists, and so does everything around it; nothing of it is a link.
    Plain,
    /// It or something around it is a link.
    Linked,
    Missing,
}

impl RealPaths {
    /// The path without symlinks, as far as it exists.
    pub(super) fn real(&self, path: &Path) -> PathBuf {
        let mut parts = path.components();
        let is_plain = parts.next() == Some(Component::RootDir)
            && parts.all(|part| matches!(part, Component::Normal(_)))
            && self.state(path) != State::Linked;
        if is_plain { path.components().collect() } else { resolved(path) }
    }

    /// The same for a name below a folder that is a real path.
    pub(super) fn below(&self, folder: &Path, name: &str) -> PathBuf {
        let whole = folder.join(name);
        match self.look(&whole) {
            State::Linked => resolved(&whole),
            State::Plain | State::Missing => whole,
        }
    }

    fn state(&self, path: &Path) -> State {
        if let Some(known) = self.0.borrow().get(path.as_os_str()) {
            return *known;
        }
        let state = self.look(path);
        self.0.borrow_mut().insert(path.as_os_str().to_owned(), state);
        state
    }

    fn look(&self, path: &Path) -> State {
        match path.parent().map(|parent| self.state(parent)) {
            Some(State::Plain) => match fs::symlink_metadata(path) {
                Ok(meta) if meta.is_symlink() => State::Linked,
                Ok(_) => State::Plain,
                Err(_) => State::Missing,
            },
            Some(around) => around,
            None => State::Plain,
        }
    }
}

fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_as_the_system_does_it() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::File::create_new(base.join("a/file")).unwrap();
        for (target, link) in [("a", "to-a"), ("b", "a/to-b"), ("nowhere", "broken"), ("loop", "loop")] {
            std::os::unix::fs::symlink(target, base.join(link)).unwrap();
        }
        let known = RealPaths::default();
        let names = [
            "a",
            "a/b",
            "a/b/",
            "a//b",
            "a/./b",
            "a/../a/b",
            "a/file",
            "a/file/x",
            "a/new",
            "a/new/x",
            "to-a",
            "to-a/b",
            "to-a/new/x",
            "to-a/to-b",
            "to-a/../a",
            "a/to-b",
            "a/to-b/x",
            "broken",
            "broken/x",
            "loop/x",
            "new/../a",
        ];
        // Twice: what is remembered changes nothing.
        for name in names.into_iter().chain(names) {
            let path = base.join(name);
            let real = known.real(&path);
            assert_eq!(real.as_os_str(), resolved(&path).as_os_str(), "{name}");
            if !name.contains("..") {
                assert_eq!(known.below(&base, name), real, "{name}");
            }
        }
        assert_eq!(known.real(Path::new("/")), Path::new("/"));
    }
}
