//! Paths without symlinks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Resolves paths and caches the folders around them: hundreds of paths share a few folders, and resolving each from the
/// root would dominate a short run. Use it for one survey only, because links change. Caches only on Linux; elsewhere,
/// resolving also corrects the case of names.
#[derive(Debug, Default)]
pub(super) struct RealPaths(RefCell<HashMap<OsString, State>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The path exists, and no component of it is a link.
    Plain,
    /// A component of it is a link.
    Linked,
    Missing,
}

impl RealPaths {
    /// The path without symlinks, as far as it exists.
    pub(super) fn real(&self, path: &Path) -> PathBuf {
        let mut parts = path.components();
        let is_simple = parts.next() == Some(Component::RootDir)
            && parts.all(|part| matches!(part, Component::Normal(_)))
            && cfg!(target_os = "linux");
        if !is_simple {
            return resolved(path);
        }
        // Removes a trailing slash: with it, `lstat` follows a final link.
        let path: PathBuf = path.components().collect();
        if self.state(&path) == State::Linked { resolved(&path) } else { path }
    }

    /// The same for a name below a folder that is a real path. The name has no `..` and does not end with a slash.
    pub(super) fn below(&self, folder: &Path, name: &str) -> PathBuf {
        let whole = folder.join(name);
        if self.look(&whole) == State::Linked { resolved(&whole) } else { whole }
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
            "to-a/",
            "to-a//",
            "to-a/.",
            "a/to-b/",
            "a/to-b/.",
            "a/new/",
        ];
        // Run twice: cached folders must not change the result.
        for name in names.into_iter().chain(names) {
            let path = base.join(name);
            let real = known.real(&path);
            assert_eq!(real.as_os_str(), resolved(&path).as_os_str(), "{name}");
            if !name.contains("..") && !name.ends_with(['/', '.']) {
                assert_eq!(known.below(&base, name), real, "{name}");
            }
        }
        assert_eq!(known.real(Path::new("/")), Path::new("/"));
    }
}
