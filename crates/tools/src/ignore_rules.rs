//! Which files the user does not want to be read: `.gitignore`, `.geminiignore` and custom ignore files.
//!
//! Custom files come first (earlier ones win), then `.geminiignore`, then `.gitignore` from the deepest
//! folder upwards, then `.git/info/exclude`. The first that says anything about a path decides, so a negation
//! works across files. What lies in an ignored folder is ignored.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Which kinds of ignore files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Respect {
    pub(crate) git: bool,
    pub(crate) gemini: bool,
}

impl Respect {
    pub(crate) const NOTHING: Self = Self { git: false, gemini: false };
}

/// The ignore files of the workspace. Files are read when first needed and again when they change.
#[derive(Debug)]
pub(crate) struct IgnoreRules {
    roots: Vec<Root>,
    files: Mutex<HashMap<PathBuf, Loaded>>,
}

#[derive(Debug)]
struct Root {
    directory: PathBuf,
    /// Custom files and `.geminiignore`, in order of precedence.
    gemini: Vec<PathBuf>,
}

#[derive(Debug)]
struct Loaded {
    stamp: (Option<SystemTime>, u64),
    rules: Arc<Gitignore>,
}

impl IgnoreRules {
    pub(crate) fn new(directories: &[PathBuf], custom: &[String]) -> Self {
        let root = |directory: &PathBuf| {
            let custom = custom.iter().map(|file| directory.join(file));
            Root {
                directory: directory.clone(),
                gemini: custom.chain([directory.join(".geminiignore")]).collect(),
            }
        };
        Self { roots: directories.iter().map(root).collect(), files: Mutex::default() }
    }

    /// Whether a path, or the target of a link, is ignored.
    pub(crate) fn is_ignored(&self, path: &Path, is_dir: bool, respect: Respect) -> bool {
        if self.is_ignored_as_named(path, is_dir, respect) {
            return true;
        }
        match std::fs::canonicalize(path) {
            Ok(real) if real != path => self.is_ignored_as_named(&real, is_dir, respect),
            _ => false,
        }
    }

    fn is_ignored_as_named(&self, path: &Path, is_dir: bool, respect: Respect) -> bool {
        let Some(root) = self.root_of(path) else { return false };
        let Ok(below) = path.strip_prefix(&root.directory) else { return false };
        let mut prefix = root.directory.clone();
        let count = below.components().count();
        below.components().enumerate().any(|(index, part)| {
            prefix.push(part);
            let is_last = index + 1 == count;
            self.is_ignored_itself(&prefix, is_dir || !is_last, respect)
        })
    }

    /// Whether a path is ignored, provided that the folder it is in is not.
    pub(crate) fn is_ignored_itself(&self, path: &Path, is_dir: bool, respect: Respect) -> bool {
        let Some(root) = self.root_of(path) else { return false };
        if respect.gemini {
            for file in &root.gemini {
                match self.verdict(file, &root.directory, path, is_dir) {
                    Match::Ignore(()) => return true,
                    Match::Whitelist(()) => return false,
                    Match::None => {}
                }
            }
        }
        respect.git && self.git_ignores(root, path, is_dir)
    }

    fn git_ignores(&self, root: &Root, path: &Path, is_dir: bool) -> bool {
        if path.file_name().is_some_and(|name| name == ".git") {
            return true;
        }
        // Without a repository `.gitignore` means nothing.
        let Some(repository) = root.directory.ancestors().find(|folder| folder.join(".git").exists()) else {
            return false;
        };
        let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(repository));
        for folder in folders {
            match self.verdict(&folder.join(".gitignore"), folder, path, is_dir) {
                Match::Ignore(()) => return true,
                Match::Whitelist(()) => return false,
                Match::None => {}
            }
        }
        let exclude = repository.join(".git/info/exclude");
        matches!(self.verdict(&exclude, repository, path, is_dir), Match::Ignore(()))
    }

    fn verdict(&self, file: &Path, rooted_at: &Path, path: &Path, is_dir: bool) -> Match<()> {
        let Some(rules) = self.load(file, rooted_at) else { return Match::None };
        rules.matched(path, is_dir).map(|_| ())
    }

    fn load(&self, file: &Path, rooted_at: &Path) -> Option<Arc<Gitignore>> {
        let metadata = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
        let stamp = (metadata.modified().ok(), metadata.len());
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = files.get(file).filter(|loaded| loaded.stamp == stamp) {
            return Some(Arc::clone(&loaded.rules));
        }
        let mut builder = GitignoreBuilder::new(rooted_at);
        // Lines that are no patterns are skipped, as git does.
        let _ = builder.add(file);
        let rules = Arc::new(builder.build().unwrap_or_else(|_| Gitignore::empty()));
        files.insert(file.to_owned(), Loaded { stamp, rules: Arc::clone(&rules) });
        Some(rules)
    }

    /// The innermost workspace directory that holds the path.
    fn root_of(&self, path: &Path) -> Option<&Root> {
        self.roots
            .iter()
            .filter(|root| path.starts_with(&root.directory))
            .max_by_key(|root| root.directory.as_os_str().len())
    }
}
