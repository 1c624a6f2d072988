//! The ignore files that context files and their imports respect.

use std::fs;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use pollux_config::groups::FileFiltering;

/// An ignore file longer than this is not one.
const MAX_BYTES: u64 = 1024 * 1024;

/// `.geminiignore` and custom ones of each folder of the workspace, and whether those of git count.
#[derive(Debug, Clone)]
pub(super) struct Ignored {
    gemini: Vec<(PathBuf, Gitignore)>,
    git: bool,
}

impl Ignored {
    pub(super) fn new(roots: &[PathBuf], filtering: &FileFiltering) -> Self {
        // The last rule that matches decides, and custom files come before `.geminiignore`, earlier ones first.
        let names: Vec<&str> = std::iter::once(".geminiignore")
            .chain(filtering.custom_ignore_files.iter().rev().map(String::as_str))
            .collect();
        let of = |root: &PathBuf| {
            let files: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
            Some((root.clone(), rules(root, &files)?))
        };
        let gemini = filtering.respect_gemini_ignore.then(|| roots.iter().filter_map(of).collect());
        Self { gemini: gemini.unwrap_or_default(), git: filtering.respect_git_ignore }
    }

    /// Whether a file of the workspace is named in `.geminiignore`.
    pub(super) fn by_gemini(&self, file: &Path) -> bool {
        self.gemini.iter().any(|(root, rules)| {
            file.starts_with(root) && rules.matched_path_or_any_parents(file, false).is_ignore()
        })
    }

    /// Whether git ignores a file: the rules of its repository, the deepest folder's first. A repository does not
    /// reach up to a folder that `ends` it.
    pub(super) fn by_git(&self, file: &Path, ends: impl Fn(&Path) -> bool) -> bool {
        let folders = || file.ancestors().skip(1).take_while(|folder| !ends(folder));
        let Some(top) = folders().find(|folder| folder.join(".git").exists()).filter(|_| self.git) else {
            return false;
        };
        let own = folders()
            .take_while(|folder| folder.starts_with(top))
            .filter_map(|folder| rules(folder, &[folder.join(".gitignore")]));
        let verdict = |rules: Gitignore| {
            let found = rules.matched_path_or_any_parents(file, false);
            (!found.is_none()).then(|| found.is_ignore())
        };
        own.chain(rules(top, &[top.join(".git/info/exclude")])).find_map(verdict).unwrap_or(false)
    }
}

/// The rules of those files that exist, for paths below a folder.
fn rules(folder: &Path, files: &[PathBuf]) -> Option<Gitignore> {
    // Reading a pipe would block forever.
    let is_list =
        |file: &PathBuf| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_BYTES);
    let mut found = files.iter().filter(|file| is_list(file)).peekable();
    found.peek()?;
    let mut builder = GitignoreBuilder::new(folder);
    for file in found {
        // Lines that are not valid patterns are skipped, as in git.
        let _problem = builder.add(file);
    }
    builder.build().ok()
}
