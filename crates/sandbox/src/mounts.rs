//! The private view of the file system that some levels have: how each path appears.

mod frames;
mod sockets;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::PathAccess;
use crate::identity::Identity;
use crate::own_program;
use crate::paths::SandboxPaths;
use crate::wire::{Reader, Writer};

/// The visible part of `/run`: host names and, on some systems, all programs. No sockets.
const KEPT_OF_RUN: &[&str] = &[
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
    "/run/resolvconf",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
];
/// Folders in the commands' `/tmp` that replace caches of a home begin with this.
const PRIVATE_CACHE: &str = ".private-cache-";

/// How a path appears inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Mount {
    ReadOnly,
    Writable,
    Empty,
    /// A file that cannot be opened.
    Blocked,
    /// Replaced by another folder.
    From(PathBuf),
    /// A file that is replaced by another one, which cannot be written.
    Copy(PathBuf),
    /// A folder that shows only what is placed in it.
    Frame,
    /// Was placed in a frame, and is not there any more.
    Gone,
    /// A device of this machine.
    Device,
    /// This program, whose file is at that path outside. Any other file there is not shown.
    Own(PathBuf),
}

/// A path, how it appears, and its identity when that was decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Placed {
    pub(crate) path: PathBuf,
    pub(crate) mount: Mount,
    /// Whether it is placed in a frame, so that there is nothing yet to mount it at.
    pub(crate) is_framed: bool,
    identity: Option<Identity>,
    /// The identity of the copy that replaces it: one that is made again has to be mounted again.
    copied: Option<Identity>,
}

impl Placed {
    pub(crate) fn new(path: PathBuf, mount: Mount) -> Self {
        // Paths covered by another folder do not matter.
        let looked_at = !matches!(mount, Mount::From(_) | Mount::Frame | Mount::Own(_));
        let identity = looked_at.then(|| Identity::of(&path)).flatten();
        let copied = match &mount {
            Mount::Copy(copy) => Identity::of(copy),
            _ => None,
        };
        Self { path, mount, is_framed: false, identity, copied }
    }

    pub(crate) fn write(&self, body: &mut Writer) {
        body.text(self.path.as_os_str());
        body.flag(self.is_framed);
        match &self.mount {
            Mount::ReadOnly => body.number(0),
            Mount::Writable => body.number(1),
            Mount::Empty => body.number(2),
            Mount::Blocked => body.number(3),
            Mount::From(source) => {
                body.number(4);
                body.text(source.as_os_str());
            }
            Mount::Frame => body.number(5),
            Mount::Gone => body.number(6),
            Mount::Device => body.number(8),
            Mount::Copy(source) => {
                body.number(7);
                body.text(source.as_os_str());
            }
            Mount::Own(file) => {
                body.number(9);
                body.text(file.as_os_str());
            }
        }
    }

    pub(crate) fn read(body: &mut Reader<'_>) -> io::Result<Self> {
        let (path, is_framed) = (body.path()?, body.flag()?);
        let mount = match body.number()? {
            0 => Mount::ReadOnly,
            1 => Mount::Writable,
            2 => Mount::Empty,
            3 => Mount::Blocked,
            4 => Mount::From(body.path()?),
            5 => Mount::Frame,
            6 => Mount::Gone,
            7 => Mount::Copy(body.path()?),
            8 => Mount::Device,
            9 => Mount::Own(body.path()?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self { path, mount, is_framed, identity: None, copied: None })
    }
}

/// Plans the view of a session, again and again as files appear and are replaced.
#[derive(Debug)]
pub(crate) struct Planner {
    places: Arc<SandboxPaths>,
    scratch: PathBuf,
    /// The folders around hidden files that become frames.
    around: Vec<PathBuf>,
    /// What was in the replaced caches at the start. Later, commands may have put something of the same name there.
    caches: Vec<(PathBuf, Mount)>,
    /// This program's file, if the view has to show it.
    own: Option<PathBuf>,
}

impl Planner {
    pub(crate) fn new(places: &Arc<SandboxPaths>, scratch: &Path, has_frames: bool) -> Self {
        let around = if has_frames { frames::around(places) } else { Vec::new() };
        let mut caches = Vec::new();
        for (number, cache) in places.private.iter().enumerate() {
            let replacement = scratch.join(format!("{PRIVATE_CACHE}{number}"));
            let is_made = fs::create_dir(&replacement).is_ok() || replacement.is_dir();
            // Only in a frame can it be shown without being there.
            let is_framed = cache.parent().is_some_and(|folder| around.iter().any(|frame| frame == folder));
            if !is_made || !(is_framed || cache.is_dir()) {
                continue;
            }
            let entries = fs::read_dir(cache).into_iter().flatten().flatten().map(|entry| entry.path());
            let shown = entries.filter(|path| !places.hidden.contains(path));
            caches.extend(shown.map(|path| (path, Mount::ReadOnly)));
            caches.push((cache.clone(), Mount::From(replacement)));
        }
        Self { places: Arc::clone(places), scratch: scratch.to_owned(), around, caches, own: None }
    }

    /// The same with this program.
    pub(crate) fn with_own(self, own: Option<PathBuf>) -> Self {
        Self { own, ..self }
    }

    /// Every path that differs from the read-only root, parents first, so that the deeper one takes effect. Reads the
    /// disk to include new files.
    pub(crate) fn plan(&self) -> Vec<Placed> {
        let mut plan = self.fixed();
        let known: HashSet<&Path> = plan.iter().map(|placed| placed.path.as_path()).collect();
        let caches = self.caches.iter().filter(|(path, _)| !known.contains(path.as_path()));
        // What was found there at the start is looked at no more.
        let unlooked = |(path, mount): &(PathBuf, Mount)| Placed {
            path: path.clone(),
            mount: mount.clone(),
            is_framed: false,
            identity: None,
            copied: None,
        };
        let caches: Vec<Placed> = caches.map(unlooked).collect();
        plan.extend(caches);
        frames::add(&self.places, &self.around, &mut plan);
        plan.sort_by_key(|placed| placed.path.components().count());
        frames::mark(&mut plan);
        plan
    }

    /// Sockets of other programs that commands could otherwise reach.
    pub(crate) fn sockets(&self) -> io::Result<Vec<Placed>> {
        let reachable = sockets::reachable(&self.places)?.into_iter();
        Ok(reachable.map(|path| Placed::new(path, Mount::Blocked)).collect())
    }

    /// The folders in which a change may concern the plan.
    pub(crate) fn watched(&self) -> Vec<&Path> {
        let all = self.places.hidden.iter().chain(&self.places.protected).filter_map(|path| path.parent());
        let mut seen = HashSet::new();
        all.filter(|path| seen.insert(*path)).collect()
    }

    /// Everything but the contents of frames and of replaced caches.
    fn fixed(&self) -> Vec<Placed> {
        let Self { places, scratch, .. } = self;
        let mut mounts = vec![(PathBuf::from("/run"), Mount::Empty)];
        mounts.extend(self.own.clone().map(|file| (own_program::INSIDE.into(), Mount::Own(file))));
        let kept = KEPT_OF_RUN.iter().filter(|path| Path::new(path).exists());
        mounts.extend(kept.map(|path| (PathBuf::from(path), Mount::ReadOnly)));
        mounts.extend(places.temp.iter().map(|path| (path.clone(), Mount::From(scratch.clone()))));
        let covered = |path: &Path| is_covered(places, path);
        // A home inside a replaced folder would disappear.
        let homes = places.homes.iter().filter(|home| covered(home));
        mounts.extend(homes.map(|home| (home.clone(), Mount::ReadOnly)));
        let shown = || {
            let trees = places.homes.iter().chain(&places.writable);
            trees.chain(&places.visible).chain(&places.protected).chain(&places.private)
        };
        for path in &places.hidden {
            match path.symlink_metadata() {
                // A folder that does not exist inside contains nothing to hide.
                _ if covered(path) && !shown().any(|tree| path.starts_with(tree)) => {}
                Ok(meta) if meta.is_dir() => mounts.push((path.clone(), Mount::Empty)),
                Ok(meta) if !meta.is_symlink() => {
                    mounts.push((path.clone(), copy_of(path, places).unwrap_or(Mount::Blocked)));
                }
                Ok(_) | Err(_) => {}
            }
        }
        // Files in a hidden folder.
        let is_inside =
            |path: &PathBuf| !places.hidden.contains(path) && places.access_to(path).0 == PathAccess::Hidden;
        let inside = places.replaced.iter().filter(|(path, _)| is_inside(path) && path.is_file());
        mounts.extend(inside.filter_map(|(path, _)| Some((path.clone(), copy_of(path, places)?))));
        let overlaid = places.overlaid.iter().filter(|(path, copy)| {
            places.access_to(path).0 == PathAccess::ReadOnly && path.is_file() && copy.is_file()
        });
        mounts.extend(places.devices.iter().map(|path| (path.clone(), Mount::Device)));
        mounts.extend(overlaid.map(|(path, copy)| (path.clone(), Mount::Copy(copy.clone()))));
        // They were real paths: one that is a link now was replaced.
        let is_real = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink());
        let written = places.writable.iter().filter(is_real).filter(|path| !is_within(path, places));
        mounts.extend(written.map(|path| (path.clone(), Mount::Writable)));
        mounts.extend(places.pinned.iter().filter(is_real).map(|path| (path.clone(), Mount::Writable)));
        let protected = places.shown_protected().filter(is_real);
        mounts.extend(protected.map(|path| (path.clone(), Mount::ReadOnly)));
        let seen = places.visible.iter().filter(is_real);
        mounts.extend(seen.map(|path| (path.clone(), Mount::ReadOnly)));
        let shown = mounts.iter().filter(|(_, mount)| !matches!(mount, Mount::Empty | Mount::Blocked));
        // What appears later needs the frame from the beginning: a cover would hide the folder below.
        let later = places.visible.iter().chain(places.replaced.iter().map(|(path, _)| path));
        let shown: Vec<PathBuf> = shown.map(|(path, _)| path).chain(later).cloned().collect();
        let around_shown = |path: &Path| shown.iter().any(|seen| seen != path && seen.starts_with(path));
        let placed = mounts.into_iter().map(|(path, mount)| match mount {
            Mount::Empty if around_shown(&path) => Placed::new(path, Mount::Frame),
            mount => Placed::new(path, mount),
        });
        placed.collect()
    }
}

/// Whether something else appears in place of a path.
fn is_covered(places: &SandboxPaths, path: &Path) -> bool {
    path.starts_with("/run") || places.temp.iter().any(|temp| path.starts_with(temp))
}

/// What has to be mounted, and what removed, to get from one plan to another.
pub(crate) fn changes(before: &[Placed], plan: &[Placed]) -> Vec<Placed> {
    let known: HashSet<&Placed> = before.iter().collect();
    let planned: HashMap<&Path, &Placed> =
        plan.iter().map(|placed| (placed.path.as_path(), placed)).collect();
    let gone =
        before.iter().filter(|placed| placed.is_framed && !planned.contains_key(placed.path.as_path()));
    let mut changes: Vec<Placed> =
        gone.map(|placed| Placed { mount: Mount::Gone, ..placed.clone() }).collect();
    let mut renewed: Vec<&Path> = Vec::new();
    for placed in plan {
        let is_known = known.contains(placed);
        // What was mounted below a place that is mounted again is covered.
        if is_known && !renewed.iter().any(|above| placed.path.starts_with(above)) {
            continue;
        }
        if !is_known {
            renewed.push(&placed.path);
        }
        changes.push(placed.clone());
    }
    changes
}

/// Whether a file can be written anyway, because its folder can: as a mount point, it could not be replaced.
fn is_within(path: &Path, places: &SandboxPaths) -> bool {
    let around = places.writable.iter().filter(|tree| *tree != path && path.starts_with(tree));
    let Some(tree) = around.max_by_key(|tree| tree.components().count()).filter(|_| path.is_file()) else {
        return false;
    };
    let mut others = places.hidden.iter().chain(&places.protected).chain(&places.temp).chain(&places.visible);
    !others.any(|other| path.starts_with(other) && other.starts_with(tree))
}

/// The copy that is seen instead of a hidden file, if there is one.
fn copy_of(path: &Path, places: &SandboxPaths) -> Option<Mount> {
    let (_, copy) = places.replaced.iter().find(|(replaced, copy)| replaced == path && copy.is_file())?;
    Some(Mount::Copy(copy.clone()))
}

#[cfg(test)]
mod tests;
