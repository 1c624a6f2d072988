//! Resolves program names on `PATH`, and decides whether the file found can be trusted.
//!
//! A folder of `PATH` that a repository, a sandboxed command or another user can write to may hold a `cat` of their
//! own. Use this wherever Pollux starts a program by name or vouches for one; it never runs anything.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::open_places::OpenPlaces;

/// Where bash looks if `PATH` is not set.
const DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The folders of `PATH`, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPath {
    folders: Vec<Folder>,
    /// Places that others write to.
    open: OpenPlaces,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Folder {
    path: PathBuf,
    /// Resolved lazily, since most runs do not need it.
    safe: OnceLock<bool>,
}

/// What a program's name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// A file in a folder that only its owner, this user or root, can change.
    Safe(PathBuf),
    /// A file that another user or program may have put there.
    Unsafe(PathBuf),
    Missing,
}

impl SearchPath {
    /// `open` are places that others write to: workspaces, temporary folders.
    pub fn new(path: Option<&OsStr>, open: &[PathBuf]) -> Self {
        let folders = std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT)))
            .map(|path| Folder { path, safe: OnceLock::new() });
        Self { folders: folders.collect(), open: OpenPlaces::new(open) }
    }

    fn is_safe(&self, folder: &Folder) -> bool {
        *folder.safe.get_or_init(|| is_safe(&folder.path, &self.open))
    }

    /// Which file a name means. A name with a slash is a path already and not looked for.
    pub fn find(&self, name: &str) -> Lookup {
        if name.is_empty() || name.contains('/') {
            return Lookup::Missing;
        }
        for folder in &self.folders {
            let file = folder.path.join(name);
            // A folder that depends on where a command stands may hold anything there.
            if !folder.path.is_absolute() {
                return Lookup::Unsafe(file);
            }
            if is_program(&file) {
                return if self.is_safe(folder) { Lookup::Safe(file) } else { Lookup::Unsafe(file) };
            }
        }
        Lookup::Missing
    }

    /// The file that someone else may have put where a name leads, if so. Without an open folder on the path nothing
    /// is looked up.
    pub fn impostor(&self, name: &str) -> Option<PathBuf> {
        if self.folders.iter().all(|folder| self.is_safe(folder)) {
            return None;
        }
        match self.find(name) {
            Lookup::Unsafe(file) => Some(file),
            Lookup::Safe(_) | Lookup::Missing => None,
        }
    }

    /// The first file of this name in a safe folder that is no link to an open place: for helpers of our own, which must
    /// be the real ones. Give them [`Self::for_helpers`] as their `PATH`.
    pub fn find_safe(&self, name: &str) -> Option<PathBuf> {
        let safe = self.folders.iter().filter(|folder| self.is_safe(folder));
        let mut files = safe.map(|folder| folder.path.join(name));
        files.find(|file| !name.contains('/') && is_program(file) && !self.open.touch(file))
    }

    /// A `PATH` for helpers of our own, which may start others: the folders that nobody else writes to, and in which no
    /// name leads to a place that others write to. It is never empty, which would mean the current folder.
    pub fn for_helpers(&self) -> OsString {
        let safe = self.folders.iter().filter(|folder| self.is_safe(folder) && self.leads_nowhere(folder));
        let path = std::env::join_paths(safe.map(|folder| &folder.path)).unwrap_or_default();
        if path.is_empty() { OsString::from("/usr/bin:/bin") } else { path }
    }

    /// Whether no name in a folder leads to an open place.
    fn leads_nowhere(&self, folder: &Folder) -> bool {
        if self.open.below(&folder.path).any(|open| open.components().count() == 1) {
            return false;
        }
        let entries = std::fs::read_dir(&folder.path).into_iter().flatten().flatten();
        let mut links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        !links.any(|link| self.open.touch(&link.path()))
    }

    /// As [`Self::find_safe`], for a program that makes a border around others: where links lead counts, and nobody of
    /// a group may write to it either. Returns where the links lead, because who can write them may change that later. A
    /// program that goes by its name needs it as its first argument.
    pub fn find_guarded(&self, name: &str) -> Option<PathBuf> {
        self.candidates(name, None)
            .filter_map(|file| file.canonicalize().ok())
            .find(|real| !self.open.touch(real) && is_guarded(real) && real.parent().is_some_and(is_guarded))
    }

    /// Every program of this name, best first. Folders that are relative are seen from `directory`, or passed over.
    pub fn candidates(&self, name: &str, directory: Option<&Path>) -> impl Iterator<Item = PathBuf> {
        let folders = self.folders.iter().filter_map(move |folder| match directory {
            Some(directory) => Some(directory.join(&folder.path)),
            None => folder.path.is_absolute().then(|| folder.path.clone()),
        });
        folders.map(move |folder| folder.join(name)).filter(|file| is_program(file))
    }
}

/// Whether only root or this user can put programs into a folder. An empty entry means the current folder.
fn is_safe(folder: &Path, open: &OpenPlaces) -> bool {
    // What does not exist holds no program; it may come to exist, so that its parents count.
    !open.touch(folder) && is_ours(folder)
}

#[cfg(unix)]
fn is_ours(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(facts) = std::fs::metadata(folder) else { return true };
    let mine = std::fs::metadata("/proc/self").map(|own| own.uid()).unwrap_or(facts.uid());
    let owned = facts.uid() == 0 || facts.uid() == mine;
    owned && facts.mode() & 0o002 == 0
}

#[cfg(not(unix))]
fn is_ours(_folder: &Path) -> bool {
    true
}

#[cfg(unix)]
fn is_guarded(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    is_ours(path) && std::fs::metadata(path).is_ok_and(|facts| facts.mode() & 0o022 == 0)
}

#[cfg(not(unix))]
fn is_guarded(_path: &Path) -> bool {
    true
}

/// Whether a path is a file that can be run.
#[cfg(unix)]
pub fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Whether a path is a file that can be run.
#[cfg(not(unix))]
pub fn is_program(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(folder: &Path, name: &str) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let file = folder.join(name);
        #[expect(clippy::disallowed_methods, reason = "a test file")]
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    fn path_of(folders: &[&Path]) -> std::ffi::OsString {
        std::env::join_paths(folders).unwrap()
    }

    #[test]
    fn a_program_of_the_workspace_is_not_the_one_that_was_meant() {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("work");
        let own = program(&work.join("node_modules/.bin"), "cat");
        let safe = program(&root.path().join("bin"), "cat");
        let open = [work.clone()];
        let bin = root.path().join("bin");
        let workspace_bin = work.join("node_modules/.bin");

        let first = SearchPath::new(Some(&path_of(&[&workspace_bin, &bin])), &open);
        assert_eq!(first.find("cat"), Lookup::Unsafe(own.clone()));
        assert_eq!(first.impostor("cat"), Some(own));
        assert_eq!(first.find_safe("cat"), Some(safe.clone()));
        assert_eq!(first.find("dog"), Lookup::Missing);

        let last = SearchPath::new(Some(&path_of(&[&bin, &workspace_bin])), &open);
        assert_eq!(last.find("cat"), Lookup::Safe(safe));
        assert_eq!(last.impostor("cat"), None);
    }

    #[test]
    fn helpers_and_what_they_start_lead_to_no_place_that_others_write() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        program(&at("work/bin"), "npm");
        for folder in ["links", "granted"] {
            std::fs::create_dir(at(folder)).unwrap();
        }
        std::os::unix::fs::symlink(at("work/bin/npm"), at("links/npm")).unwrap();
        program(&at("granted"), "node");
        let own = program(&at("own"), "npm");
        let folders = ["work/bin", "links", "granted", "own"].map(at);
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).chain([Path::new("own")]).collect();
        let search = SearchPath::new(Some(&path_of(&folders)), &[at("work"), at("granted/node")]);
        assert_eq!(search.find_safe("npm"), Some(own));
        assert_eq!(search.find_safe("node"), None);
        assert_eq!(search.for_helpers(), path_of(&[&at("own")]));
        let none = SearchPath::new(Some(&path_of(&[&at("work/bin")])), &[at("work")]);
        assert_eq!(none.for_helpers(), "/usr/bin:/bin");
    }

    #[test]
    fn relative_empty_linked_and_world_writable_folders_are_not_safe() {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("work");
        program(&work.join("bin"), "ls");
        let link = root.path().join("link");
        std::os::unix::fs::symlink(work.join("bin"), &link).unwrap();
        let shared = root.path().join("shared");
        program(&shared, "ls");
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
        for folder in [Path::new(""), Path::new("."), Path::new("bin"), &link, &shared] {
            let path = SearchPath::new(Some(&path_of(&[folder])), std::slice::from_ref(&work));
            assert_eq!(path.find_safe("ls"), None, "{}", folder.display());
            assert!(!path.is_safe(&path.folders[0]), "{}", folder.display());
        }
    }

    #[test]
    fn a_program_that_makes_borders_is_guarded_itself() {
        let root = tempfile::tempdir().unwrap();
        let (bin, work, links) =
            (root.path().join("bin"), root.path().join("work"), root.path().join("links"));
        let own = program(&bin, "bwrap");
        program(&work, "bwrap");
        std::fs::create_dir(&links).unwrap();
        std::os::unix::fs::symlink(work.join("bwrap"), links.join("bwrap")).unwrap();
        let path = path_of(&[Path::new("bin"), &links, &work, &bin]);
        let search = SearchPath::new(Some(&path), &[work.canonicalize().unwrap()]);
        assert_eq!(search.find_guarded("bwrap"), Some(own.clone()));
        for mode in [0o775, 0o757] {
            std::fs::set_permissions(&own, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(search.find_guarded("bwrap"), None, "{mode:o}");
        }
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
        // A link in the workspace may lead elsewhere by the time the program is started.
        std::os::unix::fs::symlink(&own, work.join("podman")).unwrap();
        assert_eq!(search.find_guarded("podman"), Some(own.canonicalize().unwrap()));
        std::fs::set_permissions(&bin, std::fs::Permissions::from_mode(0o775)).unwrap();
        assert_eq!(search.find_guarded("bwrap"), None);
    }

    #[test]
    fn relative_folders_count_only_from_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let (near, far) = (program(&root.path().join("near"), "x"), program(&root.path().join("far"), "x"));
        let path = SearchPath::new(Some(&path_of(&[Path::new("near"), &root.path().join("far")])), &[]);
        assert_eq!(path.candidates("x", None).collect::<Vec<_>>(), std::slice::from_ref(&far));
        assert_eq!(path.candidates("x", Some(root.path())).collect::<Vec<_>>(), [near, far]);
    }

    #[test]
    fn a_name_with_a_slash_is_not_looked_for() {
        let path = SearchPath::new(None, &[]);
        assert_eq!(path.find("../bin/ls"), Lookup::Missing);
        assert!(matches!(path.find("ls"), Lookup::Safe(_)));
    }
}
