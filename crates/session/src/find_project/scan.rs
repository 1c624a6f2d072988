//! Searches for folders by name.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Total number of directory entries to examine.
const MAX_ENTRIES: usize = 200_000;
/// Folders whose subfolders are skipped: there are many, but no projects.
const PASSED_OVER: [&str; 3] = ["node_modules", "target", "vendor"];
/// Usual project folders in a home directory.
const USUAL: [&str; 10] =
    ["dev", "projects", "src", "code", "Projects", "Developer", "work", "workspace", "repos", "git"];

/// The folders in which projects are usually found: the home and some in it, if they exist.
pub fn default_bases(user_home: &Path) -> Vec<PathBuf> {
    let mut bases = vec![user_home.to_owned()];
    bases.extend(USUAL.iter().map(|name| user_home.join(name)).filter(|base| base.is_dir()));
    bases
}

/// The folders at most `depth` levels below the bases whose name contains `name`, which is in lower case. A link to a
/// folder is one of them, but it is not descended into, so a link to its own parent is harmless.
pub(super) fn folders(bases: &[PathBuf], depth: usize, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen: HashSet<PathBuf> = HashSet::new();
    let mut entries = 0;
    // Breadth-first, so that nearby folders are found before the limit is reached.
    let mut level: Vec<PathBuf> = bases.to_vec();
    for _ in 0..depth {
        let mut next = Vec::new();
        for folder in level {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                entries += 1;
                if entries > MAX_ENTRIES {
                    return found;
                }
                let Ok(kind) = entry.file_type() else { continue };
                if !kind.is_dir() && !kind.is_symlink() {
                    continue;
                }
                let own = entry.file_name();
                let own = own.to_string_lossy();
                let path = entry.path();
                // What a link leads to is looked up only if its name matches.
                let matches = own.to_lowercase().contains(name) && (kind.is_dir() || path.is_dir());
                if matches && seen.insert(path.clone()) {
                    found.push(path.clone());
                }
                if !kind.is_dir() || own.starts_with('.') || PASSED_OVER.contains(&own.as_ref()) {
                    continue;
                }
                // A base below another one is looked at again, since it goes deeper from there.
                next.push(path);
            }
        }
        next.sort();
        next.dedup();
        level = next;
    }
    found
}
