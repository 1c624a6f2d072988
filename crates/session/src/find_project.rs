//! Finds a project and its sessions by a part of its name.
//!
//! Session files contain only a hash of the project's path. So a path is either
//! recorded in a home, or found on disk and verified by its hash, or inferred from tool arguments.

mod infer;
mod scan;

pub use scan::default_bases;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pollux_config::paths::{Home, sha256_hex};
use pollux_domain::time::Timestamp;

use crate::listing::{SessionInfo, list};
use crate::projects::{KnownProject, known_projects};

/// What to look for, and where.
#[derive(Debug, Clone)]
pub struct ProjectSearch<'a> {
    /// The homes to search, most important first.
    pub homes: &'a [Home],
    /// Folders to look for projects in; see [`default_bases`].
    pub bases: &'a [PathBuf],
    /// A part of the folder's name, case-insensitive.
    pub name: &'a str,
    /// Maximum depth below a base; usually 3.
    pub depth: usize,
}

/// How well a folder's name matches, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameMatch {
    Exact,
    Prefix,
    Substring,
}

/// Why a path is considered the project's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Recorded in the home.
    Register,
    /// The folder exists and matches the hash of the sessions.
    Hash,
    /// Inferred from tool arguments, and it matches the hash of the sessions.
    PathsAndHash,
    /// Inferred from tool arguments only; a guess.
    Inferred,
}

/// A matching project.
#[derive(Debug, Clone)]
pub struct ProjectCandidate {
    pub root: PathBuf,
    pub matched: NameMatch,
    pub proof: Proof,
    pub chats_dirs: Vec<PathBuf>,
    /// Oldest first.
    pub sessions: Vec<SessionInfo>,
}

/// Finds matching projects with sessions, best first. Read-only; unreadable folders are
/// skipped.
pub fn find_project(search: &ProjectSearch<'_>, now: Timestamp) -> Vec<ProjectCandidate> {
    let name = search.name.trim().to_lowercase();
    if name.is_empty() {
        return Vec::new();
    }
    let known: Vec<KnownProject> = search.homes.iter().flat_map(known_projects).collect();
    let mut found = Found::default();
    for project in &known {
        if let Some(root) = &project.root
            && let Some(matched) = name_match(root, &name)
        {
            found.add(root, matched, Proof::Register, project);
        }
    }
    let by_hash: BTreeMap<&str, Vec<&KnownProject>> =
        known.iter().fold(BTreeMap::new(), |mut map, project| {
            if let Some(hash) = &project.hash {
                map.entry(hash.as_str()).or_insert_with(Vec::new).push(project);
            }
            map
        });
    for folder in scan::folders(search.bases, search.depth, &name) {
        let Some(matched) = name_match(&folder, &name) else { continue };
        for hash in hashes(&folder) {
            for project in by_hash.get(hash.as_str()).into_iter().flatten() {
                found.add(&folder, matched, Proof::Hash, project);
            }
        }
    }
    found.keep_used(now);
    if found.candidates.is_empty() {
        for project in &known {
            if let Some((root, proof)) = infer::root_of(project, &name)
                && let Some(matched) = name_match(&root, &name)
            {
                found.add(&root, matched, proof, project);
            }
        }
        found.keep_used(now);
    }
    found.ranked()
}

/// How well the last component of a path matches; `None` if it does not.
fn name_match(path: &Path, name: &str) -> Option<NameMatch> {
    let own = path.file_name()?.to_string_lossy().to_lowercase();
    if own == name {
        Some(NameMatch::Exact)
    } else if own.starts_with(name) {
        Some(NameMatch::Prefix)
    } else {
        own.contains(name).then_some(NameMatch::Substring)
    }
}

/// The possible project hashes of a path: as given, and with links resolved.
fn hashes(folder: &Path) -> Vec<String> {
    let hash = |path: &Path| sha256_hex(path.to_string_lossy().as_bytes());
    let mut hashes = vec![hash(folder)];
    if let Ok(real) = folder.canonicalize()
        && real != folder
    {
        hashes.push(hash(&real));
    }
    hashes
}

#[derive(Default)]
struct Found {
    candidates: Vec<ProjectCandidate>,
    /// Their roots without links, in the same order.
    real_roots: Vec<PathBuf>,
}

impl Found {
    fn add(&mut self, root: &Path, matched: NameMatch, proof: Proof, project: &KnownProject) {
        let dirs = project.chats_dirs.clone();
        // One folder may have several paths, for example if the home is behind a link.
        let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let known = self.real_roots.iter().position(|known| *known == real);
        match known.and_then(|index| self.candidates.get_mut(index)) {
            Some(known) => {
                for dir in dirs {
                    if !known.chats_dirs.contains(&dir) {
                        known.chats_dirs.push(dir);
                    }
                }
            }
            None => {
                self.real_roots.push(real);
                self.candidates.push(ProjectCandidate {
                    root: root.to_owned(),
                    matched,
                    proof,
                    chats_dirs: dirs,
                    sessions: Vec::new(),
                });
            }
        }
    }

    /// Lists the sessions of the candidates and drops those without any.
    fn keep_used(&mut self, now: Timestamp) {
        for candidate in &mut self.candidates {
            candidate.sessions = list(&candidate.chats_dirs, now).sessions;
        }
        self.candidates.retain(|candidate| !candidate.sessions.is_empty());
        // The positions have changed, and none is added to these.
        self.real_roots.clear();
    }

    /// By the match, then the shallower path, then the later session.
    fn ranked(mut self) -> Vec<ProjectCandidate> {
        self.candidates.sort_by_cached_key(|candidate| {
            let latest = candidate.sessions.iter().map(|session| session.last_updated).max();
            let depth = candidate.root.components().count();
            (candidate.matched, depth, std::cmp::Reverse(latest), candidate.root.clone())
        });
        self.candidates
    }
}

#[cfg(test)]
mod tests;
