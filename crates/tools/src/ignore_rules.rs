//! Ignore files: `.gitignore`, `.geminiignore` and custom ones.
//!
//! Custom files come first (earlier ones win), then `.geminiignore`, then `.gitignore` from the deepest folder
//! upwards, then `.git/info/exclude`. The first file with a rule for a path decides, so a negation works across
//! files. Everything in an ignored folder is ignored.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use pollux_domain::sync::Locked as _;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// No list of rules is longer; the rest of a giant is left out.
const MAX_BYTES: u64 = 1 << 20;

/// Which kinds of ignore files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Respect {
    pub(crate) git: bool,
    pub(crate) gemini: bool,
}

/// The ignore files of the workspace. Files are read when first needed and again when they change.
#[derive(Debug)]
pub(crate) struct IgnoreRules {
    roots: Vec<Root>,
    files: Mutex<HashMap<PathBuf, Loaded>>,
}

/// The rules for the entries of one folder, in order of precedence.
#[derive(Debug)]
pub(crate) struct FolderRules {
    rules: Vec<Arc<Gitignore>>,
    hides_git: bool,
}

impl FolderRules {
    /// Whether an entry of the folder is ignored; the first matching rule decides.
    pub(crate) fn ignore(&self, entry: &Path, is_dir: bool) -> bool {
        let mut verdicts = self.rules.iter().map(|rules| rules.matched(entry, is_dir));
        match verdicts.find(|verdict| !verdict.is_none()) {
            Some(verdict) => verdict.is_ignore(),
            None => self.hides_git && entry.file_name().is_some_and(|name| name == ".git"),
        }
    }
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
            let rules = self.for_folder(&prefix, respect);
            prefix.push(part);
            let is_last = index + 1 == count;
            rules.ignore(&prefix, is_dir || !is_last)
        })
    }

    /// The rules for the entries of one folder, which itself must not be ignored.
    pub(crate) fn for_folder(&self, folder: &Path, respect: Respect) -> FolderRules {
        let mut rules = Vec::new();
        let Some(root) = self.root_of(folder) else { return FolderRules { rules, hides_git: false } };
        if respect.gemini {
            rules.extend(root.gemini.iter().filter_map(|file| self.load(file, &root.directory)));
        }
        // Without a repository `.gitignore` means nothing.
        let repository = root.directory.ancestors().find(|folder| folder.join(".git").exists());
        if let Some(repository) = repository.filter(|_| respect.git) {
            let folders = folder.ancestors().take_while(|folder| folder.starts_with(repository));
            rules.extend(folders.filter_map(|folder| self.load(&folder.join(".gitignore"), folder)));
            rules.extend(self.load(&repository.join(".git/info/exclude"), repository));
        }
        FolderRules { rules, hides_git: respect.git }
    }

    fn load(&self, file: &Path, rooted_at: &Path) -> Option<Arc<Gitignore>> {
        let metadata = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
        let stamp = (metadata.modified().ok(), metadata.len());
        let mut files = self.files.locked();
        if let Some(loaded) = files.get(file).filter(|loaded| loaded.stamp == stamp) {
            return Some(Arc::clone(&loaded.rules));
        }
        let mut builder = GitignoreBuilder::new(rooted_at);
        for line in read_lines(file)?.lines() {
            // Lines that are not valid patterns are skipped, as in git.
            let _ = builder.add_line(Some(file.to_owned()), line);
        }
        let rules = Arc::new(builder.build().unwrap_or_else(|_| Gitignore::empty()));
        files.insert(file.to_owned(), Loaded { stamp, rules: Arc::clone(&rules) });
        Some(rules)
    }

    /// The innermost workspace directory that contains the path.
    fn root_of(&self, path: &Path) -> Option<&Root> {
        self.roots
            .iter()
            .filter(|root| path.starts_with(&root.directory))
            .max_by_key(|root| root.directory.as_os_str().len())
    }
}

/// The text of an ignore file, as far as it is one. A pipe that took its place is not waited for, and git
/// does not follow a `.gitignore` that is a link either.
pub(crate) fn read_lines(file: &Path) -> Option<String> {
    let link = if file.file_name().is_some_and(|name| name == ".gitignore") { libc::O_NOFOLLOW } else { 0 };
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | link).open(file).ok()?;
    if !opened.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    opened.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
