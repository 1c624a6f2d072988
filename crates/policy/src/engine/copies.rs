//! Secrets that a command would copy, pack or send: they would be read under another name afterwards.
//!
//! Looks at the names and at all files below them; does not judge what the command writes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Engine;
use super::brought::sources;
use super::reading::untold;
use super::working_dirs::WorkingDirs;
use crate::checker::place;
use crate::disk::{BoundedDisk, EntryKind, finds_any};
use crate::secrets::{is_private_folder, is_secret_name, samples};
use crate::shell::{self, How, Part, Touch};

impl Engine {
    /// Why a command may not copy, pack or send its files.
    pub(super) fn secret_source(
        &self,
        part: &Part,
        touches: &[Touch<'_>],
        places: &WorkingDirs,
    ) -> Option<String> {
        let (mut from, to) = sources(part, touches);
        // A backup keeps the old content of the target under another name. Options of tar name files and folders to pack.
        if shell::brought_by(part) == shell::Brought::Links || shell::packs(part) {
            from.extend(to);
        }
        let elsewhere = shell::packs(part) && packs_elsewhere(part);
        let is_own = |path: &&str| !(elsewhere && matches!(*path, "." | "./"));
        let mut names: Vec<&str> = from.iter().map(|touch| touch.path).filter(is_own).collect();
        let trees = shell::copies_trees(part);
        if trees
            && shell::expands_patterns(part)
            && part.words.iter().flatten().any(|word| word.contains(['*', '?', '[']))
        {
            names.push(".");
        }
        self.secret_among(part, &names, places, trees)
    }

    /// Why git may not read, rename or add its files.
    pub(super) fn secret_of_git(
        &self,
        part: &Part,
        touches: &[Touch<'_>],
        places: &WorkingDirs,
    ) -> Option<String> {
        if shell::git_reads_untracked(part) {
            return Some("it may show files that git does not track".to_owned());
        }
        let mut names = shell::git_option_files(part);
        if !shell::git_names_only(part) {
            // With a slash at its end, it excludes no file.
            let is_excluded = |path: &&str| {
                let marks = [":!", ":^", ":(exclude)"];
                marks.iter().any(|mark| path.starts_with(mark)) && !shell::ends_as_folder(path)
            };
            names.extend(touches.iter().map(|touch| touch.path).filter(|path| !is_excluded(path)));
        }
        // A file of a commit follows a colon, a path behind magic words a bracket.
        let ends: Vec<&str> = names
            .iter()
            .filter_map(|name| Some(name.rsplit_once([':', ')'])?.1.trim_start_matches('/')))
            .collect();
        names.extend(ends);
        let is_pattern = |name: &&&str| {
            let last = name.rsplit('/').next().unwrap_or_default();
            name.contains(['*', '?', '['])
                && last != "*"
                && samples().any(|secret| finds_any(last, &secret))
                && part.patterns.iter().all(|pattern| pattern.text != **name)
        };
        if let Some(pattern) = names.iter().find(is_pattern) {
            return Some(format!("`{pattern}` may match files that contain secrets"));
        }
        let why = self.secret_among(part, &names, places, false);
        why.or_else(|| if shell::git_forces(part) { self.secret_added(part, places) } else { None })
    }

    /// Why ignored files may not be added.
    fn secret_added(&self, part: &Part, places: &WorkingDirs) -> Option<String> {
        let words = part.words.iter().enumerate().skip(shell::git_subcommand(&part.words) + 1);
        let mut names: Vec<&str> = words
            .filter_map(|(at, word)| {
                let pattern = || part.patterns.iter().find(|pattern| pattern.at == at);
                word.as_deref().or_else(|| pattern().map(|pattern| pattern.text.as_str()))
            })
            .filter(|text| !text.starts_with('-'))
            .collect();
        if let Some(name) = names.iter().find(|name| name.starts_with(':')) {
            return Some(format!("`{name}` may add files that contain secrets"));
        }
        // Git expands quoted patterns in all folders below.
        if names.is_empty() || names.iter().any(|name| name.contains(['*', '?', '['])) {
            names.push(".");
        }
        self.secret_among(part, &names, places, true)
    }

    /// Why one of these files, or of those below them, may not be read.
    fn secret_among(&self, part: &Part, names: &[&str], places: &WorkingDirs, trees: bool) -> Option<String> {
        let mut look = BoundedDisk::new(self.options.disk.as_deref()?);
        let mut seen = BTreeSet::new();
        for dir in &places.all {
            for name in names {
                for path in matches(part, name, dir, &mut look) {
                    if let Some(why) = self.secret_name(places, dir, &path) {
                        return Some(why);
                    }
                    let root = place(dir, &path, None);
                    if let Some(why) =
                        trees.then(|| self.secret_below(places, &root, &mut look, &mut seen)).flatten()
                    {
                        return Some(why);
                    }
                }
            }
        }
        None
    }

    /// Why a file or folder may not be read, judging by its name and what it is a link to.
    fn secret_name(&self, places: &WorkingDirs, dir: &Path, path: &str) -> Option<String> {
        let is_private = |path: PathBuf| {
            let below = self.options.workspaces.iter().find_map(|root| path.strip_prefix(root).ok());
            let name = below.unwrap_or(&path).file_name();
            name.is_some_and(|name| is_private_folder(&name.to_string_lossy()))
        };
        if is_private(place(dir, path, None)) || is_private(place(dir, path, self.options.resolve.as_ref())) {
            return Some(format!("it would copy `{path}`, which may contain secrets"));
        }
        self.closed(places, dir, path, &How::Contents)
    }

    /// Why the files below a folder may not be read. Links are followed: some options do, and a link that leads outside
    /// would do so from its copy.
    fn secret_below(
        &self,
        places: &WorkingDirs,
        folder: &Path,
        look: &mut BoundedDisk<'_>,
        seen: &mut BTreeSet<PathBuf>,
    ) -> Option<String> {
        let real = place(folder, "", self.options.resolve.as_ref());
        if look.disk.kind(&real) != Some(EntryKind::Folder) || !seen.insert(real.clone()) {
            return None;
        }
        let entries = match look.list(&real) {
            Ok(entries) => entries,
            Err(why) => return Some(untold(why, &folder.to_string_lossy())),
        };
        entries.into_iter().find_map(|entry| {
            let path = real.join(&entry.name);
            let name = entry.name.to_string_lossy();
            let secret = || Some(format!("it would copy `{}`, which may contain secrets", path.display()));
            match entry.kind {
                EntryKind::Folder if name == ".git" => {
                    self.weigh_config(look, &path.join("config")).err().flatten()
                }
                EntryKind::Folder if is_private_folder(&name) => secret(),
                EntryKind::File | EntryKind::Folder if is_secret_name(&name) => secret(),
                EntryKind::Link => {
                    let Some(text) = path.to_str() else { return secret() };
                    self.secret_name(places, Path::new("/"), text)
                        .or_else(|| self.secret_below(places, &path, look, seen))
                }
                EntryKind::Folder => self.secret_below(places, &path, look, seen),
                EntryKind::File | EntryKind::Other => None,
            }
        })
    }
}

/// Whether the `.` of a `tar` command means the folder of an option before it, which counts as a source itself.
fn packs_elsewhere(part: &Part) -> bool {
    let mut words = part.words.iter().map(|word| word.as_deref().unwrap_or_default());
    let first = words.find(|word| matches!(*word, "." | "./" | "-C") || word.starts_with("--directory="));
    first.is_some_and(|word| word.starts_with('-'))
}

/// A file, or those that a pattern of the command matches. What cannot be listed is judged elsewhere.
pub(super) fn matches(part: &Part, name: &str, dir: &Path, look: &mut BoundedDisk<'_>) -> Vec<String> {
    if !part.patterns.iter().any(|pattern| pattern.text == name) {
        return vec![name.to_owned()];
    }
    let found = look.expand(dir, name).unwrap_or_default();
    found.into_iter().map(|one| one.word).collect()
}
