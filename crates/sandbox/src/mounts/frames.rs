//! Folders that contain secrets next to other files become frames: they show what is in them now, except the secrets,
//! and nothing that appears later.
//!
//! A cover over a single file is not enough: it goes away together with the file if a program outside replaces it, and
//! it cannot be put over a file that does not exist yet.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::DirEntryExt as _;
use std::path::{Path, PathBuf};

use super::{Mount, Placed, is_covered};
use crate::identity::Identity;
use crate::paths::{SandboxPaths, is_history};

/// A folder with more entries at the start is no frame; single files in it are covered instead. One that grows later
/// stays a frame: without it, everything that it showed would disappear.
const MAX_ENTRIES: usize = 500;

/// Adds the frames of the homes with everything that they show.
pub(super) fn add(places: &SandboxPaths, around: &[PathBuf], plan: &mut Vec<Placed>) {
    let known: HashSet<PathBuf> = plan.iter().map(|placed| placed.path.clone()).collect();
    let hidden: HashSet<&Path> = places.hidden.iter().map(PathBuf::as_path).collect();
    let mut listed: Vec<(PathBuf, Vec<fs::DirEntry>)> = Vec::new();
    for folder in around {
        listed.extend(list(folder).map(|entries| (folder.clone(), entries)));
    }
    let frames: HashSet<&Path> = listed.iter().map(|(folder, _)| folder.as_path()).collect();
    let mut added: Vec<Placed> = Vec::new();
    for (folder, entries) in &listed {
        let is_home = places.homes.contains(folder);
        for entry in entries {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if hidden.contains(path.as_path()) || known.contains(&path) || frames.contains(path.as_path()) {
                continue;
            }
            let is_secret = is_home && entry.file_name().to_str().is_some_and(is_history);
            let mount = if is_secret { Mount::Blocked } else { Mount::ReadOnly };
            let identity = Some(Identity::listed(entry.ino(), kind));
            added.push(Placed { path, mount, is_framed: true, identity, copied: None });
        }
    }
    let added_frames: Vec<PathBuf> = frames.iter().map(|folder| (*folder).to_owned()).collect();
    // A home that would be shown as it is becomes a frame.
    plan.retain(|placed| !frames.contains(placed.path.as_path()));
    plan.extend(added_frames.into_iter().map(|folder| Placed::new(folder, Mount::Frame)));
    plan.append(&mut added);
}

/// Marks everything that is placed in a frame itself, not in something that the frame shows.
pub(super) fn mark(plan: &mut [Placed]) {
    let is_frame: HashMap<PathBuf, bool> =
        plan.iter().map(|placed| (placed.path.clone(), placed.mount == Mount::Frame)).collect();
    for placed in plan.iter_mut().filter(|placed| !placed.is_framed) {
        let above = placed.path.ancestors().skip(1).find_map(|folder| is_frame.get(folder));
        placed.is_framed = above == Some(&true);
        if placed.is_framed && matches!(placed.mount, Mount::Empty | Mount::Blocked | Mount::Copy(_)) {
            // Nothing is mounted over the original that could go away with it.
            placed.identity = None;
        }
    }
}

/// The folders of the homes with hidden names, parents first, whether they exist or not, except large ones.
pub(super) fn around(places: &SandboxPaths) -> Vec<PathBuf> {
    let is_plain = |home: &&PathBuf| {
        home.parent().is_some() && !is_covered(places, home) && !places.hidden.contains(home)
    };
    let homes: Vec<&PathBuf> = places.homes.iter().filter(is_plain).collect();
    let is_shown_whole = |folder: &Path| {
        let mut whole = places.writable.iter().chain(&places.visible).chain(&places.private);
        whole.any(|tree| folder.starts_with(tree))
    };
    let mut found = BTreeSet::new();
    for path in &places.hidden {
        let Some(home) = homes.iter().find(|home| path.starts_with(home)) else { continue };
        let above = path.ancestors().skip(1).take_while(|folder| folder.starts_with(home));
        found.extend(above.map(Path::to_owned));
    }
    let is_frame = |folder: &PathBuf| {
        let is_hidden = places.hidden.iter().any(|hidden| folder.starts_with(hidden));
        !is_hidden && !is_shown_whole(folder)
    };
    found.into_iter().filter(is_frame).filter(|folder| !is_large(folder)).collect()
}

fn list(folder: &Path) -> Option<Vec<fs::DirEntry>> {
    // These are real paths: one that is a link now was replaced.
    folder.symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
    Some(fs::read_dir(folder).ok()?.flatten().collect())
}

fn is_large(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| entries.take(MAX_ENTRIES + 1).count() > MAX_ENTRIES)
}
