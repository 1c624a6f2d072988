//! The private view of the file system that some levels have: how each path appears.

use std::io;
use std::path::{Path, PathBuf};

use crate::identity::Identity;
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

/// How a path appears inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mount {
    ReadOnly,
    Writable,
    Empty,
    /// A file that cannot be opened.
    Blocked,
    /// Replaced by another folder.
    From(PathBuf),
}

/// A path, how it appears, and its identity when that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) path: PathBuf,
    pub(crate) mount: Mount,
    identity: Option<Identity>,
}

impl Placed {
    pub(crate) fn new(path: PathBuf, mount: Mount) -> Self {
        // Paths covered by another folder do not matter.
        let looked_at = !matches!(mount, Mount::From(_));
        let identity = looked_at.then(|| Identity::of(&path)).flatten();
        Self { path, mount, identity }
    }

    pub(crate) fn write(&self, body: &mut Writer) {
        body.text(self.path.as_os_str());
        match &self.mount {
            Mount::ReadOnly => body.number(0),
            Mount::Writable => body.number(1),
            Mount::Empty => body.number(2),
            Mount::Blocked => body.number(3),
            Mount::From(source) => {
                body.number(4);
                body.text(source.as_os_str());
            }
        }
    }

    pub(crate) fn read(body: &mut Reader<'_>) -> io::Result<Self> {
        let path = body.path()?;
        let mount = match body.number()? {
            0 => Mount::ReadOnly,
            1 => Mount::Writable,
            2 => Mount::Empty,
            3 => Mount::Blocked,
            4 => Mount::From(body.path()?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self { path, mount, identity: None })
    }
}

/// Every path that differs from the read-only root, parents first, so that the deeper one takes effect. Reads the
/// disk to include new files.
pub(crate) fn mounts(places: &SandboxPaths, scratch: &Path) -> Vec<Placed> {
    let mut mounts = vec![(PathBuf::from("/run"), Mount::Empty)];
    let kept = KEPT_OF_RUN.iter().filter(|path| Path::new(path).exists());
    mounts.extend(kept.map(|path| (PathBuf::from(path), Mount::ReadOnly)));
    mounts.extend(places.temp.iter().map(|path| (path.clone(), Mount::From(scratch.to_owned()))));
    let covered =
        |path: &Path| path.starts_with("/run") || places.temp.iter().any(|temp| path.starts_with(temp));
    // A home inside a replaced folder would disappear.
    mounts
        .extend(places.homes.iter().filter(|home| covered(home)).map(|home| (home.clone(), Mount::ReadOnly)));
    let shown = || places.homes.iter().chain(&places.writable);
    for path in &places.hidden {
        match path.symlink_metadata() {
            // A folder that does not exist inside contains nothing to hide.
            _ if covered(path) && !shown().any(|tree| path.starts_with(tree)) => {}
            Ok(meta) if meta.is_dir() => mounts.push((path.clone(), Mount::Empty)),
            Ok(meta) if !meta.is_symlink() => mounts.push((path.clone(), Mount::Blocked)),
            Ok(_) | Err(_) => {}
        }
    }
    // They were real paths: one that is a link now was replaced.
    let is_real = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink());
    mounts.extend(places.writable.iter().filter(is_real).map(|path| (path.clone(), Mount::Writable)));
    mounts.extend(places.pinned.iter().filter(is_real).map(|path| (path.clone(), Mount::Writable)));
    let protected = places.protected.iter().filter(is_real);
    mounts.extend(protected.map(|path| (path.clone(), Mount::ReadOnly)));
    let seen = places.visible.iter().filter(is_real);
    mounts.extend(seen.map(|path| (path.clone(), Mount::ReadOnly)));
    mounts.sort_by_key(|(path, _)| path.components().count());
    mounts.into_iter().map(|(path, mount)| Placed::new(path, mount)).collect()
}

#[cfg(test)]
mod tests;
