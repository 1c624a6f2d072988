//! Finds the git repositories in a workspace: nested ones, submodules, work trees and bare ones.
//!
//! Called after every command, so a folder whose time has not changed is not listed again. Large workspaces are not
//! searched completely.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::paths::PROTECTED;

const MAX_DEPTH: usize = 16;
/// Entries of the first search, which takes some 20 ms on a machine with nothing else to do.
const MAX_ENTRIES: usize = 20_000;
/// That many are looked at however long it takes: a busy machine must not make a small workspace seem large.
const MIN_ENTRIES: usize = 2000;
/// For the first search on a slow disk or a busy machine. What it leaves out is not protected, so the next command's
/// search goes on from there: it need not list again what is listed.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// For all these searches together, so that not every command waits.
const TOTAL_TIME_LIMIT: Duration = Duration::from_secs(10);
/// Later searches of a workspace that is too large, or too slow, to be searched completely.
const PARTIAL_TIME_LIMIT: Duration = Duration::from_millis(20);
/// Where the first search was complete, whatever takes longer later was created by commands.
const MAX_NEW_ENTRIES: usize = 500_000;
const NEW_TIME_LIMIT: Duration = Duration::from_secs(3);
const MAX_NESTED: usize = 200;
/// Times of folders are that coarse.
const TICK: Duration = Duration::from_millis(100);
/// Folders with many files and, usually, no repositories of interest.
const SKIPPED: &[&str] = &["node_modules", "target", ".venv", "dist"];

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A repository's own folder.
    Repository,
    /// The same of a submodule.
    Module,
    /// The part of a repository's folder that belongs to a work tree.
    WorkTree,
    /// A file or link `.git` that leads to such a folder.
    Pointer,
}

#[derive(Debug)]
pub(super) struct Finder {
    roots: Vec<PathBuf>,
    /// Repositories of the workspace itself: only their submodules and work trees are of interest.
    pinned: Vec<PathBuf>,
    listed: HashMap<PathBuf, Listed>,
    /// How long the first search may take, and later ones of a workspace that took longer.
    time_limit: Duration,
    /// What is left of the limit for the searches before commands, until one is complete.
    time_left: Duration,
    /// Whether the search before a command was complete; `None` while a later one may still be.
    is_whole: Option<bool>,
    /// Folders that the last search before a command did not reach. What is in them is not new, so that searches after
    /// the command leave them out, too.
    unreached: HashSet<PathBuf>,
    /// Whether the last one was not, although the first was.
    pub(super) is_flooded: bool,
    /// Folders and files below the top that other programs act on, as of the last search.
    pub(super) nested: Vec<PathBuf>,
}

/// Where a search ended early.
struct Cut {
    /// Whether only the time ran out.
    is_late: bool,
    unreached: Vec<PathBuf>,
}

/// A folder as it was.
#[derive(Debug, Clone, Default)]
struct Listed {
    modified: Option<SystemTime>,
    listed: Option<SystemTime>,
    folders: Vec<OsString>,
    git: Option<Kind>,
    is_bare: bool,
    nested: Vec<OsString>,
    entries: usize,
}

impl Finder {
    pub(super) fn new(roots: &[PathBuf], pinned: &[PathBuf]) -> Self {
        Self {
            roots: roots.to_vec(),
            pinned: pinned.to_vec(),
            listed: HashMap::new(),
            time_limit: TIME_LIMIT,
            time_left: TOTAL_TIME_LIMIT,
            is_whole: None,
            unreached: HashSet::new(),
            is_flooded: false,
            nested: Vec::new(),
        }
    }

    /// Everything that there is before a command, with its place.
    pub(super) fn find_before(&mut self) -> Vec<(PathBuf, Kind)> {
        self.unreached.clear();
        let (max_entries, time_limit) = match self.is_whole {
            None => (MAX_ENTRIES, self.time_limit.min(self.time_left)),
            Some(_) => self.limits(),
        };
        let started = Instant::now();
        let (found, cut) = self.search(max_entries, time_limit);
        if self.is_whole.is_none() {
            self.time_left = self.time_left.saturating_sub(started.elapsed());
            self.is_whole = match &cut {
                None => Some(true),
                Some(cut) if cut.is_late && !self.time_left.is_zero() => None,
                Some(_) => Some(false),
            };
        }
        self.is_flooded = cut.is_some() && self.is_whole == Some(true);
        self.unreached = cut.into_iter().flat_map(|cut| cut.unreached).collect();
        found
    }

    /// Everything that there is now, with its place, except where the search before the command did not get.
    pub(super) fn find(&mut self) -> Vec<(PathBuf, Kind)> {
        let (max_entries, time_limit) = self.limits();
        let (found, cut) = self.search(max_entries, time_limit);
        self.is_flooded = cut.is_some() && self.is_whole == Some(true);
        found
    }

    fn limits(&self) -> (usize, Duration) {
        match self.is_whole {
            Some(true) => (MAX_NEW_ENTRIES, NEW_TIME_LIMIT),
            Some(false) | None => (MAX_ENTRIES, self.time_limit.min(PARTIAL_TIME_LIMIT)),
        }
    }

    fn search(&mut self, max_entries: usize, time_limit: Duration) -> (Vec<(PathBuf, Kind)>, Option<Cut>) {
        let mut found = Vec::new();
        for git in self.pinned.clone() {
            self.inside(&git, 0, &mut found);
        }
        let (started, mut entries, mut cut) = (Instant::now(), 0, None);
        self.nested.clear();
        let mut waiting: VecDeque<(PathBuf, usize)> =
            self.roots.iter().map(|root| (root.clone(), 0)).collect();
        while let Some((folder, depth)) = waiting.pop_front() {
            if self.unreached.contains(&folder) {
                continue;
            }
            let is_late = entries > MIN_ENTRIES && started.elapsed() > time_limit;
            if entries > max_entries || is_late {
                let left = waiting.into_iter().map(|(folder, _)| folder);
                let unreached = std::iter::once(folder).chain(left).collect();
                cut = Some(Cut { is_late: entries <= max_entries, unreached });
                break;
            }
            let listed = self.list(&folder).clone();
            entries += listed.entries;
            if listed.is_bare {
                self.inside(&folder, 0, &mut found);
                found.push((folder, Kind::Repository));
                continue;
            }
            if depth > 0 && self.nested.len() < MAX_NESTED {
                self.nested.extend(listed.nested.iter().map(|name| folder.join(name)));
            }
            let git = folder.join(".git");
            if let Some(kind) = listed.git.filter(|_| !self.pinned.contains(&git)) {
                if kind == Kind::Repository {
                    self.inside(&git, 0, &mut found);
                }
                found.push((git, kind));
            }
            if depth < MAX_DEPTH {
                waiting.extend(listed.folders.iter().map(|name| (folder.join(name), depth + 1)));
            }
        }
        (found, cut)
    }

    /// Submodules and work trees in a repository's folder.
    fn inside(&mut self, git: &Path, depth: usize, found: &mut Vec<(PathBuf, Kind)>) {
        if depth > MAX_DEPTH {
            return;
        }
        let trees = git.join("worktrees");
        for name in self.list(&trees).folders.clone() {
            found.push((trees.join(name), Kind::WorkTree));
        }
        let mut waiting = vec![git.join("modules")];
        while let Some(folder) = waiting.pop() {
            for name in self.list(&folder).folders.clone() {
                let module = folder.join(name);
                if module.join("HEAD").symlink_metadata().is_ok() {
                    self.inside(&module, depth + 1, found);
                    found.push((module, Kind::Module));
                } else if module.components().count() <= git.components().count() + MAX_DEPTH {
                    waiting.push(module);
                }
            }
        }
    }

    fn list(&mut self, folder: &Path) -> &Listed {
        let entry = self.listed.entry(folder.to_owned()).or_default();
        let modified = fs::symlink_metadata(folder).ok().filter(fs::Metadata::is_dir);
        // Not its time of modification, which a command can set back.
        let modified = modified.map(|meta| {
            let seconds = Duration::from_secs(meta.ctime().unsigned_abs());
            UNIX_EPOCH + seconds + Duration::from_nanos(meta.ctime_nsec().unsigned_abs())
        });
        let is_settled = match (entry.listed, modified) {
            (Some(listed), Some(modified)) => modified + TICK < listed,
            _ => false,
        };
        if modified.is_none() {
            *entry = Listed::default();
        } else if entry.modified != modified || !is_settled {
            *entry = read(folder);
            entry.modified = modified;
        }
        entry
    }
}

fn read(folder: &Path) -> Listed {
    let mut listed = Listed { listed: Some(SystemTime::now()), ..Listed::default() };
    let mut parts = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        listed.entries += 1;
        let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
        match name.to_str() {
            Some(".git") => listed.git = Some(if kind.is_dir() { Kind::Repository } else { Kind::Pointer }),
            Some("HEAD" | "objects" | "refs") => {
                parts += 1;
                listed.folders.extend(kind.is_dir().then_some(name));
            }
            // It names the folder that has the other parts.
            Some("commondir") => parts += 2,
            Some(name) if SKIPPED.contains(&name) => {}
            Some(known) if PROTECTED.contains(&known) => {
                listed.folders.extend(kind.is_dir().then(|| name.clone()));
                listed.nested.push(name);
            }
            _ if kind.is_dir() => listed.folders.push(name),
            _ => {}
        }
    }
    listed.is_bare = parts >= 3;
    listed
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use super::*;

    #[test]
    fn nested_bare_and_new_repositories_modules_and_work_trees_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for path in [
            ".git/modules/lib/m",
            ".git/modules/group/deep",
            ".git/worktrees/t",
            "a/b/.git",
            "node_modules/x/.git",
            "bare/objects",
            "bare/refs",
            "split",
        ] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for path in [
            ".git/modules/lib/HEAD",
            ".git/modules/group/deep/HEAD",
            "bare/HEAD",
            "split/HEAD",
            "split/commondir",
        ] {
            fs::write(root.join(path), "").unwrap();
        }
        fs::create_dir(root.join("tree")).unwrap();
        fs::write(root.join("tree/.git"), "gitdir: ../.git/worktrees/t\n").unwrap();
        let mut finder = Finder::new(std::slice::from_ref(&root), &[root.join(".git")]);
        let find = |finder: &mut Finder| {
            let mut found: Vec<(String, Kind)> = finder
                .find()
                .into_iter()
                .map(|(path, kind)| (path.strip_prefix(&root).unwrap().display().to_string(), kind))
                .collect();
            found.sort_by(|one, other| one.0.cmp(&other.0));
            found
        };
        let mut expected = vec![
            (".git/modules/group/deep".to_owned(), Kind::Module),
            (".git/modules/lib".to_owned(), Kind::Module),
            (".git/worktrees/t".to_owned(), Kind::WorkTree),
            ("a/b/.git".to_owned(), Kind::Repository),
            ("bare".to_owned(), Kind::Repository),
            ("split".to_owned(), Kind::Repository),
            ("tree/.git".to_owned(), Kind::Pointer),
        ];
        assert_eq!(finder.find_before().len(), expected.len());
        assert_eq!(find(&mut finder), expected);
        fs::create_dir_all(root.join("a/c/.git")).unwrap();
        expected.insert(4, ("a/c/.git".to_owned(), Kind::Repository));
        assert_eq!(find(&mut finder), expected, "at once");
        fs::remove_dir_all(root.join("a")).unwrap();
        expected.drain(3..5);
        assert_eq!(find(&mut finder), expected);
    }

    #[test]
    fn a_small_workspace_is_searched_completely_however_slow_the_machine_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let mut finder = Finder::new(std::slice::from_ref(&root), &[]);
        finder.time_limit = Duration::ZERO;
        assert_eq!(finder.find_before(), []);
        fs::create_dir_all(root.join("a/b/.git")).unwrap();
        assert_eq!(finder.find(), [(root.join("a/b/.git"), Kind::Repository)]);
        // A large one is not.
        for number in 0..MIN_ENTRIES {
            fs::write(root.join(format!("a/b/{number}")), "").unwrap();
        }
        fs::create_dir_all(root.join("a/b/c/.git")).unwrap();
        let mut finder = Finder::new(std::slice::from_ref(&root), &[]);
        finder.time_limit = Duration::ZERO;
        let (first, second) =
            ((root.join("a/b/.git"), Kind::Repository), (root.join("a/b/c/.git"), Kind::Repository));
        assert_eq!(finder.find_before(), vec![first.clone()]);
        // What was not reached is not taken for new, and the next command's search goes on.
        finder.time_limit = Duration::from_secs(600);
        fs::create_dir_all(root.join("a/d/.git")).unwrap();
        let third = (root.join("a/d/.git"), Kind::Repository);
        let mut found = finder.find();
        found.retain(|found| *found != third);
        assert_eq!((found, finder.is_whole), (vec![first.clone()], None));
        fs::remove_dir_all(root.join("a/d")).unwrap();
        finder.time_left = Duration::from_secs(600);
        assert_eq!((finder.find_before(), finder.is_whole), (vec![first.clone(), second], Some(true)));
        // But not without limit.
        let mut finder = Finder::new(std::slice::from_ref(&root), &[]);
        finder.time_left = Duration::ZERO;
        assert_eq!((finder.find_before(), finder.is_whole), (vec![first], Some(false)));
    }

    #[test]
    fn many_folders_do_not_hide_a_new_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("src")).unwrap();
        let mut finder = Finder::new(std::slice::from_ref(&root), &[]);
        assert_eq!(finder.find_before(), []);
        for number in 0..3000 {
            fs::create_dir_all(root.join(format!("src/{number}/a"))).unwrap();
        }
        let deep = root.join("src/2999/b/c/d/e/f/g/h/.git");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir_all(root.join("src/7/.vscode")).unwrap();
        fs::create_dir_all(root.join(".vscode")).unwrap();
        assert_eq!(finder.find(), [(deep, Kind::Repository)]);
        assert!(!finder.is_flooded);
        assert_eq!(finder.nested, [root.join("src/7/.vscode")], "the one at the top has its own protection");
    }
}
